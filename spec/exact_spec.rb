# frozen_string_literal: true

require_relative "support/child"

# Interval 1 takes every object. The truth is the VM's own count of allocations.
RSpec.describe Memprofiler::Collector, "at interval 1" do
  # What the profile says was allocated, and what the VM says, less the profiler's own objects.
  COUNTS = <<~RUBY
    def counts(liveness: :auto)
      gc = GC # a constant's inline cache is an object as well
      collector = Memprofiler::Collector.new(interval: 1, liveness: liveness)
      collector.start
      before = gc.stat(:total_allocated_objects)
      yield
      collector.stop
      after = gc.stat(:total_allocated_objects)
      [collector.flush.total(:alloc_objects), after - before - collector.stats[:own_objects]]
    end
  RUBY
  # The first call fills the inline caches of `counts`, which are objects too.
  WARM_UP = "2.times { counts { nil } }\n"
  class_eval(COUNTS, __FILE__, __LINE__ - 14)
  before { 2.times { counts { nil } } }

  programs = {
    "strings" => -> { 1_000.times { "x" * 50 } },
    "nothing" => -> {},
    "literals of many kinds" => lambda {
      100.times { |i| [[i], { i => i }, "<#{i}>", i..(i + 1), 1.0e300 * i, 2**70, 1i, Rational(i, 7), /#{i}/, :"s#{i}"] }
    },
    "structs and objects with many variables" => lambda {
      pair = Struct.new(:a, :b)
      50.times { |i| pair.new(i, i) }
      50.times { |i| Object.new.tap { |o| 20.times { |v| o.instance_variable_set("@v#{v}", i) } } }
    },
    "eval" => -> { 20.times { |i| eval("def self.exact_#{i} = [#{i}, 'x']; exact_#{i}") } },
    "define_method and new classes" => lambda {
      20.times { |i| Class.new { define_method(:"m#{i}") { |a = [1]| a + [2] } }.new.public_send(:"m#{i}") }
    },
    "singleton methods and refinements" => lambda {
      20.times { |i| Object.new.tap { |o| o.define_singleton_method(:m) { [i] } }.m }
      Module.new { refine(String) { def exact_refined = [1] } }
    },
    "threads" => lambda {
      Array.new(8) { |i| Thread.new { 200.times { "t#{i}" } } }.each(&:join)
    },
    "fibers and enumerators" => lambda {
      20.times { |i| Fiber.new { 5.times { Fiber.yield [i] } }.then { |f| 5.times { f.resume } } }
      20.times { e = [1, 2, 3].each; 3.times { e.next } }
    },
    "exceptions, throw and ensure" => lambda {
      100.times do
        raise ArgumentError, "no"
      rescue ArgumentError => e
        e.backtrace
      ensure
        [1]
      end
      20.times { catch(:out) { throw :out, "x".dup } }
      20.times { begin; nil.no_such_method; rescue NoMethodError => e; e.message; end }
    },
    "collections on the way" => -> { 10.times { Array.new(1_000) { +"x" }; GC.start } },
    "minor collections on the way" => -> { 10.times { Array.new(1_000) { +"x" }; GC.start(full_mark: false) } },
    "deep recursion" => lambda {
      down = ->(n) { n.zero? ? [1] : [down.call(n - 1)] }
      down.call(1_500)
    },
    "method_missing, Method objects and binding" => lambda {
      50.times { 1.method(:+).unbind.bind(2).call(3) }
      50.times { binding.local_variables }
    },
    "blocks that become procs" => -> { 100.times { |i| proc { i }.curry.call } }
  }

  programs.each do |name, program|
    it("counts #{name} as the VM does") do
      program.call # and those of the program
      profile, vm = counts(&program)
      expect(profile).to eq(vm)
    end
  end

  it "counts a program's first run, with all its caches, as the VM does" do
    answer = Child.value(COUNTS + WARM_UP + <<~RUBY)
      counts do
        require "set"
        require "optparse"
        require "erb"
        ERB.new("<% 3.times do |i| %><%= i %><% end %>").result
        OptionParser.new { |o| o.on("-a") }.parse(%w[-a])
      end
    RUBY
    expect(answer[0]).to eq(answer[1])
    expect(answer[1]).to be > 3_000
  end

  it "counts as the VM does with the free hook" do
    program = -> { 5.times { Array.new(500) { |i| [i.to_s] }; GC.start } }
    program.call
    profile, vm = counts(liveness: :free, &program)
    expect(profile).to eq(vm)
  end

  it "counts as the VM does under GC.stress and objspace tracing" do
    answers = Child.value(COUNTS + WARM_UP + <<~RUBY)
      require "objspace"
      work = proc do
        6.times { |i| [i.to_s, { i => "x" * 60 }, /x/.match("axb"), Class.new] }
      end
      2.times { counts(&work) }
      stress = proc do
        GC.stress = true
        work.call
      ensure
        GC.stress = false
      end
      plain = counts(&work)
      tracing = counts { ObjectSpace.trace_object_allocations(&work) }
      stressed = counts(&stress)
      both = counts { ObjectSpace.trace_object_allocations(&stress) }
      [plain, tracing, stressed, both]
    RUBY
    answers.each { |profile, vm| expect(profile).to eq(vm) }
    expect(answers[0][1]).to be > 30
  end

  it "counts as the VM does in compiled code", if: defined?(RubyVM::YJIT) do
    answer = Child.value(COUNTS + <<~RUBY, options: ["--yjit", "--yjit-call-threshold=2"])
      def make(i) = [i, i.to_s, { i => [i] }]
      work = -> { 1_000.times { |i| make(i) } }
      5.times { counts(&work) }
      counts(&work)
    RUBY
    expect(answer[0]).to eq(answer[1])
    expect(answer[1]).to be >= 4_000
  end

  it "attributes each object to the line that made it" do
    first = __LINE__ + 2
    profile = Memprofiler.profile(interval: 1) do
      a = Array.new(100) { +"a" }
      b = 50.times.map { [1] }
      [a, b]
    end
    lines = profile.top(:alloc_objects, by: :line).to_h { |row| [row.name, row.flat] }
    expect(lines["#{__FILE__}:#{first}"]).to be_between(101, 120) # the Array, and inline caches
    expect(lines["#{__FILE__}:#{first + 1}"]).to be_between(52, 75)
  end

  it "gives every collector the whole truth" do
    one = described_class.new(interval: 1).start
    two = described_class.new(interval: 1).start
    three = described_class.new(interval: 1).start
    before = GC.stat(:total_allocated_objects)
    1_000.times { "x".dup }
    growth = GC.stat(:total_allocated_objects) - before
    two.stop
    flushed = [one, two, three].map { |c| c.flush.top(:alloc_objects, by: :line).to_h { |r| [r.name, r.flat] } }
    [one, three].each(&:stop)
    line = "#{__FILE__}:#{__LINE__ - 5}"
    expect(flushed.map { |lines| lines[line] }).to all(eq(1_000))
    expect(growth).to be_between(1_000, 1_200) # with the profiler's own
  end

  it "keeps its own allocations out, and counts them" do
    collector = described_class.new(interval: 1).start
    10.times { collector.flush(labels: %i[class age thread]) }
    stats = collector.stats
    lines = collector.flush.top(:alloc_objects, by: :function).map(&:name)
    collector.stop
    expect(stats[:own_objects]).to be > 10
    expect(stats[:unseen_objects]).to eq(0)
    expect(lines.grep(/Memprofiler/)).to be_empty
  end

  # From 3.4 the VM's own count grows with each object that a compaction moves.
  it "does not count moves, whatever the VM does", if: GC.respond_to?(:compact) do
    growth, counted, unseen, = Child.value(<<~RUBY)
      kept = Array.new(20_000) { |i| i.odd? ? "x" * 30 : nil }
      collector = Memprofiler::Collector.new(interval: 1).start
      before = GC.stat(:total_allocated_objects)
      3.times { GC.compact }
      growth = GC.stat(:total_allocated_objects) - before
      stats = collector.stats
      [growth, collector.flush.total(:alloc_objects), stats[:unseen_objects], kept.size]
    RUBY
    expect(counted).to be < 1_000 # the Hash that GC.compact answers with, and its like
    expect(unseen).to be < 300
    expect(growth - counted).to(RUBY_VERSION >= "3.4" ? be > 1_000 : be < 300)
  end

  it "speaks of no problem where there was none" do
    said = Child.value(<<~RUBY)
      require "objspace"
      kept = Array.new(20_000) { |i| "x" * 30 if i.odd? }
      collectors = %i[mark free].map { |liveness| Memprofiler::Collector.new(interval: 1, liveness: liveness).start }
      Array.new(10_000) { |i| [i] } && GC.start
      GC.compact if GC.respond_to?(:compact)
      Array.new(5) { Thread.new { Array.new(1_000) { |i| { i => i } } } }.each(&:join)
      Process.wait(fork { exit! })
      Process.warmup if Process.respond_to?(:warmup)
      collectors.map { |collector| collector.flush(labels: [:class], gc: true).metadata }.push(kept.size)
    RUBY
    harmless = %i[memprofiler ruby pid run interval interval_in_force track_one_in liveness samples live_samples tracked_objects
                  heap_live_slots collections own_objects]
    said.take(2).each { |metadata| expect(metadata.keys - harmless).to eq([]) }
  end

  it "says how many objects other Ractors made that it could not see", unless: Memprofiler::VMFaults::RACTORS_CRASH do
    seen, unseen, comments = Child.value(<<~RUBY)
      $VERBOSE = nil
      collector = Memprofiler::Collector.new(interval: 1).start
      ractor = Ractor.new { 10_000.times { Object.new }; 1 }
      ractor.respond_to?(:value) ? ractor.value : ractor.take
      stats = collector.stats
      profile = collector.flush
      [profile.total(:alloc_objects), stats[:unseen_objects], profile.comments]
    RUBY
    if RUBY_VERSION < "4"
      expect(unseen).to be_between(9_990, 10_500)
      expect(seen).to be < 5_000
      expect(comments.grep(/\Aunseen_objects: /)).not_to be_empty
    else
      expect(seen).to be > 10_000
    end
  end
end
