# frozen_string_literal: true

module Memprofiler
  class Profile
    # How far a sum of samples may be from the truth.
    #
    # Each object is sampled with probability p = 1/w, independently, and then
    # stands for w objects. One object of size v gives a sum the variance
    # w (w-1) v², so n samples of one size have (w-1) V² / N, V and N being what
    # they add to the sum and to the count of objects: for counts a relative error
    # of sqrt((1-p) / n). Where the objects of one stack differ in size the profile
    # has the deviation itself (proto/profile.proto).
    #
    # The variance is itself an estimate, and comes out small where the sum does: of
    # samplings that expect 20 samples 94 % were as near to the truth as they said, of
    # those that expect 5 to 20 92.7 %. So it is asked what truths would have given this
    # sum (Wilson's, or score, interval): those within r + z²r²/2 instead of r, its square
    # of the relative deviation. That's 2 samples more, and makes it 95 % (docs/accuracy.md).
    #
    # In a sum of profiles with different weights no average tells anything: there each
    # sample has its deviation, and comments say `weights: differ`. How many samples a
    # row rests on follows then from its objects and their variance, s = sum(w) and
    # v = sum(w (w-1)) over its samples: s² / (v + s) = sum(w)² / sum(w²), Kish's effective
    # number. Of one weight that is their number; of several, how many of one weight would
    # be as good.
    #
    # What no sample has met is in no error: of sizes so uneven that a few objects
    # make up most bytes, most samplings see too little, and say so with too little
    # doubt.
    #
    # @api private
    class Sampling
      # 95 % of a normal distribution lie within so many standard deviations.
      DEVIATIONS = 1.96
      private_constant :DEVIATIONS

      # @param relative [Float] a sum's variance by its square
      # @return [Float] the relative 95 % error
      def self.error(relative)
        DEVIATIONS * Math.sqrt(relative * (1 + (relative * (DEVIATIONS**2) / 2)))
      end

      # @param model [Hash]
      # @param metadata [Hash{Symbol => Object}]
      def initialize(model, metadata)
        @model = model
        types = model[:sample_types].map(&:first)
        @differ = metadata.key?(:weights)
        @objects = types.map { |type| types.index("#{type[/\A(?:alloc|inuse)(?=_)/]}_objects") }
        @weights = @objects.map do |objects|
          Thread.pass # a profile may have very many samples
          next unless objects

          living = types[objects].start_with?("inuse")
          weight(model, objects, metadata[living ? :live_samples : :samples], living ? tracked_one_in(metadata) : 1)
        end
        freeze
      end

      # @param sample [Array] of the model
      # @return [Float] what the sample adds to the variance of the metric's sum
      def variance(column, sample)
        _, values, _, deviations = sample
        return deviations[column].to_f**2 if deviations

        weight = @weights[column]
        objects = weight && values[@objects[column]].abs
        objects.nil? || objects.zero? ? 0.0 : (weight - 1) * (values[column]**2) / objects
      end

      # @param values [Array, Hash] sums by column: of the metric, and of its objects
      # @param variances [Array, Hash] the same
      # @return [Array(Integer, Float), nil] samples behind a sum and its relative 95 % error;
      #   nil if unknown
      def behind(column, values, variances)
        return if @weights[column].nil?

        samples = samples(column, values, variances).round
        flat = values[column].abs
        return [samples, nil] if flat.zero?

        [[samples, 1].max, Sampling.error(variances[column].fdiv(flat.to_f**2))]
      end

      # @param column [Integer] a metric's place among the sample types
      # @return [Float, nil] the relative 95 % error of the metric's total
      def total_error(column)
        samples = @model[:samples]
        totals = samples.map { |_, row, _| row }.transpose.map(&:sum)
        return if totals.empty?

        behind(column, totals, total_variances(column))&.last
      end

      # @return [Hash{Integer => Float}] what `behind` needs of them: of the metric and of its objects
      def total_variances(column)
        pieces = Pieces.new
        (@differ ? [column, *@objects[column]].uniq : [column]).to_h do |each|
          variance = @model[:samples].sum do |sample|
            pieces.step
            variance(each, sample)
          end
          [each, variance]
        end
      end

      # @return [Array<Float, nil>] what a sample stands for, by column; nil where it's unknown, or there is none
      def weights
        @weights.map.with_index do |weight, column|
          weight if weight && @model[:samples].any? { |_, values, _| values[@objects[column]].nonzero? }
        end
      end

      # @return [Boolean] it is known how the profile was sampled
      def known?
        @weights.none?(&:nil?)
      end

      private

      def samples(column, values, variances)
        objects = values[@objects[column]].abs
        return objects / @weights[column] unless @differ
        return 0 if objects.zero?

        (objects**2) / (variances[@objects[column]] + objects)
      end

      # Samples of which one was followed, thinning included; of a sum the most.
      def tracked_one_in(metadata)
        metadata[:track_one_in].to_s.scan(/\d+/).map(&:to_i).push(1).max
      end

      # Objects that one sample stands for, on average: a collector that ran
      # into a limit has widened its interval on the way. A difference has no number of samples.
      def weight(model, column, samples, tracked)
        total = model[:samples].sum { |_, values, _| values[column].abs }
        if samples.is_a?(Integer) && samples.positive? && total.positive?
          [total.fdiv(samples), 1.0].max
        elsif model[:period_type] == %w[objects count] && model[:period].positive?
          (model[:period] * tracked).to_f
        end
      end
    end
  end
end
