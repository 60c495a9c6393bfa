# frozen_string_literal: true

module Memprofiler
  # What the file flusher and the exporter have in common: a collector, and a thread that takes its
  # profiles again and again.
  #
  # @api private
  class Service
    EVERY = (0.01..86_400) # seconds
    private_constant :EVERY

    # There's none without its options. (Ruby's own classes of this kind say the same.)
    #
    # @raise [TypeError]
    # @api private
    def self.allocate
      raise TypeError, "allocator undefined for #{self}"
    end

    # @raise [ArgumentError, TypeError]
    def initialize(every:, collector:, labels:, gc:) # rubocop:disable Naming/MethodParameterName
      @every = Arguments.number("every", every, EVERY)
      Memprofiler.send(:check_labels, Collector.new, labels)
      @collector = Arguments.collector("collector", collector)
      @labels = labels.dup.freeze
      @gc = Arguments.boolean("gc", gc)
      @last_state_taken = false
    end

    # Starts it in this process, and in those that it forks from now on; and the process' own collector,
    # if it was given no other one. Does nothing while it runs.
    #
    # @return [self]
    # @raise [NotStartedError] the collector that it was given doesn't run
    # @raise [RactorError] outside the main Ractor
    # @raise [Error] see {Collector#start}
    # @raise [ThreadError] no thread is to be had
    def start
      raise RactorError, "it can be started in the main Ractor only" unless Memprofiler.main_ractor?
      return self if @background.running?

      @collector ? check_collector : Memprofiler.start
      @last_state_taken = false
      prepare
      @background.start
      Memprofiler.add_service(self)
      self
    end

    # Ends it in this process, after a last output. Does nothing when it doesn't run. In a signal handler
    # it returns at once, and the end comes soon.
    #
    # @return [self]
    def stop
      @background.stop
      Memprofiler.remove_service(self)
      self
    end

    # @return [Boolean] whether its thread lives in this process
    def running?
      @background.running?
    end

    private

    # Before the thread starts.
    def prepare; end

    def collector
      @collector || Memprofiler.collector
    end

    def check_collector
      return if @collector.running?

      raise NotStartedError, "the collector doesn't run: start it first"
    end

    # @yieldparam collector [Collector]
    # @return what the block takes of it; nil: the collector has stopped, and its last state was taken
    def take
      collector = self.collector
      running = collector.running? # before the flush: what is taken of one that stops then may lack its end
      return if !running && @last_state_taken

      taken = yield collector
      @last_state_taken = !running
      taken
    end
  end
end
