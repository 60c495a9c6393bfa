# frozen_string_literal: true

# The process' own collector, which the Rack middleware, the file flusher, the exporter and the signal
# share unless they are given another one: each collector costs the program, so one is enough.
module Memprofiler
  @current_lock = Mutex.new
  @current = @current_options = @current_since = nil
  @services = [].freeze

  class << self
    # Starts the process' own collector, unless it runs.
    #
    # @param options [Hash{Symbol => Object}] what {Collector.new} takes
    # @return [Collector]
    # @raise [AlreadyStartedError] it runs with other options than these, if any are given
    # @raise [ArgumentError, TypeError] an option is not allowed
    # @raise [RactorError] outside the main Ractor
    # @raise [Error] see {Collector#start}; in a signal handler that interrupts a start or stop
    def start(**options)
      only_one do
        running = running_with(options)
        next running if running

        collector = Collector.new(**options)
        collector.start
        @current_options = options.freeze
        @current_since = Time.now
        @current = collector
      end
    end

    # Stops the process' own collector, if it runs; its last state stays to be flushed.
    #
    # @return [Collector, nil] nil: it was never started
    # @raise [RactorError] outside the main Ractor
    # @raise [Error] in a signal handler that interrupts a start or stop
    def stop
      only_one { @current&.stop }
    end

    # @return [Collector, nil] the process' own, running or stopped; nil: it was never started
    # @raise [RactorError] outside the main Ractor
    def collector
      main_ractor!
      @current
    end

    # How profiling in this process is doing, for a health check or a console.
    #
    # @return [Hash{Symbol => Object}] `running` (true, false), `pid`; if {start} was ever called: `since`
    #   (Time), `interval`, `samples`, `live_samples`, `collections`, `memory` (bytes of the profiler's own),
    #   see {Collector#stats}; `services`: an Array of what each file flusher, exporter and signal that there
    #   is says of itself: see {FileFlusher#status} and {PyroscopeExporter#status}; of MEMPROFILER_SIGNAL `service`
    #   ("signal"), `signal` (its name without "SIG"), `dir`, and of this process `written` (files after it), `last`
    #   (the last one's path, or nil), `error` (why the last could not be written, or nil)
    # @raise [RactorError] outside the main Ractor
    def status
      collector = self.collector
      status = { running: !collector.nil? && collector.running?, pid: Process.pid }
      if collector
        stats = collector.stats
        status[:since] = @current_since
        %i[interval samples live_samples collections memory].each { |key| status[key] = stats[key] }
      end
      status.merge(services: @services.map(&:status))
    end

    # @param service [#status]
    # @api private
    def add_service(service)
      @services |= [service]
    end

    # @api private
    def remove_service(service)
      @services -= [service]
    end

    private

    # A signal handler can't wait for a lock, but take one that is free.
    def only_one
      main_ractor!
      begin
        @current_lock.try_lock || @current_lock.lock
      rescue ThreadError
        raise Error, "the process' collector is being started or stopped just now: try again later"
      end
      begin
        yield
      ensure
        @current_lock.unlock
      end
    end

    def main_ractor!
      raise RactorError, "the process' collector is the main Ractor's" unless main_ractor?
    end

    def running_with(options)
      return unless @current&.running?
      return @current if options.empty? || with_defaults(options) == with_defaults(@current_options)

      raise AlreadyStartedError, "the process' collector runs already, with #{told(@current_options)}, " \
                                 "not #{told(options)}"
    end

    # What {Collector#initialize} makes of what isn't given.
    def with_defaults(options)
      { interval: 512, max_depth: 512, max_samples: options[:interval] == 1 ? nil : 200_000, track_one_in: 1,
        liveness: :auto, seed: nil }.merge(options)
    end

    def told(options)
      options.empty? ? "default options" : options.map { |name, value| "#{name}: #{value.inspect}" }.join(", ")
    end
  end
end
