# frozen_string_literal: true

module Memprofiler
  class Profile
    # Refuses arguments: each error names the argument, what is allowed and what was given.
    #
    # @api private
    module Arguments
      SHOWN = 80 # characters of what was given
      private_constant :SHOWN

      module_function

      # @param name [String] the argument's
      # @param allowed [Array<Symbol>]
      # @return [Symbol] the value
      # @raise [TypeError] it's no Symbol
      # @raise [ArgumentError] it's another one
      def choice(name, value, allowed)
        return value if value.is_a?(Symbol) && allowed.include?(value)

        error = value.is_a?(Symbol) ? ArgumentError : TypeError
        raise error, "#{name} must be one of #{allowed.map(&:inspect).join(", ")}, not #{shown(value)}"
      end

      # @return [Symbol] the value: one of Attribution::GROUPS, or "label:NAME" of any name
      def group(name, value)
        return value.to_sym if (value.is_a?(Symbol) || value.is_a?(String)) && value.match?(Attribution::LABEL)
        return value if value.is_a?(Symbol) && Attribution::GROUPS.include?(value)

        allowed = Attribution::GROUPS.map(&:inspect).join(", ")
        error = value.is_a?(Symbol) ? ArgumentError : TypeError
        raise error, "#{name} must be one of #{allowed}, or \"label:NAME\", not #{shown(value)}"
      end

      # @return [Integer, nil] the value
      def count(name, value)
        return value if value.nil? || (value.is_a?(Integer) && value.positive?)

        error = value.is_a?(Integer) ? ArgumentError : TypeError
        raise error, "#{name} must be an Integer of at least 1, or nil for all, not #{shown(value)}"
      end

      # @return [Profile] the value
      def profile(name, value)
        return value if value.is_a?(Profile)

        raise TypeError, "#{name} must be a Memprofiler::Profile, not #{shown(value)}"
      end

      # @return [Enumerable] the value
      def profiles(name, value)
        return value if value.is_a?(Enumerable)

        raise TypeError, "#{name} must be an Array, or another Enumerable, of Memprofiler::Profile, not #{shown(value)}"
      end

      # @return [String] the value
      def bytes(name, value)
        return value if value.is_a?(String)

        raise TypeError, "#{name} must be a String, not #{shown(value)}"
      end

      # @return [String]
      def path(name, value)
        path = value.respond_to?(:to_path) ? value.to_path : value
        raise TypeError, "#{name} must be a String or a Pathname, not #{shown(value)}" unless path.is_a?(String)
        return path unless path.empty? || path.include?("\0")

        raise ArgumentError, "#{name} must not be empty or hold a NUL, as #{shown(path)} does"
      end

      # An object of a program's own may say anything of itself, at any length.
      def shown(value)
        case value
        when nil, true, false, Numeric, Symbol, String
          text = value.inspect
          text.length > SHOWN ? "#{text[0, SHOWN]}..." : text
        else "an instance of #{value.class}"
        end
      end
    end
  end
end
