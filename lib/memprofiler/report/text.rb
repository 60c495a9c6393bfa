# frozen_string_literal: true

require_relative "../printable"

module Memprofiler
  class Report
    # Names from a profile, made fit for a terminal: a name can hold anything,
    # escape sequences that reprogram the terminal included.
    class Text
      UNSAFE = Printable::UNSAFE
      WIDE = /[\u1100-\u115F\u2E80-\uA4CF\uA960-\uA97C\uAC00-\uD7A3\uF900-\uFAFF\uFE30-\uFE6F\uFF01-\uFF60]|
              [\uFFE0-\uFFE6\u{1F300}-\u{1FAFF}\u{20000}-\u{3FFFD}]/x
      NARROWEST = 20 # a name is never cut to less
      GAP = "..."
      private_constant :WIDE, :NARROWEST, :GAP

      # @return [String] UTF-8, with what is unsafe in it as Ruby would write it
      def self.printable(string)
        Printable.of(string)
      end

      # @return [Integer] columns that a terminal needs for it
      def self.columns(string)
        string.each_char.sum { |char| char_columns(char) }
      end

      def self.char_columns(char)
        return 1 if char.ascii_only?
        return 0 if char.match?(/\p{Mn}|\p{Me}/)

        char.match?(WIDE) ? 2 : 1
      end

      # @param width [Integer, nil]
      # @param directory [String]
      def initialize(width, directory)
        @width = width
        @directory = "#{directory.b.delete_suffix("/")}/"
      end

      # @param name [String] a row's name
      # @param by [Symbol] what the row is
      # @param used [Integer] columns that the line has used already
      def name(name, by, used)
        path = %i[line file].include?(by)
        name = name.b.delete_prefix(@directory) if path # in bytes: their encodings may differ
        name = printable(name)
        return name if @width.nil?

        cut(name, [@width - used, NARROWEST].max, keep_end: path)
      end

      def printable(string)
        Text.printable(string)
      end

      private

      def cut(string, room, keep_end:)
        return string if Text.columns(string) <= room

        chars = keep_end ? string.chars.reverse : string.chars
        left = room - GAP.size
        kept = chars.take_while { |char| (left -= Text.char_columns(char)) >= 0 }
        keep_end ? GAP + kept.reverse.join : kept.join + GAP
      end
    end
  end
end
