# frozen_string_literal: true

module Memprofiler
  # Names and messages, made fit for a terminal or a log: they can hold anything, escape sequences that reprogram
  # the one and lines that are forged for the other included. All that this library says on stderr goes through
  # here. (It is loaded into profiled programs, and by auto.rb into other Rubies: it's small, and old in its syntax.)
  #
  # @api private
  module Printable
    # Control characters of both sets, line separators, and the marks that
    # change the direction of writing or can't be seen.
    UNSAFE = /[\u0000-\u001F\u007F-\u009F\u00AD\u034F\u061C\u180E\u200B-\u200F\u2028-\u202E\u2060-\u206F\uFEFF]|
              [\u115F\u1160\u3164\uFFA0\uFFF0-\uFFFB\u{E0000}-\u{E0FFF}]/x

    # @param text [String]
    # @return [String] UTF-8, with what is unsafe in it as Ruby would write it
    def self.of(text)
      text.dup.force_encoding(Encoding::UTF_8).scrub.gsub(UNSAFE) { |char| char.dump[1..-2] }
    end

    # @param error [Exception] of any program's class
    # @return [String]
    def self.error(error)
      "#{of(error.class.to_s)}: #{of(error.message.to_s)}"
    rescue StandardError
      "an error that has no message"
    end

    # A warning, which a program may silence, or have raise.
    #
    # @param text [String] one line
    def self.warn(text)
      without_signals { Kernel.warn(of(text)) }
    end

    # What has to be heard.
    #
    # @param text [String] one line
    def self.say(text)
      without_signals { $stderr.write("#{of(text)}\n") }
    end

    # Stderr may be a file that has all it may have, or a pipe that nobody reads. (The extension may be another
    # Ruby's, or not be there.)
    def self.without_signals
      return yield unless defined?(NewFile) && defined?(Memprofiler.hold_back)

      NewFile.without_signals { yield } # rubocop:disable Style/ExplicitBlockArgument -- not to old Rubies
    end
  end
end
