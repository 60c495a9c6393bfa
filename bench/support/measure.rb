# frozen_string_literal: true

require "etc"
require "rbconfig"
require "tempfile"
require_relative "folders"

module Bench
  Run = Struct.new(:cpu, :peak_kb, :error)

  # Runs processes one at a time and measures each: CPU time (user and system, its children included) and peak memory.
  module Measure
    module_function

    # Process.times has the waited-for children only, so the difference is this child with all that it waited for.
    def run(environment, command)
      reader, writer = IO.pipe
      output = Tempfile.create("bench")
      before = children_cpu
      pid = Process.spawn(environment.merge("BENCH_PEAK_FD" => "3"), *command,
                          3 => writer, out: output, err: %i[child out], in: File::NULL)
      writer.close
      _, status = Process.wait2(pid)
      cpu = children_cpu - before
      peak = reader.read
      Run.new(cpu, peak.to_i, status.success? ? nil : reason(status, File.read(output.path)))
    ensure
      reader&.close
      output&.close
      File.unlink(output.path) if output
    end

    # One line: how the process ended and what it said, without the folder of this checkout.
    def reason(status, output)
      lines = output.lines.map(&:strip)
      line = lines.find { |l| l.include?("Error") } || lines.last
      "#{status.to_s.sub(/\Apid \d+ /, "")}: #{line.to_s.gsub("#{ROOT}/", "")}"
    end

    def children_cpu
      times = Process.times
      times.cutime + times.cstime
    end

    def median(values)
      sorted = values.sort
      middle = sorted.size / 2
      sorted.size.odd? ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2.0
    end

    def machine
      model = File.read("/proc/cpuinfo")[/^model name\s*:\s*(.+)$/, 1] || RbConfig::CONFIG["host_cpu"]
      load_average = File.read("/proc/loadavg").split.first
      "#{Time.now.strftime("%Y-%m-%d")}, #{RUBY_DESCRIPTION}, #{model}, #{Etc.nprocessors} cores, " \
        "load #{load_average} at the start"
    end
  end
end
