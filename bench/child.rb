# frozen_string_literal: true

# child.rb CONFIG WORKLOAD.rb COUNT: one run of one workload under one configuration. The configuration defines a
# module Config with start and finish. Peak memory goes to the file descriptor named by BENCH_PEAK_FD: getrusage's
# maximum would be the parent's where that was larger, since exec hands it on.
config, workload, count = ARGV.shift(3)
require_relative "configs/#{config}"
ARGV.replace([count])
Config.start
load workload
Config.finish
if (descriptor = ENV["BENCH_PEAK_FD"])
  IO.for_fd(Integer(descriptor), "w").write(File.read("/proc/self/status")[/VmHWM:\s*(\d+)/, 1])
end
