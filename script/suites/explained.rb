# frozen_string_literal: true

module Suites
  # The differences that docs/ruby-suite.md explains. Rows of its tables with five cells: tests in backticks,
  # Rubies, modes, what happens, why.
  class Explained
    DOCUMENT = File.expand_path("../../docs/ruby-suite.md", __dir__)

    Row = Struct.new(:tests, :rubies, :modes)

    def initialize(document = DOCUMENT)
      @rows = File.readlines(document).filter_map do |line|
        cells = line.strip.delete_prefix("|").delete_suffix("|").split("|").map(&:strip)
        next unless cells.size == 5 && cells.first.start_with?("`")

        Row.new(cells[0].scan(/`([^`]+)`/).flatten, cells[1].split(/,\s*/), cells[2].split(/,\s*/))
      end
    end

    def include?(difference)
      ruby = RUBY_VERSION[/\A\d+\.\d+/]
      @rows.any? do |row|
        row.rubies.include?(ruby) && row.modes.include?(difference.mode) &&
          row.tests.any? { |test| File.fnmatch(test, "#{difference.file} #{difference.test}") }
      end
    end
  end
end
