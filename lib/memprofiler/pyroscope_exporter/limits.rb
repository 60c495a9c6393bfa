# frozen_string_literal: true

module Memprofiler
  class PyroscopeExporter
    # Brings a profile below what Pyroscope takes by default; what goes beyond would have it refuse the
    # whole profile. Totals stay as they are: of too many samples the smallest become one, with a frame
    # `(other)` for a stack; a stack that is too deep loses the frames next to its root, which becomes
    # `(truncated)`.
    #
    # @api private
    class Limits
      BYTES = 4 * 1024 * 1024 # not gzipped
      SAMPLES = 16_000
      DEPTH = 1_000
      OTHER = "(other)"
      TRUNCATED = "(truncated)" # the name that a collector's max_depth: gives to a cut root

      # @return [Array(String, Integer, Integer)] gzipped bytes; how many samples became one, and how
      #   many stacks lost frames
      def self.apply(profile)
        new(profile.model).apply
      end

      # @param model [Hash]
      def initialize(model)
        @model = model
        @samples = model[:samples]
        @functions = model[:functions].dup
        @locations = model[:locations].dup
        @cut = 0
      end

      # Sizes are known only once it's encoded: the number of samples is brought down until they fit.
      def apply
        @samples = @samples.map { |stack, *rest| [shallow(stack), *rest] }
        keep = [@samples.size, SAMPLES].min
        loop do
          bytes = Profile.from_model(with(largest(keep))).pprof_data
          size = bytes.byteslice(-4, 4).unpack1("V") # gzip's own note of it
          return [bytes, keep < @samples.size ? @samples.size - keep + 1 : 0, @cut] if size <= BYTES || keep <= 1

          keep = [(keep * 0.9 * BYTES / size).floor, 1].max
        end
      end

      private

      def shallow(stack)
        return stack if stack.size <= DEPTH

        @cut += 1
        stack.first(DEPTH - 1) << (@truncated ||= place(TRUNCATED))
      end

      # A location of a function without a file.
      def place(name)
        @functions << [name, "", "", 0]
        @locations << [@functions.size - 1, 0, @locations.map(&:last).max.to_i + 1]
        @locations.size - 1
      end

      # By the largest of its shares of the metrics' totals: the sum of the shares of what is left
      # out is the smallest then.
      def largest(keep)
        return @samples if keep == @samples.size

        @ranked ||= ranked
        [*@ranked.first(keep - 1), sum(@ranked.drop(keep - 1))]
      end

      def ranked
        totals = @samples.map { |_, values,| values }.transpose.map { |column| column.sum(0.0) }
        @samples.sort_by do |_, values,|
          -values.zip(totals).map { |value, total| total.zero? ? 0.0 : value / total }.max
        end
      end

      def sum(samples)
        [[@other ||= place(OTHER)], samples.map { |_, values,| values }.transpose.map(&:sum), nil]
      end

      # What no sample has any more is left out.
      def with(samples)
        locations = Numbers.new
        functions = Numbers.new
        samples = samples.map { |stack, *rest| [stack.map { |place| locations[place] }, *rest] }
        places = @locations.values_at(*locations.keys).map { |function, *rest| [functions[function], *rest] }
        @model.merge(samples: samples, locations: places, functions: @functions.values_at(*functions.keys))
      end

      # New numbers for old ones, in their order of appearance.
      class Numbers
        def initialize
          @numbers = {}
        end

        def [](old)
          @numbers[old] ||= @numbers.size
        end

        def keys
          @numbers.keys
        end
      end
      private_constant :Numbers
    end
  end
end
