# frozen_string_literal: true

# flush_child.rb LEVELS COUNT profiled|bare: keeps COUNT objects alive, flushes, and prints what that cost as JSON.
# Without the profiler it prints the memory of the same program alone. LEVELS 0 allocates all on one line.

levels = Integer(ARGV.fetch(0))
count = Integer(ARGV.fetch(1))
profiled = ARGV.fetch(2) == "profiled"
require "json"
require "memprofiler" if profiled
require_relative "gap"

# Two lines at each level, and three with an object of its own kind at the end: 3 * 2**LEVELS stacks.
def descend(bits, level, number)
  if level.zero?
    case number % 3
    when 0 then "a string that does not fit into its slot, number #{number}"
    when 1 then [number, number, number, number]
    else { number: number }
    end
  elsif bits.odd?
    descend(bits >> 1, level - 1, number)
  else # the same on another line
    descend(bits / 2, level - 1, number)
  end
end

def rss_kb
  Integer(File.read("/proc/self/status")[/VmRSS:\s*(\d+)/, 1])
end

kept = Array.new(count)
collector = Memprofiler::Collector.new(interval: 1).start if profiled
if levels.zero?
  kept.map! { Object.new }
else
  kept.each_index { |i| kept[i] = descend(i / 3, levels, i) }
end
GC.start
unless profiled
  puts JSON.generate(rss_kb: rss_kb)
  exit
end

rss = rss_kb
collector.flush
stats = collector.stats
live = stats.fetch(:live_samples)
gap = Bench.longest_gap_ms { collector.flush }
puts JSON.generate(live: live, stacks: stats.fetch(:stacks), overflow: stats.fetch(:overflow_stacks),
                   gvl_ms: stats.fetch(:flush_gvl_ns) / 1e6, piece_ms: stats.fetch(:flush_longest_piece_ns) / 1e6,
                   gap_ms: gap, bytes: stats.fetch(:memory) / live.to_f, rss_kb: rss)
