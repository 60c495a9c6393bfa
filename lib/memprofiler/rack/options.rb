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
        return value.dup.freeze if value.is_a?(String) && value.match?(PATH)

        refuse(value.is_a?(String) ? ArgumentError : TypeError, "path",
               "a String such as \"/debug/pprof\", of letters, digits, -, ., _ and ~, without a / at its end", value)
      end

      # @return [Integer]
      def integer(name, value, range)
        return value if value.is_a?(Integer) && range.cover?(value)

        refuse(value.is_a?(Integer) ? ArgumentError : TypeError, name,
               "an Integer within #{digits(range.begin)}..#{digits(range.end)}", value)
      end

      # @return [#call, nil]
      def permit(value)
        return value if value.respond_to?(:call)

        refuse(TypeError, "permit", "a callable, which is given the env and says whether the request is allowed", value)
      end

      # @return [true, #call, nil]
      def label(value)
        return value if value.nil? || value == true || value.respond_to?(:call)

        refuse(TypeError, "label", "true, nil, or a callable, which is given the env and returns a name or nil", value)
      end

      # @return [Collector, nil]
      def collector(value, start)
        unless start.is_a?(Hash)
          refuse(TypeError, "start", "a Hash of Collector.new's options, such as { interval: 512 }", start)
        end
        return if value.nil?

        refuse(TypeError, "collector", "a Memprofiler::Collector, or nil for the process' own", value) \
          unless value.is_a?(Collector)
        return value if start.empty?

        raise ArgumentError, "start must not be given with a collector: it's for the process' own"
      end

      def refuse(error, name, allowed, value)
        raise error, "#{name} must be #{allowed}, not #{Profile::Arguments.shown(value)}"
      end
      private_class_method :refuse

      def digits(number)
        number.to_s.gsub(/(?<=\d)(?=(?:\d{3})+\z)/, ",")
      end
      private_class_method :digits
    end
  end
end
