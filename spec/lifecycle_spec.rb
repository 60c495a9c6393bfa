# frozen_string_literal: true

require "objspace"
require_relative "support/child"

RSpec.describe Memprofiler::Collector, "lifecycle" do
  def allocate(count) = Array.new(count) { Object.new }

  # What `allocate` made, by the profile.
  def allocated(profile, metric = :alloc_objects)
    profile.samples.sum do |sample|
      sample.stack.any? { |frame| frame.function.end_with?("#allocate") } ? sample.values[metric] : 0
    end
  end

  # Inline caches are objects too, and up to Ruby 3.1 each constant that comes later empties them all.
  before { Memprofiler.profile { nil }.samples && allocate(1) }

  describe "options" do
    {
      { interval: 0 } => [ArgumentError, "interval must be an Integer from 1 to 1000000000, not 0"],
      { interval: -5 } => [ArgumentError, "interval must be an Integer from 1 to 1000000000, not -5"],
      { interval: 1_000_000_001 } => [ArgumentError, "interval must be an Integer from 1 to 1000000000, not 1000000001"],
      { interval: 2**70 } => [ArgumentError, "interval must be an Integer from 1 to 1000000000, not #{2**70}"],
      { interval: 1.5 } => [TypeError, "interval must be an Integer from 1 to 1000000000, not Float"],
      { interval: "512" } => [TypeError, "interval must be an Integer from 1 to 1000000000, not String"],
      { interval: nil } => [TypeError, "interval must be an Integer from 1 to 1000000000, not NilClass"],
      { interval: 1001, track_one_in: 1_000_000 } => [ArgumentError, "interval times track_one_in must be at most 1000000000"],
      { max_depth: 0 } => [ArgumentError, "max_depth must be an Integer from 1 to 10000, not 0"],
      { max_depth: 10_001 } => [ArgumentError, "max_depth must be an Integer from 1 to 10000, not 10001"],
      { max_depth: :deep } => [TypeError, "max_depth must be an Integer from 1 to 10000, not Symbol"],
      { max_samples: 0 } => [ArgumentError, "max_samples must be an Integer from 1 to 1000000000, or nil, not 0"],
      { max_samples: 1.0 } => [TypeError, "max_samples must be an Integer from 1 to 1000000000, or nil, not Float"],
      { track_one_in: 0 } => [ArgumentError, "track_one_in must be an Integer from 1 to 1000000, not 0"],
      { track_one_in: 1_000_001 } => [ArgumentError, "track_one_in must be an Integer from 1 to 1000000, not 1000001"],
      { track_one_in: [] } => [TypeError, "track_one_in must be an Integer from 1 to 1000000, not Array"],
      { liveness: :never } => [ArgumentError, "liveness must be :auto, :mark or :free, not :never"],
      { liveness: "mark" } => [TypeError, "liveness must be a Symbol, :auto, :mark or :free, not String"],
      { seed: -1 } => [ArgumentError, "seed must be an Integer from 0 to 18446744073709551615, or nil, not -1"],
      { seed: 2**64 } => [ArgumentError, "seed must be an Integer from 0 to 18446744073709551615, or nil, not #{2**64}"],
      { seed: "x" } => [TypeError, "seed must be an Integer from 0 to 18446744073709551615, or nil, not String"],
      { rate: 5 } => [ArgumentError, "unknown keyword: :rate"]
    }.each do |options, (error, message)|
      it("refuse #{options} by name, saying what is allowed") do
        expect { described_class.new(**options) }.to raise_error(error, message)
      end
    end

    [{ interval: 1_000_000_000 }, { max_depth: 1 }, { max_depth: 10_000 }, { max_samples: nil }, { max_samples: 1 },
     { track_one_in: 1_000_000 }, { seed: (2**64) - 1 }, { seed: nil }, { liveness: :auto }, { liveness: :free }].each do |options|
      it("take #{options}") do
        collector = described_class.new(**options).start
        allocate(100)
        expect(collector.flush.total(:alloc_objects)).to be >= 0
        collector.stop
      end
    end

    it "are what stats repeats" do
      collector = described_class.new(interval: 33, track_one_in: 4, liveness: :free).start
      expect(collector.stats).to include(interval: 33, interval_in_force: 33, track_one_in: 4, liveness: :free, running: true)
      collector.stop
      expect(collector.stats).to include(running: false)
    end

    it "of flush are checked before anything is done" do
      collector = described_class.new
      expect { collector.flush(labels: [:size]) }.to raise_error(ArgumentError, "labels must be among :class, :age, :thread and :pid, not :size")
      expect { collector.flush(labels: ["class"]) }
        .to raise_error(TypeError, 'labels must be among :class, :age, :thread and :pid, not "class"')
      expect { collector.flush(labels: :class) }
        .to raise_error(TypeError, "labels must be an Array of :class, :age, :thread and :pid, not Symbol")
      expect { collector.flush(gc: 1) }.to raise_error(TypeError, "gc must be true or false, not Integer")
      expect { collector.flush(heap: nil) }.to raise_error(TypeError, "heap must be true or false, not NilClass")
      expect { collector.flush(all: true) }.to raise_error(ArgumentError, "unknown keyword: :all")
    end
  end

  describe "flush(heap: true)" do
    # By objspace's own measuring, which knows more of what extensions and classes own.
    it "measures all that lives, whatever was sampled" do
      collector = described_class.new(interval: 1_000_000).start
      expect(collector.flush.metadata).not_to include(:heap_bytes)
      before = collector.flush(gc: true, heap: true).metadata[:heap_bytes]
      objspace_before = ObjectSpace.memsize_of_all
      held = Array.new(100) { String.new(capacity: 1_000_000) }
      after = collector.flush(gc: true, heap: true).metadata[:heap_bytes]
      objspace_after = ObjectSpace.memsize_of_all
      collector.stop
      expect(before).to be_within(objspace_before / 2).of(objspace_before)
      expect(after - before).to be_within(1_000_000).of(100_000_000)
      expect(after - before).to be_within(1_000_000).of(objspace_after - objspace_before)
      expect(held.size).to eq(100)
    end
  end

  describe "start, stop and flush" do
    let(:collector) { described_class.new(interval: 1) }

    after { collector.stop }

    it "have their order" do
      expect(collector).not_to be_running
      expect { collector.flush }.to raise_error(Memprofiler::NotStartedError, "the collector was never started")
      expect { collector.stats }.to raise_error(Memprofiler::NotStartedError)
      expect(collector.stop).to be(collector)
      expect(collector.start).to be(collector)
      expect(collector).to be_running
      expect { collector.start }.to raise_error(Memprofiler::AlreadyStartedError, "the collector is running already")
      expect(collector.stop).to be(collector)
      expect(collector.stop).to be(collector)
      expect(collector).not_to be_running
      expect(Memprofiler::NotStartedError.ancestors).to include(Memprofiler::Error)
      expect(Memprofiler::AlreadyStartedError.ancestors).to include(Memprofiler::Error)
    end

    it "can't be had by copying, or without new" do
      collector.start
      expect { collector.dup }.to raise_error(StandardError)
      bare = described_class.allocate
      expect { bare.start }.to raise_error(TypeError, "uninitialized collector")
      expect { bare.flush }.to raise_error(Memprofiler::NotStartedError)
      expect { collector.send(:initialize) }.to raise_error(TypeError)
      expect(collector).to be_running
    end

    it "freeze the last state at stop, which flush still answers from" do
      collector.start
      held = allocate(100)
      GC.start
      collector.stop
      frozen = collector.flush
      held.clear
      3.times { allocate(1_000) && GC.start }
      later = collector.flush(gc: true)
      expect(later.samples).to eq(frozen.samples)
      expect(allocated(later)).to eq(101)
      expect(allocated(later, :inuse_objects)).to be_between(100, 101)
      expect(collector.stats[:live_samples]).to be >= 100
    end

    it "begin a new profile with each start" do
      collector.start
      allocate(5_000)
      collector.stop
      collector.start
      allocate(7)
      expect(allocated(collector.flush)).to eq(8)
      collector.stop
      expect(allocated(collector.flush)).to eq(8)
      expect(collector.stats[:samples]).to be < 1_000
    end

    it "never let a stack's cumulative values fall, and flush resets nothing" do
      collector.start
      seen = Hash.new([0, 0])
      6.times do |round|
        allocate(50).each { |object| object.instance_variable_set(:@a, "x" * 100) }
        strings = Array.new(20) { "y" * 5_000 }
        strings.each(&:clear) if round.odd?
        GC.start if round == 3
        now = Hash.new([0, 0])
        collector.flush(labels: round.odd? ? [:class] : [], gc: round == 4).samples.each do |sample|
          key = sample.stack.map(&:to_a)
          now[key] = now[key].zip(sample.values.values_at(:alloc_objects, :alloc_space)).map(&:sum)
        end
        fallen = seen.reject { |stack, values| now[stack].zip(values).all? { |new, old| new >= old } }
        expect(fallen.first(2)).to eq([])
        seen = now
      end
      expect(allocated(collector.flush)).to eq(6 * 51)
      expect(allocated(collector.flush)).to eq(6 * 51)
    end

    it "let a delta be taken of two flushes" do
      collector.start
      allocate(10)
      earlier = collector.flush
      allocate(30)
      expect(allocated(collector.flush - earlier)).to eq(31)
    end

    it "are ended by an exception in Memprofiler.profile, which passes" do
      before = ObjectSpace.each_object(described_class).count(&:running?)
      expect { Memprofiler.profile(interval: 1) { raise IOError, "mine" } }.to raise_error(IOError, "mine")
      expect(ObjectSpace.each_object(described_class).count(&:running?)).to eq(before)
      expect { Memprofiler.profile }.to raise_error(ArgumentError, /needs a block/)
    end
  end

  describe "several collectors" do
    it "run at once, each with its own results" do
      exact = described_class.new(interval: 1).start
      allocate(100)
      rough = described_class.new(interval: 10, seed: 3, liveness: :free).start
      allocate(3_000)
      exact.stop
      allocate(2_000)
      rough.stop
      expect(allocated(exact.flush)).to eq(3_102)
      expect(allocated(rough.flush)).to be_within(5 * Math.sqrt(5_002 * 9)).of(5_002)
      expect(rough.flush.period).to eq(10)
    end

    it "are 64 at most, and say so" do
      collectors = Array.new(65) { described_class.new(interval: 1000) }
      already = ObjectSpace.each_object(described_class).count(&:running?)
      started = collectors.take(64 - already).each(&:start)
      expect { collectors.last.start }.to raise_error(Memprofiler::Error, "64 collectors are running already, and more can't")
      expect(collectors.last).not_to be_running
      started.first.stop
      expect(collectors.last.start).to be_running
      collectors.each(&:stop)
    end

    # 64 that kept their hooks would leave no place for another.
    it "that are dropped while running take their hooks off and free their memory" do
      growth, stopped = Child.value(<<~RUBY)
        def drop(count)
          count.times { Memprofiler::Collector.new(interval: 1, liveness: rand < 0.5 ? :mark : :free).start && Array.new(2_000) { [1] } }
        end
        def rss = File.read("/proc/self/statm").split[1].to_i * 4
        8.times { drop(10); 3.times { GC.start } }
        before = File.exist?("/proc/self/statm") ? rss : 0
        25.times { drop(10); 3.times { GC.start } }
        [before.zero? ? 0 : rss - before, ObjectSpace.each_object(Memprofiler::Collector).count { |c| !c.running? }]
      RUBY
      expect(stopped).to eq(0)
      # In kB. What 250 runs leave behind would be above 100 MB; a sanitizer does keep what was freed.
      expect(growth).to be < 20_000 unless ENV["MEMPROFILER_ASAN"] == "1"
    end
  end

  it "can be started and stopped without end and without a collection, and takes no more memory" do
    growth = Child.value(<<~RUBY)
      def rss = File.read("/proc/self/statm").split[1].to_i * 4
      collector = Memprofiler::Collector.new(interval: 1)
      round = proc { collector.start && Object.new && collector.stop }
      500.times(&round)
      before = File.exist?("/proc/self/statm") ? rss : 0
      10_000.times(&round)
      before.zero? ? 0 : rss - before
    RUBY
    expect(growth).to be < 20_000 unless ENV["MEMPROFILER_ASAN"] == "1" # kB; 10,000 runs have 140 MB and more
  end

  describe "stats" do
    it "tell what is kept, at no more than 64 bytes a living sample, and what flushing cost" do
      collector = described_class.new(interval: 1).start
      held = allocate(210_000)
      stats = collector.flush(gc: true) && collector.stats
      collector.stop
      expect(stats[:live_samples]).to be >= held.size # exact: no cap unless one is given
      expect(stats[:live_bytes]).to be <= 64 * stats[:live_samples]
      expect(stats[:memory]).to be > stats[:live_bytes]
      expect(stats).to include(interval: 1, track_one_in_force: 1, thinned_samples: 0, dropped_samples: 0, untracked_samples: 0,
                               lost_collections: 0, flushes: 1, collections: be >= 1, samples: be >= held.size)
      expect(stats[:flush_longest_piece_ns]).to be_between(1, stats[:flush_gvl_ns])
    end

    it "tell of several tables that stay small" do
      collector = described_class.new(interval: 1).start
      allocate(100)
      stats = collector.flush && collector.stats
      collector.stop
      expect(stats.slice(:stacks, :sites, :functions, :locations, :strings, :frames, :classes, :threads).values).to all(be_between(1, 400))
    end
  end

  describe "threads" do
    it "are kept until a flush asks for their names, as many as stats say; but for the main one, which has its name" do
      kept = Child.value(<<~RUBY)
        collector = Memprofiler::Collector.new(interval: 1).start
        alone = Array.new(5_000) { Object.new } && collector.stats[:kept_threads]
        5.times { Thread.new { [1] }.join }
        before = collector.stats[:kept_threads]
        rows = collector.flush(labels: [:thread]).top(:alloc_objects, by: "label:thread").map(&:name)
        [alone, before, collector.stats[:kept_threads], rows.include?("main"), rows.include?("(thread)")]
      RUBY
      expect(kept).to eq([0, 5, 0, true, false])
    end

    it "flush all at once, more of them than one would think" do
      totals = Child.value(<<~RUBY)
        collector = Memprofiler::Collector.new(interval: 1).start
        held = Array.new(20_000) { Object.new }
        GC.start
        Array.new(50) { Thread.new { collector.flush.total(:inuse_objects) } }.map(&:value).push(held.size)
      RUBY
      expect(totals).to all(be_between(20_000, 40_000))
    end

    it "flush, start and stop as they like" do
      errors, live = Child.value(<<~RUBY)
        Thread.report_on_exception = true
        collector = Memprofiler::Collector.new(interval: 3).start
        held = Array.new(60_000) { |i| [i.to_s] }
        switching = Thread.new { 150.times { |i| i.even? ? collector.stop : collector.start } }
        flushing = Array.new(3) do |n|
          Thread.new do
            40.times do
              profile = collector.flush(labels: [[], %i[class], %i[class age thread]][n], gc: rand < 0.1)
              raise "negative" if profile.total(:alloc_objects).negative?
            end
          end
        end
        working = Thread.new { 200.times { Array.new(1_000) { |i| { i => [i] } }; Thread.pass } }
        [switching, *flushing, working].each(&:join)
        collector.start unless collector.running?
        again = Array.new(1_000) { Object.new }
        [[], collector.flush(gc: true, labels: [:class]).top(:inuse_objects, by: :class).find { |row| row.name == "Object" }.flat, held, again].first(2)
      RUBY
      expect(errors).to eq([])
      expect(live).to be_within(250).of(1_000)
    end

    it "stop while another flushes: the flush ends whole" do
      totals = Child.value(<<~RUBY)
        held = nil
        totals = 10.times.map do
          collector = Memprofiler::Collector.new(interval: 1).start
          held = Array.new(30_000) { |i| [i] }
          GC.start
          flush = Thread.new { collector.flush(labels: [:class]) }
          Thread.pass
          collector.stop
          first = flush.value.total(:inuse_objects)
          [first, collector.flush.total(:inuse_objects)]
        end
        totals
      RUBY
      totals.each { |first, second| expect([first, second]).to all(be_between(30_000, 40_000)) }
    end

    it "that die in a flush, or are raised into, leave nothing locked" do
      counts = Child.value(<<~RUBY)
        Thread.report_on_exception = false
        collector = Memprofiler::Collector.new(interval: 1).start
        held = Array.new(30_000) { |i| [i] }
        20.times do |i|
          thread = Thread.new { loop { collector.flush(labels: %i[class age]) } }
          (i * 500).times { Thread.pass if rand < 0.001 }
          i.even? ? thread.kill : thread.raise(IOError, "now")
          begin
            thread.join
          rescue IOError
            nil
          end
        end
        before = GC.stat(:total_allocated_objects)
        Array.new(1_000) { Object.new }
        own = collector.stats[:own_objects]
        Array.new(1_000) { Object.new }
        [collector.flush.total(:alloc_objects), collector.stats[:own_objects] - own, held.size]
      RUBY
      expect(counts[0]).to be >= 32_000
      expect(counts[1]).to be < 500 # what a thread that is gone left behind keeps no other's objects out
    end

    # Whatever Ruby code the naming of threads may run, others are let in there. It is done in a
    # flush. In the job, through which nothing can be raised, none is run.
    {
      "in a flush" => "5.times { Thread.new { [1] }.join }; Thread.new { collector.flush(labels: [:thread]) }.join",
      "in a job" => "3_000.times { Thread.new { Array.new(20) { [1] } }.join }"
    }.each do |name, work|
      it "told to end while the profiler has them do its naming, do end (#{name})" do
        endings = Child.value(<<~RUBY)
          Thread.report_on_exception = false
          %i[kill raise].map do |ending|
            collector = Memprofiler::Collector.new(interval: 1).start
            namer = told = nil
            trace = TracePoint.new(:c_call, :call) do |event|
              next if namer || Thread.current == Thread.main || !event.self.is_a?(Thread) || !%i[name to_s inspect].include?(event.method_id)

              namer = Thread.current
              Thread.pass until told
            end
            working = Thread.new { trace.enable(target_thread: nil) { #{work} } }
            Thread.pass until namer || !working.alive?
            next [false, nil] unless namer

            ending == :kill ? namer.kill : namer.raise(IOError, "end")
            told = true
            begin
              [true, namer.value.inspect]
            rescue IOError => error
              [true, error.message]
            ensure
              begin
                working.kill.join
              rescue IOError # it was the namer itself
                nil
              end
            end
          end
        RUBY
        endings.zip(%w[nil end]) { |(inside, came), due| expect(came).to eq(due) if inside }
      end
    end

    # One waits in the middle of its naming while another flushes.
    it "flush side by side, each of them whole, and are told to end all the same" do
      whole, survived = Child.value(<<~RUBY)
        collector = Memprofiler::Collector.new(interval: 1).start
        first = whole = nil
        survived = false
        inside = Queue.new
        go = false
        trace = TracePoint.new(:c_call) do |event|
          next unless event.method_id == :name && Thread.current == first && inside.empty?

          inside << true
          Thread.pass until go
        end
        waiting = Thread.new { [1]; sleep }
        Thread.pass until waiting.stop?
        trace.enable(target_thread: nil) do
          first = Thread.new do
            Thread.pass until first
            collector.flush
            survived = true
          end
          inside.pop
          held = eval("Array.new(1_000) { Object.new }", TOPLEVEL_BINDING, "fresh.rb", 1)
          GC.start
          fresh = collector.flush.samples.select { |sample| sample.stack.any? { |frame| frame.file == "fresh.rb" } }
          whole = %i[alloc_objects inuse_objects].map { |metric| fresh.sum { |sample| sample.values[metric] } }
          first.kill
          go = true
          first.join
          held.clear
        end
        [whole, survived]
      RUBY
      expect(whole).to all(be_between(1_000, 1_010))
      expect(survived).to be(false)
    end

    it "may come up while a flush lets others run: what lives of them has its place" do
      overflow, flushes = Child.value(<<~RUBY)
        collector = Memprofiler::Collector.new(interval: 1).start
        eval(Array.new(20_000) { |i| "def made\#{i} = $held << Object.new\n" }.join, TOPLEVEL_BINDING, "many.rb", 1)
        $held = []
        20_000.times { |i| send(:"made\#{i}") }
        stop = false
        maker = Thread.new do
          until stop
            Thread.new { 50.times { $held << Object.new } }.join
            GC.start(full_mark: false)
          end
        end
        flushes = Array.new(5) { collector.flush }
        stop = true
        maker.join
        collector.stop
        overflow = flushes.sum { |flush| flush.samples.sum { |sample| sample.stack.any? { |frame| frame.function == "(overflow)" } ? 1 : 0 } }
        [overflow, flushes.size]
      RUBY
      expect([overflow, flushes]).to eq([0, 5])
    end

    # The table of living samples is packed then, and all have new numbers.
    it "that let most of it go in the middle of a flush or stop leave the rest measured" do
      in_use = Child.value(<<~RUBY)
        %i[flush stop].map do |which|
          collector = Memprofiler::Collector.new(interval: 1).start
          mass = Array.new(400_000) { [1] }
          strings = Array.new(5_000) { String.new(capacity: 10) }.each { |string| string << "x" * 1_000 }
          GC.start # what no collection has seen alive is not in use
          collector.flush if which == :stop # names all
          other = Thread.new { Thread.stop; mass = nil; GC.start; collector.stats }
          sleep 0.01 until other.stop?
          waker = Thread.new { other.run }
          collector.public_send(which)
          [other, waker].each(&:join)
          profile = collector.flush(labels: [:class])
          collector.stop
          [profile.top(:inuse_space, by: :class).find { |row| row.name == "String" }.flat, strings].first
        end
      RUBY
      expect(in_use).to all(be_between(5_000 * 1_040, 5_100 * 1_100))
    end

    # Such a Fiber runs no ensure. What the flush held would stay, and the run too.
    it "in a Fiber that is dropped in the middle of a flush leave nothing behind" do
      left, growth, seen, counted = Child.value(<<~RUBY)
        require "fiber" # 3.1 has Fiber.current there
        class Mine; end
        def rss = File.exist?("/proc/self/statm") ? File.read("/proc/self/statm").split[1].to_i * 4 : 0
        collector = Memprofiler::Collector.new(interval: 1).start
        8_000.times { |i| eval("def made\#{i} = Object.new; made\#{i}") }
        inside = false
        root = Fiber.current
        trap(:USR1) { Fiber.yield(:left) if inside && Fiber.current != root }
        parent = Process.pid
        prodder = Process.fork do
          trap(:USR1, "DEFAULT")
          Process.kill(:USR1, parent) && sleep(0.005) while Process.ppid == parent
        end
        leave = lambda do |times|
          left = 0
          (10 * times).times do
            fiber = Fiber.new { inside = true; collector.flush; inside = false }
            left += 1 if fiber.resume == :left
            inside = false
            return left if left == times
            GC.start if left % 5 == 0
          end
        end
        leave.(10)
        before = rss
        left = leave.(50)
        growth = rss - before
        Process.kill(:KILL, prodder) && Process.wait(prodder)
        trap(:USR1, "IGNORE")
        [1].each { Array.new(100) { [1] } } && GC.start
        before = collector.stats[:allocations]
        mine = Array.new(1_000) { Mine.new }
        seen = collector.stats[:allocations] - before
        [left, growth, seen, collector.flush(labels: [:class]).top(:alloc_objects, by: :class).find { |row| row.name == "Mine" }.flat]
      RUBY
      expect(left).to eq(50)
      expect(seen).to be_between(1_000, 1_050)
      expect(counted).to eq(1_000)
      expect(growth).to be < 30_000 unless ENV["MEMPROFILER_ASAN"] == "1" # kB
    end

    it "in a trap handler may flush" do
      total = Child.value(<<~RUBY)
        collector = Memprofiler::Collector.new(interval: 1).start
        held = Array.new(1_000) { Object.new }
        total = nil
        trap(:USR1) { total = collector.flush(gc: true).total(:inuse_objects) }
        Process.kill(:USR1, Process.pid)
        Thread.pass until total
        [total, held].first
      RUBY
      expect(total).to be_between(1_000, 1_500)
    end
  end
end
