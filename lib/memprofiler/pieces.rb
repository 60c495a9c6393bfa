# frozen_string_literal: true

module Memprofiler
  class Profile
    # Long work in pieces, between which other threads have their turn. Ruby alone lets them wait for 100 ms
    # each time (before 3.3 whatever the priority), and for the end of a `sort_by`.
    #
    # @api private
    class Pieces
      STEPS = 16 # between two looks at the clock
      # As a flush has it (work.c): where others take their turn for long, pieces are longer, or it never ends.
      PIECE = 0.005 # seconds
      LONG_PIECE = 0.012
      LONG_WAIT = 0.05
      private_constant :STEPS, :PIECE, :LONG_PIECE, :LONG_WAIT

      # The places of several lists in their order: by the first list, where that is equal by the next, and
      # at last as they stand. With Arrays to compare a sort would keep others out for hundreds of milliseconds.
      #
      # @param keys [Array<Array<Comparable>>] lists of one size
      # @return [Array<Integer>]
      def self.order(*keys)
        pieces = new
        size = keys.first.size
        numbers = keys.reduce(Array.new(size, 0)) { |sum, key| pieces.ranked(sum, key) }
        numbers = numbers.each_with_index.map do |number, place|
          pieces.step
          (number * size) + place
        end
        numbers.sort!
        pieces.look
        numbers.map! do |number|
          pieces.step
          number % size
        end
      end

      def initialize
        @left = STEPS
        @piece = PIECE
        @since = now
      end

      # @param numbers [Array<Integer>] which come first, each below their count
      # @param key [Array<Comparable>] looked at where numbers are equal
      # @return [Array<Integer>] such numbers that compare as these pairs
      def ranked(numbers, key)
        counts = numbers.tally
        tied = key.each_with_index.filter_map { |value, place| step || (value if counts[numbers[place]] > 1) }
        ranks = places(tied)
        return numbers if ranks.empty?

        pairs = numbers.each_with_index.map do |number, place|
          step
          (number * ranks.size) + (counts[number] > 1 ? ranks[key[place]] : 0)
        end
        ranks = places(pairs) # small again: products of three would be no fixnums
        pairs.map { |pair| step || ranks[pair] }
      end

      # A short step has been done.
      #
      # @return [nil]
      def step
        return if (@left -= 1).positive?

        @left = STEPS
        look
        nil
      end

      # A step has been done that may have been long.
      def look
        pass if now - @since > @piece
      end

      private

      # @return [Hash{Comparable => Integer}] each value's place among all
      def places(values)
        places = {}
        values.uniq.sort.each { |value| step || (places[value] = places.size) }
        look
        places
      end

      def pass
        offered = now
        Thread.pass
        @since = now
        @piece = @since - offered > LONG_WAIT ? LONG_PIECE : PIECE
      end

      def now
        Process.clock_gettime(Process::CLOCK_MONOTONIC)
      end
    end
  end
end
