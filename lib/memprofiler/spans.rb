# frozen_string_literal: true

module Memprofiler
  class Profile
    # Of which runs of collectors a profile is, and what part of each it counts: all since the run's
    # start, or in a difference what came between two moments. By this a sum tells what it would count twice.
    #
    # In a file: "RUN@FROM..TO, RUN@FROM..TO", both in nanoseconds since 1970, FROM being 0 where it's the
    # run's start. A single whole profile has its run and its time, and needs no more.
    #
    # @api private
    class Spans
      ONE = /\A(\S+)@(\d{1,19})\.\.(\d{1,19})\z/
      UNKNOWN = Float::INFINITY # until when, as a file without a time has it
      private_constant :ONE, :UNKNOWN

      # @param model [Hash]
      # @param metadata [Hash{Symbol => Object}] the model's
      # @return [Spans] none of a run that the file doesn't name, or of a difference that doesn't say since when
      def self.of(model, metadata)
        spans = parse(metadata[:spans])
        return new(spans) if metadata[:difference]

        runs = Metadata.list(metadata[:run])
        known = runs.size == 1 && model[:time_nanos].positive? ? model[:time_nanos] : UNKNOWN
        new(runs.to_h { |run| [run, [[0, known]]] }.merge(spans))
      end

      # (A file that isn't this library's may say anything there.)
      def self.parse(text)
        found = Metadata.list(text).filter_map { |item| item.match(ONE)&.captures }
        found.group_by(&:first).transform_values { |items| items.map { |_, from, to| [from.to_i, to.to_i] } }
      end
      private_class_method :parse

      # @param all [Hash{String => Array<Array(Integer, Integer)>}] from a run to its spans
      def initialize(all = {})
        @all = all
      end

      # @return [Boolean] whether no run is known
      def empty?
        @all.empty?
      end

      # @return [Boolean] whether something is in both
      def overlap?(other)
        @all.any? { |run, spans| other.all.key?(run) && twice?(spans + other.all[run]) }
      end

      # @return [Spans] of both
      def +(other)
        Spans.new(@all.merge(other.all) { |_, mine, others| joined(mine + others) })
      end

      # @param earlier [Spans] of a whole profile, as this is
      # @return [Spans] of the difference. A run that only this has is a forked child's, or that of a
      #   process begun since.
      def since(earlier)
        return Spans.new if earlier.empty?

        Spans.new(@all.to_h { |run, spans| [run, [[earlier.all.dig(run, -1, 1) || 0, spans.last[1]]]] })
      end

      # @return [String, nil] as a file has it; nil if there are none
      def to_s
        items = @all.flat_map do |run, spans|
          spans.reject { |span| span.include?(UNKNOWN) }.map { |from, to| "#{run}@#{from}..#{to}" }
        end
        items.join(", ") unless items.empty?
      end

      protected

      attr_reader :all

      private

      # The clock may have been set back in between: then a span's end is before its beginning, but still
      # the next one's beginning.
      def twice?(spans)
        spans = spans.reject { |from, to| from == to }
        return true if [0, 1].any? { |place| spans.uniq { |span| span[place] }.size < spans.size }

        spans.sort_by(&:minmax).each_cons(2).any? do |one, other|
          other.min < one.max && one[1] != other[0] && other[1] != one[0]
        end
      end

      def joined(spans)
        spans.sort.each_with_object([]) do |(from, to), all|
          if all.any? && all.last[1] == from
            all[-1] = [all.last[0], to]
          else
            all << [from, to]
          end
        end
      end
    end
  end
end
