# frozen_string_literal: true

module Memprofiler
  class Rack
    # Checks what the middleware and the app are given.
    #
    # @api private
    module Options
      PATH = %r{\A(?:/[A-Za-z0-9._~-]+)+\z}
      private_constant :PATH

      module_function

      # @return [String]
      def path(value)
        what = "a String such as \"/debug/pprof\", of letters, digits, -, ., _ and ~, without a / at its end"
        Arguments.check("path", value, what, String) { Arguments.match?(value, PATH) }.dup.freeze
      end

      # @return [#call]
      def app(value)
        Arguments.callable("app", value, "a Rack app, which responds to call")
      end

      # @return [#call, nil]
      def permit(value)
        what = "a callable, which is given the env and says whether the request is allowed, or nil"
        value.nil? ? value : Arguments.callable("permit", value, what)
      end

      # @return [true, #call, nil]
      def label(value)
        return value if value.nil? || value == true

        Arguments.callable("label", value, "true, nil, or a callable, which is given the env and returns a name or nil")
      end

      # @return [Collector, nil]
      def collector(value, start)
        Arguments.check("start", start, "a Hash of Collector.new's options, such as { interval: 512 }", Hash)
        return value if Arguments.collector("collector", value).nil? || start.empty?

        raise ArgumentError, "start must not be given with a collector: it's for the process' own"
      end
    end
  end
end
