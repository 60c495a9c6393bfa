# frozen_string_literal: true

# program.rb SCENARIO profiled SECONDS | SCENARIO bare ROUND...: one process of the soak (see run.rb). Profiled, it goes on for
# SECONDS; bare, it does the same rounds. Prints a row a dozen times: rounds done, seconds, kB of RSS, and what `stats` says.

profiled = ARGV[1] == "profiled"
require "memprofiler" if profiled
require_relative "scenarios"

module Soak
  KEYS = %i[memory label_bytes flush_bytes samples live_samples dropped_samples untracked_samples overflow_stacks kept_threads].freeze
  ROWS = 12

  class Program
    def initialize(scenario)
      @scenario = scenario
      @begun = now
      @round = 0
      @collector = Memprofiler::Collector.new(**scenario.options) if defined?(Memprofiler)
      @collector&.start unless scenario.runs
    end

    def for_seconds(seconds)
      (1..ROWS).each do |row|
        round while now - @begun < seconds * row / ROWS
        print_row
      end
    end

    def for_rounds(rounds)
      rounds.each do |last|
        round while @round < last
        print_row
      end
    end

    # A last profile: that there is one, and how much of it has no place of its own.
    def finish
      return if @scenario.runs

      @collector.stop
      profile = @collector.flush(labels: [:class])
      overflow = profile.samples.sum do |sample|
        lost = sample.stack.any? { |frame| frame.function == "(overflow)" } || sample.labels["class"] == "(other classes)"
        lost ? sample.values[:alloc_objects] : 0
      end
      puts "end #{profile.total(:alloc_objects)} #{overflow} #{@collector.stats.values_at(:samples, :overflow_stacks, :flush_bytes).join(" ")}"
    end

    private

    def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)

    def round
      @scenario.body.call(@round, @collector)
      @round += 1
    end

    # Of all that are there; what labels take they share.
    def figures
      all = ObjectSpace.each_object(Memprofiler::Collector).filter_map do |collector|
        collector.stats.values_at(*KEYS)
      rescue Memprofiler::NotStartedError
        nil
      end
      sums = all.empty? ? [0] * KEYS.size : all.transpose.map(&:sum)
      sums[KEYS.index(:label_bytes)] /= [all.size, 1].max
      sums
    end

    # What is garbage should be in neither of the two.
    def print_row
      2.times { GC.start }
      rss = File.read("/proc/self/statm").split[1].to_i * 4
      stats = @collector ? figures : []
      puts "row #{@round} #{(now - @begun).round(1)} #{rss} #{stats.join(" ")}"
      $stdout.flush
    end
  end
end

program = Soak::Program.new(Soak::SCENARIOS.fetch(ARGV[0]))
if profiled
  program.for_seconds(Float(ARGV[2]))
  program.finish
else
  program.for_rounds(ARGV.drop(2).map(&:to_i))
end
