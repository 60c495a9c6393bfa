# frozen_string_literal: true

module Bench
  # A table of text: the first column to the left, the others to the right.
  module Table
    module_function

    def print(head, rows, out: $stdout)
      rows = rows.map { |row| row.map(&:to_s) }
      widths = head.each_index.map { |i| [head, *rows].map { |row| row[i].to_s.size }.max }
      [head, *rows].each do |row|
        cells = row.each_with_index.map { |cell, i| i.zero? ? cell.ljust(widths[i]) : cell.rjust(widths[i]) }
        out.puts cells.join("  ").rstrip
      end
    end
  end
end
