# frozen_string_literal: true

# program.rb ROUNDS: all that makes the extension take memory of its own, and give it back. Prints kB of RSS at half the rounds and
# at the end.

require "memprofiler"
require "tmpdir"

module Leaks
  module_function

  def work = Array.new(200) { |i| { i => i.to_s * 3 } }

  def refused
    yield
    raise "not refused"
  rescue Memprofiler::Error, ArgumentError, TypeError
    nil
  end

  def collectors
    %i[mark free].each do |liveness|
      collector = Memprofiler::Collector.new(interval: 1, liveness: liveness).start(heap: true)
      Memprofiler.with_labels(job: "leaks", round: rand(5)) { work }
      eval("def self.evaled = [1]; evaled")
      Thread.new { work }.join
      collector.flush(labels: %i[class age thread pid], gc: true, heap: true)
      collector.stats
      collector.stop
      collector.flush
      refused { collector.flush(labels: [1]) }
      collector.start
      refused { collector.start }
      work
    end
    refused { Memprofiler::Collector.new.flush }
    refused { Memprofiler::Collector.new(interval: 0) }
    Memprofiler::Collector.new(interval: 3, max_samples: 20, max_depth: 3, track_one_in: 2).start && work
  end

  def differences
    collector = Memprofiler::Collector.new(interval: 1).start
    earlier = collector.flush(labels: [:class])
    baseline = collector.send(:baseline, in_use: true)
    work
    collector.send(:flush_since, baseline, in_use: true)
    (collector.flush(labels: [:class]) - earlier).top(:alloc_space)
    collector.stop
  end

  def profiles(folder)
    profile = Memprofiler.profile(interval: 1) { work }
    path = File.join(folder, "#{rand(1 << 60)}.pb.gz")
    profile.write(path)
    refused { profile.write(path) }
    bytes = profile.pprof_data
    refused { Memprofiler::Profile.load("#{path}x") }
    refused { Memprofiler::Profile.new("nothing") }
    refused { Memprofiler::Profile.new(bytes[0, bytes.size / 2]).samples }
    refused { Memprofiler::Profile.new(bytes.dup.tap { |b| b[bytes.size / 2, 40] = "\0" * 40 }).samples }
    (Memprofiler::Profile.load(path) + Memprofiler.profile(interval: 1) { work }).samples
    File.delete(path)
  end

  # A Fiber that never comes back from its flush: a signal's handler leaves it in there. (Ruby runs handlers where it looks for
  # interrupts, as a flush does between its steps.)
  def drop_in_flush(collector)
    root = Fiber.current
    inside = false
    before = trap(:USR1) { Fiber.yield(:left) if inside && Fiber.current != root }
    prodder = Thread.new { loop { Process.kill(:USR1, $$) && sleep(0.0005) } }
    1_000.times do
      fiber = Fiber.new do
        inside = true
        collector.flush
        inside = false
      end
      left = fiber.resume == :left
      inside = false
      return if left
    end
    raise "no Fiber was left in a flush"
  ensure
    prodder&.kill&.join
    trap(:USR1, before || "DEFAULT")
  end

  def interrupted
    collector = Memprofiler::Collector.new(interval: 1).start
    work
    thread = Thread.new { loop { collector.flush } }
    sleep 0.01
    thread.kill.join
    drop_in_flush(collector)
    # LeakSanitizer leaves its allocator locked in a child that is forked while another thread is ending.
    sleep 0.2
    child = fork { collector.flush && exit }
    Process.wait(child)
    raise "the child failed" unless $?.success?

    collector.stop
  end

  def round(folder)
    collectors
    differences
    profiles(folder)
    interrupted
    GC.start
  end

  # For a test of this test: a collector that forgets where its memory is.
  def lie
    require "fiddle"
    collector = Memprofiler::Collector.new(interval: 1).start
    work
    collector.stop
    Fiddle::Pointer.new(Fiddle.dlwrap(collector))[4 * Fiddle::SIZEOF_VOIDP, Fiddle::SIZEOF_VOIDP] = "\0" * Fiddle::SIZEOF_VOIDP
  end

  def rss = File.exist?("/proc/self/statm") ? File.read("/proc/self/statm").split[1].to_i * 4 : 0
end

rounds = Integer(ARGV[0])
Dir.mktmpdir do |folder|
  at_half = nil
  Leaks.lie if ENV["LEAKS_LIE"]
  (1..rounds).each do |round|
    Leaks.round(folder)
    at_half = Leaks.rss if round == (rounds / 2.0).ceil
  end
  puts "rss: #{at_half} #{Leaks.rss}" if Process.respond_to?(:fork)
end
