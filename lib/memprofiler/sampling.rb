# frozen_string_literal: true

module Memprofiler
  class Profile
    # How far a sum of samples may be from the truth.
    #
    # Each object is sampled with probability p = 1/w, independently, and then
    # stands for w objects. A sum of values v of samples has the variance
    # w (1-p) sum(v² / objects), v and objects being what a stack adds; sizes of
    # objects of one stack are taken to be alike. For counts that makes the
    # relative error sqrt((1-p) / n), n being the number of samples.
    class Sampling
      # 95 % of a normal distribution lie within so many standard deviations.
      DEVIATIONS = 1.96
      private_constant :DEVIATIONS

      # @param model [Hash]
      # @param metadata [Hash{Symbol => Object}]
      def initialize(model, metadata)
        @model = model
        types = model[:sample_types].map(&:first)
        @objects = types.map { |type| types.index("#{type[/\A(?:alloc|inuse)(?=_)/]}_objects") }
        @weights = @objects.map do |objects|
          objects && weight(model, objects, metadata[types[objects].start_with?("alloc") ? :samples : :live_samples])
        end
        freeze
      end

      # What a stack adds to the sum that {#behind} needs.
      def square(column, values)
        objects = @objects[column] && values[@objects[column]].abs
        objects.nil? || objects.zero? ? 0 : (values[column]**2) / objects.to_f
      end

      # @return [Array(Integer, Float), nil] samples behind a sum and its relative 95 % error;
      #   nil if unknown
      def behind(column, values, squares)
        weight = @weights[column]
        return if weight.nil?

        samples = (values[@objects[column]].abs / weight).round
        flat = values[column].abs
        error = flat.zero? ? nil : DEVIATIONS * Math.sqrt((weight - 1) * squares) / flat
        [samples, error]
      end

      # @param column [Integer] a metric's place among the sample types
      # @return [Float, nil] the relative 95 % error of the metric's total
      def total_error(column)
        values = @model[:samples].map { |_, row, _| row }
        totals = values.transpose.map(&:sum)
        return if totals.empty?

        behind(column, totals, values.sum { |row| square(column, row) })&.last
      end

      private

      # Objects that one sample stands for, on average: a collector that ran
      # into a limit has widened its interval on the way.
      def weight(model, column, samples)
        total = model[:samples].sum { |_, values, _| values[column].abs }
        if samples.is_a?(Integer) && samples.positive? && total.positive?
          [total.fdiv(samples), 1.0].max
        elsif model[:period_type] == %w[objects count] && model[:period].positive?
          model[:period].to_f
        end
      end
    end
  end
end
