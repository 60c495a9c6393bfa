# frozen_string_literal: true

module Memprofiler
  module CLI
    # Reads options: `--name value`, `--name=value`, `-n value`, `-nvalue`, and flags.
    # (optparse knows abbreviations, and options of its own that can't be taken away.)
    class Options
      # @param flags [Array<String>] options without a value
      # @param values [Array<String>] options with one
      def initialize(flags:, values:)
        @flags = flags
        @values = values
      end

      # @param arguments [Array<String>] loses its options, and a "--"
      # @param leading [Boolean] the first word that's no option ends them
      # @return [Hash{String => String, true}] what was given; the last one counts
      # @raise [UsageError]
      def parse(arguments, leading: false)
        options = {}
        words = []
        while (argument = arguments.shift)
          break if argument == "--"

          if argument.start_with?("-") && argument != "-"
            take(argument, arguments, options)
          else
            words << argument
            break if leading
          end
        end
        arguments.unshift(*words)
        options
      end

      # @param range [Range<Integer>] may have no end
      # @return [Integer]
      # @raise [UsageError] it's not a whole number in the range
      def whole_number(name, text, range)
        return text.to_i if text.b.match?(/\A\+?\d+\z/) && range.cover?(text.to_i)

        allowed = range.end ? "from #{range.begin} to #{range.end}" : "of at least #{range.begin}"
        error("#{name} must be a whole number #{allowed}, not #{text.inspect}")
      end

      # @return [Symbol]
      # @raise [UsageError] it's none of the allowed
      def choice(name, text, allowed)
        allowed.find { |symbol| symbol.name == text } ||
          error("#{name} must be one of #{allowed.join(", ")}, not #{text.inspect}")
      end

      def error(message)
        raise UsageError, message
      end

      private

      def take(argument, arguments, options)
        name, value = argument.start_with?("--") ? argument.split("=", 2) : [argument[0, 2], argument[2..]]
        value = nil if value == "" && !argument.start_with?("--")
        if @flags.include?(name)
          error("#{name} takes no value") if value
          options[name] = true
        elsif @values.include?(name)
          options[name] = value || next_word(name, arguments)
        else
          error("no option #{name.inspect}")
        end
      end

      # An option, or "--", is no value: the value was forgotten. (A folder of such
      # a name can be given as --output=-x, a number below 0 is refused as one.)
      def next_word(name, arguments)
        word = arguments.first
        return arguments.shift unless word.nil? || word.b.match?(/\A-[^0-9]/)

        error("#{name} needs a value#{", not #{word.inspect}" if word}")
      end
    end
  end
end
