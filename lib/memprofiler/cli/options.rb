# frozen_string_literal: true

module Memprofiler
  module CLI
    # Reads options: `--name value`, `--name=value`, `-n value`, `-nvalue`, and flags.
    # (optparse knows abbreviations, and options of its own that can't be taken away.)
    class Options
      # @param subcommand [String] whom errors are about
      # @param flags [Array<String>] options without a value
      # @param values [Array<String>] options with one
      def initialize(subcommand, flags:, values:)
        @subcommand = subcommand
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

      # @return [Integer]
      # @raise [UsageError] it's not a whole number from 1 on
      def positive(name, text)
        return text.to_i if text.match?(/\A[1-9]\d{0,17}\z/)

        error("#{name} must be a whole number of at least 1, not #{text.inspect}")
      end

      # @return [Symbol]
      # @raise [UsageError] it's none of the allowed
      def choice(name, text, allowed)
        allowed.find { |symbol| symbol.name == text } ||
          error("#{name} must be one of #{allowed.join(", ")}, not #{text.inspect}")
      end

      def error(message)
        raise UsageError.new(message, @subcommand)
      end

      private

      def take(argument, arguments, options)
        name, value = argument.start_with?("--") ? argument.split("=", 2) : [argument[0, 2], argument[2..]]
        value = nil if value == "" && !argument.start_with?("--")
        if @flags.include?(name)
          error("#{name} takes no value") if value
          options[name] = true
        elsif @values.include?(name)
          options[name] = value || arguments.shift || error("#{name} needs a value")
        else
          error("no option #{name.inspect}")
        end
      end
    end
  end
end
