# frozen_string_literal: true

module Memprofiler
  class PyroscopeExporter
    # What Pyroscope takes by default; what goes beyond would have it refuse the whole profile. Totals stay
    # as they are: of too many samples the smallest become one, with a frame `(other)` for a stack; a stack
    # that is too deep loses the frames next to its root, which becomes `(truncated)`.
    #
    # @api private
    module Limits
      SAMPLES = 16_000
      DEPTH = 1_000
      BYTES = 4 * 1024 * 1024 # not gzipped

      # @param bytes [String] a gzipped profile
      # @return [Array(String, Integer, Integer, Integer)] gzipped bytes; how many samples there were, how many
      #   of these became one, and how many stacks lost frames
      def self.apply(bytes)
        Codec.fit(bytes, SAMPLES, DEPTH, BYTES)
      end
    end
  end
end
