# frozen_string_literal: true

require "datadog"

# Starts Datadog's profiler with everything else off and its profiles kept in the process instead of sent.
module DatadogProfiler
  # Counts the profiles; the exporter calls it where the HTTP transport would send.
  class Sink
    attr_reader :profiles

    def initialize
      @profiles = 0
    end

    def export(_flush)
      @profiles += 1
      true
    end
  end

  def self.start(heap:)
    @sink = Sink.new
    Datadog.configure do |c|
      c.logger.level = Logger::FATAL
      c.tracing.enabled = false
      c.telemetry.enabled = false
      c.remote.enabled = false
      c.crashtracking.enabled = false
      c.profiling.enabled = true
      c.profiling.allocation_enabled = true
      c.profiling.advanced.experimental_heap_enabled = heap
      c.profiling.exporter.transport = @sink
    end
  end

  def self.finish
    Datadog.shutdown!
    raise "Datadog made no profile" if @sink.profiles.zero?
  end
end
