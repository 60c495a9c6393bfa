# frozen_string_literal: true

require_relative "measure"
require_relative "table"

module Bench
  # Interleaved runs of one workload under several configurations (A B C A B C ...), so that a machine that slows down
  # for a while slows all of them.
  class Comparison
    attr_reader :workload

    def initialize(workload, count, configurations, rounds)
      @workload = workload
      @count = count
      @configurations = configurations
      @rounds = rounds
      @runs = Hash.new { |runs, name| runs[name] = [] }
      @notes = {}
    end

    def measure
      @rounds.times { @configurations.each { |configuration| measure_once(configuration) } }
      self
    end

    # Medians; nil where the configuration did not run.
    def cpu(name)
      Measure.median(@runs[name].map(&:cpu)) if @runs.key?(name)
    end

    def peak_kb(name)
      Measure.median(@runs[name].map(&:peak_kb)) if @runs.key?(name)
    end

    def added_cpu(name)
      cpu(name) && (cpu(name) - cpu("bare"))
    end

    def added_peak_kb(name)
      peak_kb(name) && (peak_kb(name) - peak_kb("bare"))
    end

    def print(base)
      puts "", "#{@workload.name} #{@count}, #{@rounds} round#{"s" unless @rounds == 1}"
      head = ["configuration", "CPU s", "least", "most", "x bare", base && "x #{base}", "peak MB", "added MB"]
      Table.print(head.compact, @configurations.map { |configuration| row(configuration.name, base) })
      @notes.each { |name, note| puts "  #{name}: #{note}" }
    end

    private

    def measure_once(configuration)
      name = configuration.name
      return if @notes.key?(name)
      return @notes[name] = configuration.unavailable if configuration.unavailable

      run = Measure.run(configuration.environment, configuration.command(@workload, @count))
      return @notes[name] = run.error if run.error

      @runs[name] << run
    end

    def row(name, base)
      return [name, *["-"] * (base ? 7 : 6)] unless cpu(name)

      least, most = @runs[name].map(&:cpu).minmax
      [name, format("%.2f", cpu(name)), format("%.2f", least), format("%.2f", most), ratio(name, "bare"),
       *(ratio(name, base) if base), *[peak_kb(name), added_peak_kb(name)].map { |kb| format("%.1f", kb / 1024.0) }]
    end

    def ratio(name, base)
      cpu(base) ? format("%.2f", cpu(name) / cpu(base)) : "-"
    end
  end
end
