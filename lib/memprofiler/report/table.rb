# frozen_string_literal: true

module Memprofiler
  class Report
    # The rows of Profile#top, aligned.
    class Table
      FEW = 20 # samples; a row on fewer may well be half or double
      NOTE = "few: the row rests on less than #{FEW} samples, take it as a hint".freeze
      private_constant :FEW, :NOTE

      # @param profile [Profile]
      # @param metric [Symbol]
      # @param by [Symbol]
      # @param count [Integer, nil]
      # @param text [Text]
      def initialize(profile, metric, by, count, text)
        @profile = profile
        @metric = metric
        @by = by
        @text = text
        @unit = profile.sample_types[metric]
        @rows = profile.top(metric, by: by, n: count)
      end

      # @return [Array<String>]
      def lines(title)
        cells = [header, *@rows.map { |row| numbers(row) }]
        widths = cells.transpose.map { |column| column.map(&:size).max }
        names = [@by.to_s, *@rows.map(&:name)]
        table = cells.zip(names).map { |row, name| line(row, widths, name) }
        table = ["(none)"] if @rows.empty?
        ["#{title} by #{@by}: #{whole}", *table, (NOTE if @rows.any? { |row| few?(row) })].compact
      end

      private

      def whole
        total = Units.value(@profile.total(@metric), @unit)
        objects = @metric.name.sub(/_space\z/, "_objects").to_sym
        return "#{@metric}, #{total}" if objects == @metric || !@profile.sample_types.key?(objects)

        "#{@metric}, #{total} in #{Units.plural(@profile.total(objects), "object")}"
      end

      # Without samples there's no error to show, and in an exact profile none either.
      def sampled?
        @sampled ||= [@rows.any? { |row| row.error&.nonzero? }]
        @sampled.first
      end

      def header
        ["flat", "flat%", "cum", "cum%"] + (sampled? ? ["+/-", "samples"] : [])
      end

      def numbers(row)
        flat = Units.value(row.flat, @unit)
        cells = [flat, Units.percent(row.share), Units.value(row.cumulative, @unit),
                 Units.percent(cumulative_share(row))]
        return cells unless sampled?

        cells << (few?(row) ? "few" : error(row)) << (row.error ? row.samples.to_s : "")
      end

      def cumulative_share(row)
        @whole ||= @profile.model[:samples].sum { |_, values, _| values[column].abs }
        @whole.zero? ? 0.0 : row.cumulative.fdiv(@whole)
      end

      def column
        @column ||= @profile.sample_types.keys.index(@metric)
      end

      def few?(row)
        sampled? && row.error && row.samples < FEW
      end

      def error(row)
        row.error ? Units.percent(row.error) : ""
      end

      def line(cells, widths, name)
        numbers = cells.zip(widths).map { |cell, width| cell.rjust(width) }.join("  ")
        "  #{numbers}  #{@text.name(name, @by, Text.columns(numbers) + 4)}"
      end
    end
  end
end
