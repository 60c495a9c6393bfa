# frozen_string_literal: true

module Memprofiler
  class Rack
    # Labels what the app allocates by the request's endpoint.
    #
    # Where a request goes Rails and Sinatra know only once they have been called. So there the label is set where
    # the action ({Controllers}) or the route ({Routes}) begins, and what comes before has none.
    #
    # @api private
    class EndpointLabels
      MAX = 500 # names; each is kept for ever
      OTHER = "(other)"
      ANONYMOUS = "(anonymous)" # a controller without a name
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
          # What a route takes from the path for an action, and is none, must not use up the names.
          return super unless labels && available_action?(action.to_s)

          labels.within("#{self.class.controller_path || ANONYMOUS}##{action}") { super }
        end
      end

      # Of Sinatra's apps.
      module Routes
        private

        def route_eval
          labels = env[KEY]
          labels ? labels.within(env["sinatra.route"]) { super } : super
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
        watch unless @callable
      end

      # @param app [#call]
      # @param env [Hash]
      # @return what the app returns
      def call(app, env)
        return within(name_of(env)) { app.call(env) } unless @watched

        env[KEY] = self
        app.call(env)
      end

      # @param name [String, Symbol, nil]
      # @return what the block does
      def within(name)
        name ? Memprofiler.with_labels(endpoint: known(name)) { yield } : yield # rubocop:disable Style/ExplicitBlockArgument
      end

      private

      def watch
        @watched = [watch_controllers, watch_routes].any?
      end

      def watch_controllers
        return unless defined?(::ActionController) && defined?(::ActiveSupport) && ::ActiveSupport.respond_to?(:on_load)

        ::ActiveSupport.on_load(:action_controller) { prepend Controllers }
        true
      end

      def watch_routes
        return unless defined?(::Sinatra::Base) && ::Sinatra::Base.private_method_defined?(:route_eval)

        ::Sinatra::Base.prepend(Routes)
        true
      end

      def name_of(env)
        return by_path(env) unless @callable

        name = @callable.call(env)
        return unless name # false, too: `condition && "name"`

        name.is_a?(Symbol) ? name : name.to_s
      rescue StandardError => e
        complain(e)
        nil
      end

      def by_path(env)
        method = env["REQUEST_METHOD"]
        path = env["PATH_INFO"].to_s.byteslice(0, LONGEST).force_encoding(Encoding::UTF_8).scrub("?").gsub(ID, ":id")
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

      # (The request's own words may be in its message.)
      def complain(error)
        return if @complained

        @complained = true
        reason = Printable.error(error)
        Printable.warn("memprofiler: the label of requests: #{reason} (said once; requests go on without)")
      rescue StandardError
        nil # a program may have warnings raise
      end
    end
  end
end
