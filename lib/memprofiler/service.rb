# frozen_string_literal: true

module Memprofiler
  # What the file flusher and the exporter have in common: a collector, and a thread that takes its
  # profiles again and again.
  #
  # @api private
  class Service
    # Checks of options; each error names the option and what is allowed, and never shows a secret.
    module Options
      module_function

      # @param range [Range]
      def number(name, value, range)
        raise TypeError, "#{name} must be a number, not an instance of #{value.class}" unless real?(value)
        return value if range.cover?(value)

        raise ArgumentError, "#{name} must be from #{range.begin} to #{range.end}, not #{value}"
      end

      def integer(name, value, range)
        raise TypeError, "#{name} must be an Integer, not an instance of #{value.class}" unless value.is_a?(Integer)

        number(name, value, range)
      end

      def boolean(name, value)
        return value if [true, false].include?(value)

        raise TypeError, "#{name} must be true or false, not an instance of #{value.class}"
      end

      # @return [String, nil] the value
      def string(name, value)
        return value if value.nil? || value.is_a?(String)

        raise TypeError, "#{name} must be a String, not an instance of #{value.class}"
      end

      def real?(value)
        value.is_a?(Integer) || value.is_a?(Float) || value.is_a?(Rational)
      end
      private_class_method :real?
    end

    EVERY = (0.01..86_400) # seconds
    private_constant :EVERY

    # @raise [ArgumentError, TypeError]
    def initialize(every:, collector:, labels:, gc:) # rubocop:disable Naming/MethodParameterName
      @every = Options.number("every", every, EVERY)
      unless collector.nil? || collector.is_a?(Collector)
        raise TypeError, "collector must be a Memprofiler::Collector, or nil for the process' own, " \
                         "not an instance of #{collector.class}"
      end
      Memprofiler.send(:check_labels, Collector.new, labels)
      @collector = collector
      @labels = labels.dup.freeze
      @gc = Options.boolean("gc", gc)
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
