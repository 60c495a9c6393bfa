# frozen_string_literal: true

module Memprofiler
  class Profile
    # The comments of a profile, read as "key: value", and their sum over files.
    # Go's pprof prints all comments above each of its tables, but those that begin
    # with "#".
    #
    # @api private
    module Metadata
      LINE = /\A(?:# )?([a-z][a-z_]*): (.*)\z/m
      # Of several files the largest counts: these say how each was sampled.
      LARGEST = %i[interval track_one_in].freeze
      # Something went past the profile; left out when 0.
      PROBLEMS = %i[dropped_samples untracked_samples thinned_samples truncated_stacks overflow_stacks lost_collections
                    lost_samples hooks_rearmed unseen_objects].freeze
      # What whoever reads a table should know; the rest is for the report's head.
      PRINTED = [*PROBLEMS, :memprofiler, :interval, :intervals, :processes, :difference, :same_pid, :forked_pids,
                 :stopped, :ractors, :jit].freeze
      # What grows from one profile of a collector to the next.
      COUNTED = [*PROBLEMS, :samples, :collections, :own_objects].freeze
      LIVING = %i[live_samples tracked_objects].freeze
      # Of the whole profile: a sum has these if all its parts have them.
      WHOLE = [:samples, *LIVING, :heap_live_slots, :heap_bytes, :heap_bytes_before].freeze
      # Of several files the numbers are listed.
      LISTED = %i[pid same_pid forked_pids].freeze
      # What is so of a process since a fork.
      INHERITED = %i[forked_from forked_pids].freeze
      # What is computed with. A file that isn't this library's may have anything there: what is no number, or below
      # 0, is as if it weren't there.
      NUMBERS = [*LARGEST, *COUNTED, *WHOLE, :processes, :processes_without_class].uniq.freeze
      private_constant :LINE, :LARGEST, :COUNTED, :LIVING, :WHOLE, :LISTED, :PRINTED, :INHERITED, :NUMBERS

      module_function

      # @param comments [Array<String>]
      # @return [Hash{Symbol => Integer, String}]
      def parse(comments)
        pairs = comments.filter_map { |comment| comment.match(LINE) }.map do |match|
          value = match[2]
          [match[1].to_sym, value.match?(/\A-?\d{1,18}\z/) ? value.to_i : value]
        end
        pairs.to_h.reject { |key, value| NUMBERS.include?(key) && !(value.is_a?(Integer) && value >= 0) }
      end

      # @return [Array<String>] those that are not "key: value"
      def remarks(comments)
        comments.grep_v(LINE)
      end

      # @return [Array<String>] comments that parse to the same Hash
      def format(metadata)
        metadata.map { |key, value| "#{"# " unless PRINTED.include?(key)}#{key}: #{value}" }
      end

      # The metadata of two profiles together: counts are added up, of settings
      # the largest stays, differing texts are listed.
      def sum(one, other)
        sum = one.merge(other) { |key, a, b| join(key, a, b) }
        sum = sum.except(:spans, *WHOLE.reject { |key| one.key?(key) && other.key?(key) })
        sum[:processes] = processes(one, other)
        sum.merge(intervals(one, other), same_processes(one, other))
      end

      # What the later profile has on top of the earlier one. How many live
      # samples a difference rests on can't be told: those that stayed cancel out.
      def difference(later, earlier)
        counted = COUNTED.select { |key| later[key].is_a?(Integer) && earlier[key].is_a?(Integer) }
        difference = later.merge(counted.to_h { |key| [key, later[key] - earlier[key]] })
        difference = difference.except(:spans, *(INHERITED unless inherits?(later, earlier)))
        difference.reject { |key, value| LIVING.include?(key) || (PROBLEMS.include?(key) && value.eql?(0)) }
      end

      # @return [Symbol] :whole, :change (of what is in use) or :allocations (in between, and what is in use)
      def kind(metadata)
        case metadata[:difference]
        when nil then :whole
        when /\Aof alloc_\*/ then :allocations
        else :change
        end
      end

      # @return [Boolean] whether something is less than before that never falls
      def fallen?(later, earlier)
        %i[samples collections].any? do |key|
          later[key].is_a?(Integer) && earlier[key].is_a?(Integer) && later[key] < earlier[key]
        end
      end

      # Whether one of the processes was forked since, so that the difference has what its parent did until then.
      def inherits?(later, earlier)
        before = list(earlier[:run])
        before.any? && (list(later[:run]) - before).any?
      end

      # Several differences may be of one.
      def processes(one, other)
        runs = [one, other].map { |part| list(part[:run]) }
        count = (one[:processes] || 1) + (other[:processes] || 1)
        [count - runs.reduce(:&).size, runs.reduce(:|).size, 1].max
      end

      def intervals(*parts)
        intervals = parts.flat_map { |part| list(part[:intervals] || part[:interval]) }.uniq
        intervals.size > 1 ? { intervals: intervals.sort_by(&:to_i).join(", ") } : {}
      end

      # Files that don't say which part of which run of a collector they have may be two of one; and what is in
      # use is, in each difference of alloc_* only, all of it.
      def same_processes(*parts)
        known = parts.flat_map { |part| list(part[:same_pid]) }
        twice = maybe_twice?(*parts) ? known | parts.map { |part| list(part[:pid]) }.reduce(:&) : known
        twice.empty? ? {} : { same_pid: twice.join(", ") }
      end

      def maybe_twice?(*parts)
        runs = parts.map { |part| list(part[:run]) }
        return true if runs.any?(&:empty?)
        return false unless parts.first[:difference] && runs.reduce(:intersect?)

        parts.any? { |part| part[:spans].nil? || kind(part) == :allocations }
      end

      # @param value [Integer, String, nil] "1, 2"
      # @return [Array<String>]
      def list(value)
        value.to_s.split(", ")
      end

      def join(key, one, other)
        return one.is_a?(Integer) && other.is_a?(Integer) ? [one, other].max : one if LARGEST.include?(key)
        return one + other if !LISTED.include?(key) && one.is_a?(Integer) && other.is_a?(Integer)

        (list(one) | list(other)).join(", ")
      end
      private_class_method :join, :intervals, :same_processes, :maybe_twice?, :processes, :inherits?
    end
  end
end
