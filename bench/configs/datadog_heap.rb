# frozen_string_literal: true

# Datadog's allocation and heap profilers.
require_relative "../support/datadog"

module Config
  def self.start
    DatadogProfiler.start(heap: true)
  end

  def self.finish
    DatadogProfiler.finish
  end
end
