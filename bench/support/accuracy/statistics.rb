# frozen_string_literal: true

module Bench
  module Accuracy
    # What a row of the tables is made of.
    module Statistics
      Z = 1.96 # deviations of a normal distribution that 95 % lie within

      module_function

      # @param share [Float] 0.5: the median
      def quantile(values, share)
        sorted = values.sort
        place = share * (sorted.size - 1)
        low = sorted[place.floor]
        low + ((sorted[place.ceil] - low) * (place - place.floor))
      end

      # @return [Array(Float, Float)] the mean, and what it may be off by (95 %); nil for that of fewer than two values
      def mean(values)
        mean = values.sum(0.0) / values.size
        return [mean, nil] if values.size < 2

        variance = values.sum { |value| (value - mean)**2 } / (values.size - 1)
        [mean, Z * Math.sqrt(variance / values.size)]
      end

      # Wilson's interval (95 %): right near 0 and 1 too.
      #
      # @return [Array(Float, Float)]
      def binomial(hits, count)
        share = hits.fdiv(count)
        square = (Z**2) / count
        middle = (share + (square / 2)) / (1 + square)
        half = Math.sqrt((share * (1 - share) * square) + ((square**2) / 4)) / (1 + square)
        [[middle - half, 0.0].max, [middle + half, 1.0].min]
      end
    end
  end
end
