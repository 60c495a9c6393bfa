# frozen_string_literal: true

require_relative "answer"
require_relative "waiting"

module Memprofiler
  class Rack
    # Takes profiles of a collector for requests.
    #
    # @api private
    class Scrape
      # Halves the time for which this thread keeps others from running, so often: 12 ms instead of 100.
      POLITE = -3
      private_constant :POLITE

      # @param collector [Collector, nil] nil: the process' own
      # @param start [Hash] options for the process' own, should it not run yet
      # @param max_waiting [Integer]
      # @raise [ArgumentError, TypeError, AlreadyStartedError]
      def initialize(collector, start, max_waiting)
        @given = collector
        @waiting = Waiting.new(max_waiting)
        @lock = Mutex.new
        @last = @last_of = nil # the moment of the last since_last, and whose
        @last_samples = 0
        Memprofiler.start(**start) unless collector
      rescue AlreadyStartedError
        raise
      rescue Error => e # This Ruby can't be profiled: no reason for the program not to start.
        @failure = e.message
        Printable.warn("memprofiler: the collector can't be started: #{@failure}")
      end

      # @return [Collector]
      # @raise [Answer::Refusal] there is none that runs
      def collector
        found = @given || Memprofiler.collector
        return found if found&.running?

        raise Answer::Refusal.new(503, not_running(found))
      end

      # @return [Profile] all since the collector's start, which pprof shows allocations of
      def allocs(collect:)
        collector.send(:flush_allocs, collect)
      end

      # @param labels [Array<Symbol>]
      # @return [Profile] all since the collector's start
      def profile(collect:, labels: [])
        collector.flush(gc: collect, labels: labels)
      end

      # @param seconds [Integer]
      # @param allocs [Boolean] whether pprof is to show allocations
      # @return [Profile] what comes in that time, and what goes of what is in use
      def difference(seconds, collect:, labels: [], allocs: false)
        @waiting.hold(seconds) do
          collector = self.collector
          earlier = collector.send(:baseline, gc: collect, in_use: true)
          @waiting.sleep(seconds)
          raise Answer::Refusal.new(503, "the collector was stopped meanwhile") unless collector.running?

          how = { gc: collect, labels: labels, in_use: true, allocs: allocs }
          profile, later = collector.send(:flush_since, earlier, **how)
          raise Answer::Refusal.new(503, "the collector was started anew meanwhile") unless later.same_run?(earlier)

          profile
        end
      end

      # @return [Profile] `alloc_*` since the last one of these, `inuse_*` as it is
      def since_last(collect:)
        collector = self.collector
        # In order: what one request gets no other one does.
        @lock.synchronize do
          before = @last if collector.equal?(@last_of)
          profile, @last = collector.send(:flush_since, before, gc: collect)
          @last_of = collector
          @last_samples = collector.stats[:samples]
          profile
        end
      end

      # @param samples [Integer] of the collector, now
      # @return [Integer] samples since the last request for what came since the last one
      def samples_since_last(samples)
        samples < @last_samples ? samples : samples - @last_samples # the collector was started anew
      end

      # Others go first, and what it takes is in no profile.
      #
      # @return what the block does
      def compute(&)
        thread = Thread.current
        priority = thread.priority
        # not before: who kills the thread there must not be told of an ensure that knows nothing yet
        begin
          thread.priority = POLITE if priority > POLITE
          Memprofiler.own(&)
        ensure
          thread.priority = priority
        end
      end

      private

      def not_running(found)
        return "the collector could not be started: #{@failure}" if @failure && found.nil?
        return "the collector does not run: it was never started, or was stopped" if @given
        return "the collector was never started: Memprofiler.start does" if found.nil?

        "the collector was stopped: Memprofiler.start starts it anew"
      end
    end
  end
end
