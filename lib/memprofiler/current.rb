# frozen_string_literal: true

# The process' own collector, which the Rack middleware, the file flusher, the exporter and the signal
# share unless they are given another one: each collector costs the program, so one is enough.
module Memprofiler
  @current_lock = Mutex.new
  @current = @current_options = @current_since = nil
  @services = []

  class << self
    # Starts the process' own collector, unless it runs.
    #
    # @param options what {Collector.new} takes
    # @return [Collector]
    # @raise [AlreadyStartedError] it runs with other options than these, if any are given
    # @raise [ArgumentError, TypeError] an option is not allowed
    # @raise [RactorError] outside the main Ractor
    # @raise [Error] see {Collector#start}
    def start(**options)
      @current_lock.synchronize do
        if @current&.running?
          return @current if options.empty? || options == @current_options

          raise AlreadyStartedError, "the process' collector runs already, with #{told(@current_options)}, " \
                                     "not #{told(options)}"
        end
        collector = Collector.new(**options)
        collector.start
        @current_options = options.dup.freeze
        @current_since = Time.now
        @current = collector
      end
    end

    # Stops the process' own collector, if it runs; its last state stays to be flushed.
    #
    # @return [Collector, nil] nil: it was never started
    def stop
      @current_lock.synchronize { @current&.stop }
    end

    # @return [Collector, nil] the process' own, running or stopped; nil: it was never started
    def collector
      @current
    end

    # How profiling in this process is doing, for a health check or a console.
    #
    # @return [Hash{Symbol => Object}] `running` (true, false), `pid`; if {start} was ever called: `since`
    #   (Time), `interval`, `samples`, `live_samples`, `collections`, `memory` (bytes of the profiler's own),
    #   see {Collector#stats}; `services`: an Array of what each file flusher and exporter says of itself
    def status
      collector = @current
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

    def told(options)
      options.empty? ? "default options" : options.map { |name, value| "#{name}: #{value.inspect}" }.join(", ")
    end
  end
end
