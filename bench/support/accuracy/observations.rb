# frozen_string_literal: true

require_relative "statistics"

module Bench
  module Accuracy
    # One row of one profile: what it said, and what is true. `alike` is how many samples it may expect, and of bytes,
    # how many objects of one size would have to be sampled for the same deviation.
    Seen = Struct.new(:seed, :truth, :objects, :estimate, :error, :warned, :alike) do
      def ratio
        estimate.fdiv(truth)
      end

      def off
        (ratio - 1).abs
      end

      # What the report's error is made of: the variance by the square of the estimate.
      def relative_variance
        square = (error / Statistics::Z)**2
        (Math.sqrt(1 + (2 * square * (Statistics::Z**2))) - 1) / (Statistics::Z**2)
      end

      # The truth lies within the error that the report gives. A row that isn't there gives none.
      def covered?
        !error.nil? && (estimate - truth).abs <= error * estimate.abs
      end
    end

    # Rows of many profiles: one of these is a row of a table.
    class Observations
      attr_reader :all

      # @param several [Array<Observations>] of different programs, metrics or intervals
      def self.sum(several)
        new(several.each_with_index.flat_map do |one, number|
          one.all.map { |seen| seen.dup.tap { |copy| copy.seed = [number, seen.seed] } }
        end)
      end

      # @param all [Array<Seen>]
      # @param interval [Integer, nil]
      def initialize(all, interval = nil)
        @all = all
        @interval = interval
      end

      def none?
        @all.empty?
      end

      def size
        @all.size
      end

      # @return [Array(Float, Float)] the least and the most samples that a row may expect
      def samples
        @all.map { |seen| seen.objects.fdiv(@interval) }.minmax
      end

      def median
        Statistics.quantile(@all.map(&:off), 0.5)
      end

      def largest
        Statistics.quantile(@all.map(&:off), 0.95)
      end

      # What one sampling says of its rows goes into one value, so that values are independent.
      #
      # @return [Array(Float, Float)] mean of estimate / truth, and its 95 % error
      def bias
        Statistics.mean(@all.group_by(&:seed).values.map { |seen| seen.sum(&:ratio) / seen.size })
      end

      # The mean is off by more than its error: of 100 unbiased ones that is so of 5.
      def biased?
        mean, error = bias
        !error.nil? && (mean - 1).abs > error
      end

      # @return [Array(Float, Array(Float, Float))] share, and its 95 % interval
      def coverage
        hits = @all.count(&:covered?)
        [hits.fdiv(size), Statistics.binomial(hits, size)]
      end

      # @return [Float, nil] of those whose truth is outside of the error, how many have a note in the head
      def warned
        outside = @all.reject(&:covered?)
        outside.count(&:warned).fdiv(outside.size) unless outside.empty?
      end
    end

    # What a child has printed.
    class Result
      attr_reader :program, :checks

      # @param program [Program]
      # @param json [Hash]
      def initialize(program, json)
        @program = program
        @checks = json.fetch("checks")
        @rows = {}
        json.fetch("rows").each do |row|
          key = [row["metric"].to_sym, row["interval"], row["name"]]
          @rows[key] = row["seen"].map { |values| Seen.new(*values) }
        end
        @rows.each { |(metric, interval, name), seen| set_alike(seen, interval, unevenness(metric, name)) }
      end

      # @param expected [Range] of samples that a row may expect
      # @return [Observations] of the rows on top
      def rows(metric, interval, expected)
        select(metric, interval, expected) { |name| name }
      end

      # @return [Observations] of the whole profile
      def whole(metric, interval, expected = 0..)
        select(metric, interval, expected, &:nil?)
      end

      # @param alike [Range] of Seen#alike
      # @return [Observations] of the rows on top
      def alike(metric, interval, alike)
        Observations.new(rows(metric, interval, 0..).all.select { |seen| alike.cover?(seen.alike) }, interval)
      end

      # @return [Integer] how many profiles there are
      def samplings(interval)
        @rows.fetch([:alloc_objects, interval, nil]).size
      end

      private

      def select(metric, interval, expected)
        seen = @rows.flat_map { |key, all| key.first(2) == [metric, interval] && yield(key.last) ? all : [] }
        Observations.new(seen.select do |one|
          one.truth.positive? && expected.cover?(one.objects.fdiv(interval))
        end, interval)
      end

      def set_alike(seen, interval, unevenness)
        seen.each { |one| one.alike = one.objects.fdiv(interval) / unevenness }
      end

      # How many times the variance is that of objects of one size, by the samplings that have most samples: the mean of
      # what they say of it is true, whatever each of them has met.
      def unevenness(metric, name)
        interval = ROUND.keys.find { |one| one > 1 }
        seen = @rows.fetch([metric, interval, name], [])
        return 1.0 if seen.empty? || seen.first.truth.zero?

        variance = seen.sum { |one| one.error ? one.relative_variance * (one.estimate**2) : 0.0 } / seen.size
        of_one_size = (interval - 1) * (seen.first.truth**2) / seen.first.objects.to_f
        [variance / of_one_size, 1.0].max
      end
    end
  end
end
