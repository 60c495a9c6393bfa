# frozen_string_literal: true

# memory_profiler, to its printed report.
require "memory_profiler"

module Config
  def self.start
    MemoryProfiler.start
  end

  def self.finish
    report = MemoryProfiler.stop
    File.open(File::NULL, "w") { |null| report.pretty_print(null) }
  end
end
