# frozen_string_literal: true

module Memprofiler
  # Refuses arguments, options of services and of tasks, in one wording: NAME must be WHAT, not GIVEN. What is of
  # no allowed class is a TypeError, another value of these an ArgumentError.
  #
  # @api private
  module Arguments
    SHOWN = 80 # characters of what was given
    NUMBERS = [Integer, Float, Rational].freeze
    private_constant :SHOWN, :NUMBERS

    module_function

    # @param name [String] the argument's
    # @param what [String] all that is allowed
    # @param classes [Array<Class>] those that are allowed
    # @param secret [Boolean] whether the value must get into no message
    # @yieldreturn [Boolean] whether the value, which is of one of the classes, is allowed; no block: it is
    # @return the value
    # @raise [TypeError] it's of another class
    # @raise [ArgumentError] it's another value
    def check(name, value, what, *classes, secret: false)
      right = classes.any? { |allowed| value.is_a?(allowed) }
      return value if right && (!block_given? || yield)

      given = secret && right ? "what was given, which is not shown" : shown(value, secret: secret)
      raise right ? ArgumentError : TypeError, "#{name} must be #{what}, not #{given}"
    rescue Encoding::CompatibilityError
      refuse_encoding(name, value)
    end

    # @return [Boolean] whether the value is text in its encoding, and as the pattern has it
    # @raise [Encoding::CompatibilityError] it's in UTF-16 or UTF-32
    def match?(value, pattern)
      value.to_s.valid_encoding? && value.match?(pattern)
    end

    # @param allowed [Array<Symbol>]
    # @return [Symbol] the value
    def choice(name, value, allowed)
      check(name, value, "one of #{list(allowed)}", Symbol) { allowed.include?(value) }
    end

    # @return [Symbol] the value: one of Attribution::GROUPS, or "label:NAME" of any name
    def group(name, value)
      text = value.is_a?(Symbol) || value.is_a?(String)
      return value.to_sym if text && match?(value, Profile::Attribution::LABEL)

      groups = Profile::Attribution::GROUPS
      check(name, value, "one of #{list(groups)}, or \"label:NAME\"", Symbol) { groups.include?(value) }
    rescue Encoding::CompatibilityError
      refuse_encoding(name, value)
    end

    # @return [Integer, nil] the value
    def count(name, value)
      check(name, value, "an Integer of at least 1, or nil for all", Integer, NilClass) { value.nil? || value >= 1 }
    end

    # @param range [Range<Integer>]
    # @return [Integer] the value
    def integer(name, value, range)
      check(name, value, "an Integer from #{range.begin} to #{range.end}", Integer) { range.cover?(value) }
    end

    # @param range [Range<Numeric>]
    # @return [Integer, Float, Rational] the value
    def number(name, value, range)
      check(name, value, "a number from #{range.begin} to #{range.end}", *NUMBERS) do
        # (between? raises for NaN, and cover? from Ruby 4.1 on.)
        value >= range.begin && value <= range.end # rubocop:disable Style/ComparableBetween
      end
    end

    # @return [Boolean] the value
    def boolean(name, value)
      check(name, value, "true or false", TrueClass, FalseClass)
    end

    # @return [Profile] the value
    def profile(name, value)
      check(name, value, "a Memprofiler::Profile", Profile)
    end

    # @return [Enumerable] the value
    def profiles(name, value)
      check(name, value, "an Array, or another Enumerable, of Memprofiler::Profile", Enumerable)
    end

    # @return [Collector, nil] the value
    def collector(name, value)
      check(name, value, "a Memprofiler::Collector, or nil for the process' own", Collector, NilClass)
    end

    # @return [String] the value
    def bytes(name, value)
      check(name, value, "a String", String)
    end

    # @param optional [Boolean] whether it may be nil
    # @return [String, nil]
    def path(name, value, optional: false)
      path = value.respond_to?(:to_path) ? value.to_path : value
      what = "a String or a Pathname that isn't empty and has no NUL"
      check(name, path, optional ? "#{what}, or nil" : what, String, *(NilClass if optional)) do
        path.nil? || !(path.empty? || path.include?("\0"))
      end
    end

    # @return [Array<String>] the value: words of a command line
    def words(name, value)
      check(name, value, "an Array of Strings", Array).each_with_index do |word, index|
        check("#{name}[#{index}]", word, "a String without NUL", String) { !word.include?("\0") }
      end
    end

    # What responds to call.
    #
    # @param what [String]
    # @return [#call] the value
    def callable(name, value, what)
      value.respond_to?(:call) ? value : check(name, value, what)
    end

    # An object of a program's own may say anything of itself, at any length.
    def shown(value, secret: false)
      case value
      when nil, true, false then value.inspect
      when Numeric, Symbol, String
        return "an instance of #{value.class}" if secret

        text = value.inspect
        text.length > SHOWN ? "#{text[0, SHOWN]}..." : text
      else "an instance of #{value.class}"
      end
    end

    # Shown, it would look like what is allowed.
    def refuse_encoding(name, value)
      raise ArgumentError, "#{name} must be in UTF-8, or another encoding that has ASCII in it, not #{value.encoding}"
    end

    def list(symbols)
      symbols.map(&:inspect).join(", ")
    end
    private_class_method :list, :refuse_encoding
  end
end
