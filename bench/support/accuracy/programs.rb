# frozen_string_literal: true

require_relative "../workloads"

module Bench
  module Accuracy
    # What is measured of one: rows by line, or by class. `rounds` runs, each with all samplings of ROUND beside it.
    Program = Struct.new(:name, :repeats, :rounds, :by, :about, keyword_init: true) do
      def path
        File.expand_path("../../workloads/#{name}.rb", __dir__)
      end
    end

    # Interval, and how many collectors of it run at once in one round; with the exact one there are 64, the most there
    # may be.
    ROUND = { 1 => 1, 16 => 8, 64 => 14, 512 => 20, 4096 => 20 }.freeze

    PROGRAMS = [
      Program.new(name: "strings", repeats: 500_000, rounds: 8, by: :line, about: "copies a short String"),
      Program.new(name: "json", repeats: 400, rounds: 6, by: :line, about: "parses and generates a document"),
      Program.new(name: "ripper", repeats: 100, rounds: 3, by: :line, about: "parses files of the standard library"),
      Program.new(name: "erb", repeats: 1_500, rounds: 6, by: :line, about: "renders a table"),
      Program.new(name: "deep", repeats: 300_000, rounds: 5, by: :line, about: "makes Strings under 100 frames"),
      Program.new(name: "leak", repeats: 20_000, rounds: 6, by: :line,
                  about: "keeps Strings of 40 to 4,000 bytes, Arrays, Hashes and Structs, and makes garbage"),
      Program.new(name: "classes", repeats: 200_000, rounds: 6, by: :class,
                  about: "instances of 100 classes, and classes without a name; rows by class"),
      Program.new(name: "huge", repeats: 100_000, rounds: 8, by: :line,
                  about: "small Strings, and ten of 1 MB each, which hold most of what stays")
    ].freeze

    METRICS = %i[alloc_objects alloc_space inuse_objects inuse_space].freeze
    LINES = 10 # rows of a program that are looked at: those on top in truth
  end
end
