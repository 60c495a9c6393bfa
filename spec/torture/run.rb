# frozen_string_literal: true

# Random programs under the profiler, each a process of its own (world.rb), until the time is over: what a program may do to its
# memory, its code and the profiler, with a check of what the profiler says against what Ruby says. Prints how to repeat what failed.

require "open3"
require "optparse"
require "rbconfig"

seconds = nil
programs = nil
first = 1
steps = 100
lie = nil
threads = 2
deeds = []
patience = 300 # seconds for one process
OptionParser.new do |options|
  options.banner = "usage: ruby spec/torture/run.rb [options] [DEED...]"
  options.on("--seconds N", Integer, "how long (default 60)") { |n| seconds = n }
  options.on("--programs N", Integer, "how many, instead") { |n| programs = n }
  options.on("--seed N", Integer, "the first seed (default #{first})") { |n| first = n }
  options.on("--steps N", Integer, "deeds of a process' main thread (default #{steps})") { |n| steps = n }
  options.on("--threads N", Integer, "other threads; with 0 a seed repeats exactly (default #{threads})") { |n| threads = n }
  options.on("--lie", "hold the profiler against a truth that is off by one: each program must fail") { lie = "1" }
  deeds = options.parse!
end

load_path = $LOAD_PATH.flat_map { |folder| ["-I", folder] }
ends = Process.clock_gettime(Process::CLOCK_MONOTONIC) + (seconds || 60)
failed = []
checks = lost = 0
seed = first
loop do
  arguments = [seed, steps, threads, *deeds].map(&:to_s)
  output = +""
  pages = "1.0" if RUBY_VERSION < "3.3" && seed.even? # none are given back: see deeds/collection.rb
  environment = { "TORTURE_LIE" => lie, "RUBY_GC_HEAP_FREE_SLOTS_MAX_RATIO" => pages }
  status = Open3.popen2e(environment, RbConfig.ruby, *load_path, File.join(__dir__, "world.rb"), *arguments) do |input, out, process|
    input.close
    reader = Thread.new { output << out.read }
    unless process.join(patience)
      Process.kill(:ABRT, process.pid)
      process.join(10) || Process.kill(:KILL, process.pid)
    end
    reader.join
    process.value
  end
  output.scan(/^checks: (\d+) lost: (\d+)$/) do |done, without|
    checks += done.to_i
    lost += without.to_i
  end
  unless status.success?
    failed << seed
    told = output.scrub("?").sub(/^-- Other runtime information.*/m, "").lines # a crash goes on with what was loaded and mapped
    warn told.size < 400 ? told.last(200).join : told.first(200).join
    warn "torture: seed #{seed} failed (#{status}): ruby spec/torture/run.rb --seed #{seed} --programs 1 --steps #{steps} --threads #{threads} #{deeds.join(" ")}"
  end
  seed += 1
  break if programs ? seed - first >= programs : Process.clock_gettime(Process::CLOCK_MONOTONIC) >= ends
end
puts "torture: Ruby #{RUBY_VERSION}, #{seed - first} programs from seed #{first}, #{checks} checks (in #{lost} the truth was lost), " \
     "#{failed.size} failed#{": #{failed.join(", ")}" unless failed.empty?}"
exit(failed.empty?)
