# frozen_string_literal: true

module Memprofiler
  class Report
    # How a profile was made and what it lacks, in a few lines.
    class Head
      # Bytes that may be missing without a note, and the part of what came since the start.
      UNSEEN_BYTES = 2_000_000
      UNSEEN_SHARE = 0.25
      # The same where the heap's size at the start is not known.
      UNKNOWN_BYTES = 16_000_000

      # What went past the profile, or was given up, and what that does to it.
      PROBLEMS = {
        stopped: "profiling stopped early: %s",
        ractors: "%s",
        jit: "%s",
        same_pid: "several of the summed profiles are of process %s: if they are of one collector, what they share " \
                  "counts more than once",
        forked_pids: "processes that were forked with a running collector (%s): what it had before counts in each",
        intervals: "files with different intervals were summed: %s",
        dropped_samples: "dropped: %s, so values are too low",
        untracked_samples: "not followed until they died: %s, so inuse_* are too low",
        thinned_samples: "live samples thinned out at max_samples: %s (values stay true, their error grows)",
        lost_collections: "unseen garbage collections: %s; what was in use before them is not in inuse_*",
        lost_samples: "given up because of that: %s",
        overflow_stacks: "samples that found no room, in rows of (overflow) or (other classes): %s",
        truncated_stacks: "stacks cut at max_depth, their outer end is (truncated): %s",
        unseen_objects: "objects that Ruby allocated past the profiler: %s",
        hooks_rearmed: "times that Ruby dropped the profiler's hooks, and they were set again: %s"
      }.freeze
      # Of these, what counts more than once
      TWICE = %i[same_pid forked_pids].freeze
      INHERITED = "note: the process was forked with a running collector: what it had before the fork counts here too"
      private_constant :UNSEEN_BYTES, :UNSEEN_SHARE, :UNKNOWN_BYTES, :PROBLEMS, :TWICE, :INHERITED

      # @param profile [Profile]
      def initialize(profile)
        @profile = profile
        @metadata = profile.metadata
        @types = profile.sample_types
      end

      # @return [Array<String>]
      def lines
        return [source, none, *large_objects, *problems] if @profile.model[:samples].empty?

        of_the_heap = tracked.to_a.drop(few? ? 1 : 0)
        [source, *sampling, *of_the_heap, *problems, "sizes: 1 kB = 1000 bytes"].compact
      end

      # @return [Array<String>] the lines that say what counts more than once in a sum
      def twice
        notes(PROBLEMS.slice(*TWICE))
      end

      private

      def source
        tool = @metadata[:memprofiler] ? "memprofiler #{@metadata[:memprofiler]}" : "a profile of another program"
        [tool, @metadata[:ruby] && "ruby #{@metadata[:ruby]}", several? && "#{@metadata[:processes]} processes",
         @metadata[:pid] && !several? && "pid #{@metadata[:pid]}",
         @metadata[:difference] && "difference #{@metadata[:difference]}"].select(&:itself).join(", ")
      end

      def sampling
        samples = @metadata[:samples]
        return [] unless samples.is_a?(Integer)
        return ["exact: every object was recorded (interval 1)"] if exact?
        return ["few samples: #{counts(samples)}; take the numbers as hints#{remedy}"] if few?

        [interval, "samples: #{counts(samples)}", error(samples)]
      end

      def none
        return "no change" if @metadata[:difference]
        return "no object was allocated: every one would have been recorded (interval 1)" if exact?

        "no object was sampled#{remedy}"
      end

      def few?
        @metadata[:samples].is_a?(Integer) && @metadata[:samples] < FEW && !exact? && !@metadata[:difference]
      end

      def remedy
        interval = @metadata[:interval]
        " (one in #{interval} is: use a smaller interval, or run longer)" if interval.is_a?(Integer) && interval > 1
      end

      def exact?
        @metadata[:interval] == 1 && followed == 1 && !@metadata[:dropped_samples] && !@metadata[:untracked_samples]
      end

      # Of so many samples one is followed to its death.
      def followed
        number = @metadata[:track_one_in]
        number.is_a?(Integer) ? number : 1
      end

      def interval
        nominal = @metadata[:interval]
        part = ", one in #{followed} of these followed until it died" if followed > 1
        return "interval: every object counted#{part}; inuse_* are estimates" if nominal == 1

        "interval: one object in #{nominal} sampled#{part}; values are estimates"
      end

      def counts(samples)
        live = @metadata[:live_samples]
        in_use = ", #{Units.value(live, "count")} of objects in use" if live.is_a?(Integer)
        "#{Units.value(samples, "count")} of allocations#{in_use || changed}"
      end

      # What came and went on one stack has cancelled out: there may have been more.
      def changed
        column = @types.keys.index(:inuse_objects)
        return unless @metadata[:difference] && column

        row = @types.keys.each_index.map { |each| @profile.model[:samples].sum { |_, values, _| values[each].abs } }
        sampling = Profile::Sampling.new(@profile.model, @metadata)
        samples, = sampling.behind(column, row, sampling.total_variances(column))
        ", #{Units.value(samples, "count")} of what changed in use" if samples
      end

      def error(samples)
        return unless samples.positive?

        sampling = Profile::Sampling.new(@profile.model, @metadata)
        totals = @types.keys.filter_map.with_index do |metric, column|
          error = sampling.total_error(column)
          "#{metric} +/- #{Units.percent(error)}" if error
        end
        "error (95 %): #{totals.join(", ")}" unless totals.empty?
      end

      # Objects older than the collector are in the heap, but in no profile.
      def tracked
        slots = @metadata[:heap_live_slots]
        return if !slots.is_a?(Integer) || slots.zero? || !@types.key?(:inuse_objects) || @metadata[:difference]

        tracked = @profile.total(:inuse_objects)
        ["in use: #{Units.plural(tracked, "object")} of the heap's #{Units.value(slots, "count")} live slots " \
         "(#{Units.percent(tracked.fdiv(slots))})#{tracked_bytes}; objects from before the start are not tracked",
         *large_objects]
      end

      def tracked_bytes
        return "" unless heap_bytes?

        heap = @metadata[:heap_bytes]
        bytes = @profile.total(:inuse_space)
        ", #{Units.value(bytes, "bytes")} of its #{Units.value(heap, "bytes")} (#{Units.percent(bytes.fdiv(heap))})"
      end

      # An object that holds as much as thousands of others is sampled no more often than they: the
      # whole heap tells when such objects were missed, or when one was met and counted many times.
      def large_objects
        return if !heap_bytes? || exact? || @metadata[:difference]

        bytes = @profile.total(:inuse_space)
        return "note: bytes in use rest on few large objects, and come out too high; use a smaller interval" if
          bytes > @metadata[:heap_bytes] + UNKNOWN_BYTES

        @metadata[:heap_bytes_before].is_a?(Integer) ? missing_since_start(bytes) : missing(bytes)
      end

      def missing_since_start(bytes)
        since = @metadata[:heap_bytes] - @metadata[:heap_bytes_before]
        return unless since - bytes > [UNSEEN_BYTES, since * UNSEEN_SHARE].max

        "note: #{Units.value(since - bytes, "bytes")} of what is in use are in large objects that were not sampled; " \
          "use a smaller interval"
      end

      def missing(bytes)
        heap, slots = @metadata.values_at(:heap_bytes, :heap_live_slots)
        return if slots.nil? || slots.zero? || !@types.key?(:inuse_objects) # as an empty profile may have it

        share = heap * @profile.total(:inuse_objects).fdiv(slots) # if all objects were alike
        return unless share - bytes > [UNKNOWN_BYTES, share / 2].max

        "note: #{Units.value(heap - bytes, "bytes")} of the heap are not in the profile: from before the start, " \
          "or large objects that were not sampled; use a smaller interval"
      end

      def heap_bytes?
        @metadata[:heap_bytes].is_a?(Integer) && @types.key?(:inuse_space)
      end

      def problems
        [*notes(PROBLEMS), *(INHERITED if @metadata[:forked_from] && !several?)]
      end

      def several?
        @metadata[:processes].to_i > 1
      end

      def notes(texts)
        texts.filter_map do |key, text|
          value = @metadata[key]
          next if value.nil? || value.eql?(0)

          "note: #{format(text, value.is_a?(Integer) ? Units.value(value, "count") : value)}"
        end
      end
    end
  end
end
