# frozen_string_literal: true

module Memprofiler
  class Report
    # How a profile was made and what it lacks, in a few lines.
    class Head
      FEW = 100 # samples in all; below, whole tables are guesswork

      # What went past the profile, or was given up, and what that does to it.
      PROBLEMS = {
        stopped: "profiling stopped early: %s",
        ractors: "%s",
        intervals: "files with different intervals were summed: %s",
        dropped_samples: "dropped: %s, so values are too low",
        untracked_samples: "not followed until they died: %s, so inuse_* are too low",
        thinned_samples: "live samples thinned out at max_samples: %s (values stay true, their error grows)",
        lost_collections: "unseen garbage collections: %s; what was in use before them is not in inuse_*",
        lost_samples: "given up because of that: %s",
        overflow_stacks: "samples in row (overflow), as the limit on stacks was reached: %s",
        truncated_stacks: "stacks cut at max_depth, their outer end is (truncated): %s",
        unseen_objects: "objects that Ruby allocated past the profiler: %s",
        hooks_rearmed: "times that Ruby dropped the profiler's hooks, and they were set again: %s"
      }.freeze
      private_constant :FEW, :PROBLEMS

      # @param profile [Profile]
      def initialize(profile)
        @profile = profile
        @metadata = profile.metadata
        @types = profile.sample_types
      end

      # @return [Array<String>]
      def lines
        [source, *sampling, tracked, *problems, "sizes: 1 kB = 1000 bytes"].compact
      end

      private

      def source
        tool = @metadata[:memprofiler] ? "memprofiler #{@metadata[:memprofiler]}" : "a profile of another program"
        processes = @metadata[:processes]
        [tool, @metadata[:ruby] && "ruby #{@metadata[:ruby]}", processes && "#{processes} processes",
         @metadata[:pid] && !processes && "pid #{@metadata[:pid]}",
         @metadata[:difference] && "difference #{@metadata[:difference]}"].select(&:itself).join(", ")
      end

      def sampling
        samples = @metadata[:samples]
        return [] unless samples.is_a?(Integer)
        return ["exact: every object was recorded (interval 1)"] if exact?

        few = "few samples: numbers are guesses; use a smaller interval or run longer" if samples < FEW
        [interval, "samples: #{Units.value(samples, "count")} of allocations#{live_samples}", error(samples), few]
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

      def live_samples
        live = @metadata[:live_samples]
        live.is_a?(Integer) ? ", #{Units.value(live, "count")} of objects in use" : ""
      end

      def error(samples)
        return unless samples.positive?

        rows = %i[alloc_objects inuse_objects].filter_map do |metric|
          next unless @types.key?(metric)

          error = Profile::Sampling.new(@profile.model, @metadata).total_error(@types.keys.index(metric))
          "+/- #{Units.percent(error)} for all #{metric}" if error
        end
        "error (95 %): #{rows.join(", ")}" unless rows.empty?
      end

      # Objects older than the collector are in the heap, but in no profile.
      def tracked
        slots = @metadata[:heap_live_slots]
        return if !slots.is_a?(Integer) || slots.zero? || !@types.key?(:inuse_objects) || @metadata[:difference]

        tracked = @profile.total(:inuse_objects)
        "in use: #{Units.plural(tracked, "object")} of the heap's #{Units.value(slots, "count")} live slots " \
          "(#{Units.percent(tracked.fdiv(slots))}); objects from before the start are not tracked"
      end

      def problems
        PROBLEMS.filter_map do |key, text|
          value = @metadata[key]
          next if value.nil? || value.eql?(0)

          "note: #{format(text, value.is_a?(Integer) ? Units.value(value, "count") : value)}"
        end
      end
    end
  end
end
