# frozen_string_literal: true

module Memprofiler
  class Report
    # The rows of Profile#top, aligned. By line, a second, short table has what the
    # first can't: lines of the program itself whose work is done in gems and in
    # Ruby's library, by what they allocate there.
    class Table
      FEW_MARK = "few"
      FEW_NOTE = "few: the row rests on fewer than #{FEW} samples, take it as a hint".freeze
      FEW_HEADING = "on fewer than #{FEW} samples each, so hints only:".freeze
      FEW_SHARE = 1.0 / 3 # of the rows, if there are others to show
      # The second table: so many lines, of which each has so much of the whole.
      OWN_LINES = 5
      OWN_SHARE = 0.01
      OWN_HEADING = "Other lines of the program itself, by cum:"
      private_constant :FEW_MARK, :FEW_NOTE, :FEW_HEADING, :FEW_SHARE, :OWN_LINES, :OWN_SHARE, :OWN_HEADING

      # @param profile [Profile]
      # @param metric [Symbol]
      # @param by [Symbol]
      # @param count [Integer, nil]
      # @param sort [Symbol] :flat or :cumulative
      # @param text [Text]
      def initialize(profile, metric, by:, count:, sort:, text:)
        @profile = profile
        @metric = metric
        @by = by
        @label = Profile::Attribution.label(by)
        @text = text
        @unit = profile.sample_types[metric]
        @all = profile.top(metric, by: by, sort: sort)
        # Without samples there's no error to show, and in an exact profile none either.
        @sampled = @all.any? { |row| row.error&.nonzero? }
        @flat_first = sort == :flat
        @rows, @hints = @flat_first ? split(count || @all.size) : [@all.first(count || @all.size), []]
      end

      # @return [Array<String>]
      def lines
        title = Title.new(@profile, @metric, @by).lines
        return [*title, "(none)"] if @rows.empty?

        cells = [header, *(@rows + @hints).map { |row| numbers(row) }]
        table = aligned(cells, [@by.to_s, *(@rows + @hints).map(&:name)])
        table.insert(1 + @rows.size, FEW_HEADING) if @hints.any?
        table << FEW_NOTE if @hints.empty? && cells.any? { |row| row.include?(FEW_MARK) }
        [*title, *table, *own_lines]
      end

      private

      # A row on few samples may be large by chance alone, the more so in bytes: it
      # comes after the others, and doesn't take their places, nor does it go missing.
      # Where all rows are such, they are all there is to show.
      def split(count)
        top = @all.first(count)
        few, others = @all.partition { |row| few?(row) }
        sure = others.count { |row| row.flat.nonzero? }
        return [top, []] if sure.zero?

        places = count == 1 ? 0 : (count * FEW_SHARE).ceil
        few = (few & top).first([places, count - sure].max)
        few.pop while few.any? && few.last.flat.zero? && others.size + few.size > count # what only calls has no claim
        [others.first(count - few.size), few]
      end

      def header
        columns = @label ? ["flat", "flat%"] : ["flat", "flat%", "cum", "cum%"]
        @sampled ? columns + ["+/-", "samples"] : columns
      end

      def numbers(row)
        cells = [value(row.flat), Units.percent(row.share)]
        # A class, or label, calls nothing.
        cells.push(value(row.cumulative), Units.percent(row.cumulative_share)) unless @label
        return cells unless @sampled

        cells + sampled(row, cumulative?(row))
      end

      # Of which of its two values a row's error and samples are: of that which it's sorted by, if it has it.
      def cumulative?(row)
        !@flat_first || row.flat.zero?
      end

      # @return [Array<String>] a row's error, and samples
      def sampled(row, cumulative)
        samples, error = certainty(row, cumulative)
        return ["", ""] unless error

        [few?(row, cumulative) ? FEW_MARK : Units.percent(error), samples.to_s]
      end

      def certainty(row, cumulative)
        cumulative ? [row.cumulative_samples, row.cumulative_error] : [row.samples, row.error]
      end

      # In one style, so that a column can be compared by eye.
      def value(number)
        @small ||= [@all.all? { |row| Units.small?(row.cumulative) && Units.small?(row.flat) }]
        Units.value(number, @unit, small: @small.first)
      end

      # @return [Boolean] by the samples that are shown; what is exact is no hint
      def few?(row, cumulative = cumulative?(row))
        samples, error = certainty(row, cumulative)
        @sampled && !error.nil? && error.nonzero? && samples < FEW
      end

      def own_lines
        own = @by == :line && @flat_first ? own_rows : []
        return [] if own.empty?

        cells = own.map { |row| [value(row.cumulative), Units.percent(row.cumulative_share), *sampled(row, true)] }
        cells = [["cum", "cum%", "+/-", "samples"], *cells]
        cells = cells.map { |row| row.first(2) } unless @sampled
        ["", OWN_HEADING, *aligned(cells, ["line", *own.map(&:name)])]
      end

      def own_rows
        pieces = Profile::Pieces.new
        own = (@all - @rows - @hints).select do |row|
          pieces.step
          calls_much?(row) && own?(row.name)
        end
        own.sort_by { |row| [-row.cumulative.abs, row.name] }.first(OWN_LINES)
      end

      def calls_much?(row)
        row.cumulative != row.flat && row.cumulative_share.abs >= OWN_SHARE &&
          !few?(row, true)
      end

      def own?(name)
        file = name.sub(/:\d+\z/, "")
        Profile::Origin.of(file) == Profile::Origin::APP && !Profile::Origin.binstub?(file)
      end

      def aligned(cells, names)
        widths = cells.transpose.map { |column| column.map(&:size).max }
        cells.zip(names).map do |row, name|
          numbers = row.zip(widths).map { |cell, width| cell.rjust(width) }.join("  ")
          "  #{numbers}  #{@text.name(name, @by, Text.columns(numbers) + 4)}"
        end
      end
    end
  end
end
