# frozen_string_literal: true

module Memprofiler
  class Rack
    # Labels what the app allocates by the request's endpoint.
    #
    # Which controller a request goes to Rails knows only once the app has been called, so there the label is
    # set where the action begins ({Controllers}), and what comes before has none.
    #
    # @api private
    class EndpointLabels
      MAX = 500 # names; each is kept for ever
      OTHER = "(other)"
      KEY = "memprofiler.endpoint_labels" # of the env
      METHODS = %w[GET HEAD POST PUT PATCH DELETE OPTIONS].freeze
      # A part of a path that stands for one of many: a number, a UUID, a digest, a token.
      ID = %r{(?<=/)(?:\d+|\h{8}-\h{4}-\h{4}-\h{4}-\h{12}|(?=[^/]*\d)\h{8,}|(?=[^/]*\d)[\w-]{20,})(?=[/.]|\z)}
      LONGEST = 120 # bytes of a path
      private_constant :METHODS, :ID, :LONGEST

      # Of Rails' controllers. In a module of its own, which nothing else has to be loaded for.
      module Controllers
        def process(action, ...)
          labels = request&.get_header(KEY)
          return super unless labels

          labels.within("#{self.class.controller_path}##{action}") { super }
        end
      end

      # @param label [true, #call]
      # @param most [Integer]
      def initialize(label, most)
        @callable = label unless label == true
        @most = most
        @names = {}
        @lock = Mutex.new
        @complained = false
        watch_controllers unless @callable
      end

      # @param app [#call]
      # @param env [Hash]
      # @return what the app returns
      def call(app, env)
        return within(name_of(env)) { app.call(env) } unless @rails

        env[KEY] = self
        app.call(env)
      end

      # @param name [String, Symbol, nil]
      # @return what the block does
      def within(name)
        name ? Memprofiler.with_labels(endpoint: known(name)) { yield } : yield # rubocop:disable Style/ExplicitBlockArgument
      end

      private

      def watch_controllers
        return unless defined?(::ActionController) && defined?(::ActiveSupport) && ::ActiveSupport.respond_to?(:on_load)

        @rails = true
        ::ActiveSupport.on_load(:action_controller) { prepend Controllers }
      end

      def name_of(env)
        return by_path(env) unless @callable

        name = @callable.call(env)
        name.nil? || name.is_a?(Symbol) ? name : name.to_s
      rescue StandardError => e
        complain(e) unless @complained
        @complained = true
        nil
      end

      def by_path(env)
        method = env["REQUEST_METHOD"]
        path = env["PATH_INFO"].to_s.byteslice(0, LONGEST).scrub("?").gsub(ID, ":id")
        "#{METHODS.include?(method) ? method : OTHER} #{path}"
      end

      def known(name)
        name = name.to_s
        return name if @names.key?(name)

        @lock.synchronize do
          return OTHER if @names.size >= @most

          @names[name.dup.freeze] = true
        end
        name
      end

      def complain(error)
        warn "memprofiler: the label of requests: #{error.class}: #{error.message} (said once; requests go on without)"
      end
    end
  end
end
