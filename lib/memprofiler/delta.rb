# frozen_string_literal: true

module Memprofiler
  # What scrapers and servers of profiles want of a process again and again: `alloc_*` since the time
  # before, `inuse_*` as it is. No value is negative.
  #
  # @api private
  module Delta
    class << self
      # @param earlier [Profile, nil] nil, or one of another run of the collector: all of `later` is new
      # @param later [Profile] of the same collector, with the same labels, not earlier than `earlier`
      # @return [Profile] with the later one's time, `duration_nanos` set to what lies between (where
      #   nothing is known of an earlier one it stays 0)
      # @raise [ArgumentError] the profiles are in the wrong order, or of different collectors that
      #   do not say so
      # @raise [DecodeError] one of them is damaged
      def between(earlier, later)
        return later if earlier.nil? || another_run?(earlier, later)

        Profile.from_model(current(Profile::Combination.difference(later.model, allocated(earlier.model)), later))
      end

      private

      def another_run?(*profiles)
        runs = profiles.map { |profile| profile.metadata[:run] }
        runs.all? && runs.uniq.size > 1
      end

      # Where nothing was in use earlier, the difference is what is in use.
      def allocated(model)
        columns = model[:sample_types].each_index.select { |i| model[:sample_types][i][0].start_with?("inuse_") }
        samples = model[:samples].map do |stack, values, labels, deviations|
          [stack, without(columns, values), labels, *([without(columns, deviations)] if deviations)]
        end
        model.merge(samples: samples)
      end

      def without(columns, numbers)
        numbers.each_with_index.map { |number, i| columns.include?(i) ? 0 : number }
      end

      # A reader must not take it for growth.
      def current(model, later)
        metadata = Profile::Metadata.parse(model[:comments])
        metadata[:difference] = "of alloc_* only, #{format("%.3f s", model[:duration_nanos] / 1e9)} apart"
        metadata.merge!(later.metadata.slice(:live_samples, :tracked_objects))
        model.merge(comments: Profile::Metadata.format(metadata))
      end
    end
  end
end
