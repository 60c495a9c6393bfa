# frozen_string_literal: true

# Datadog's allocation profiler; its CPU profiler can't be switched off.
require_relative "../support/datadog"

module Config
  def self.start
    DatadogProfiler.start(heap: false)
  end

  def self.finish
    DatadogProfiler.finish
  end
end
