# frozen_string_literal: true

require_relative "support/child"

# What a thread of the program, or of the profiler's, does in the middle of the profiler's work.
RSpec.describe Memprofiler, "own" do
  PRELUDE_OF_OWN = <<~RUBY
    class Counted; end
    # Fibers that wait for each other and sleep; files block all of them.
    class Scheduler
      def initialize = (@sleeping, @blocked, @lock, @unblocked = [], {}, Mutex.new, [])
      def fiber(&block) = Fiber.new(blocking: false, &block).tap(&:resume)
      def block(*) = (@blocked[Fiber.current] = true) && Fiber.yield && true
      def unblock(_, fiber) = @lock.synchronize { @unblocked << fiber }
      def kernel_sleep(_ = nil) = (@sleeping << Fiber.current) && Fiber.yield
      def io_wait(_, events, _) = events

      def close
        until @sleeping.empty? && @blocked.empty?
          fibers = @sleeping + @lock.synchronize { @unblocked.slice!(0..) }.each { |fiber| @blocked.delete(fiber) }
          @sleeping = []
          fibers.each { |fiber| fiber.resume(true) if fiber.alive? }
        end
      end
    end

    def counted(collector)
      collector.flush(labels: [:class]).top(:alloc_objects, by: :class).find { |row| row.name == "Counted" }&.flat.to_i
    end
  RUBY

  def in_program(code) = Child.value("#{PRELUDE_OF_OWN}\n#{code}")

  it "leaves the finalizers that run in its threads to the program" do
    made, by, seen = in_program(<<~RUBY)
      collector = Memprofiler.start(interval: 1)
      by = Hash.new(0)
      flusher = Memprofiler::FileFlusher.new(dir: "profiles", every: 0.05, gc: true).start
      20.times do
        200.times { ObjectSpace.define_finalizer(Object.new, proc { Counted.new && by[Thread.current.name.to_s] += 1 }) }
        sleep 0.03
      end
      flusher.stop
      [by.values.sum, by.keys, counted(collector)]
    RUBY
    expect(by).to include("memprofiler files")
    expect(seen).to eq(made).and be > 1_000
  end

  it "leaves finalizers to the program too beside so many threads of the profiler that a table of 32 is full" do
    made, seen = in_program(<<~RUBY)
      collector = Memprofiler.start(interval: 1)
      ready = Queue.new
      threads = Array.new(31) { Thread.new { Memprofiler.own { ready << 1 && sleep } } }
      31.times { ready.pop }
      made = 0
      200.times { ObjectSpace.define_finalizer(Object.new, proc { 10.times { Counted.new } && made += 10 }) }
      Memprofiler.own { collector.flush(gc: true) }
      threads.each(&:kill).each(&:join)
      [made, counted(collector)]
    RUBY
    expect(seen).to eq(made).and be > 1_000
  end

  it "leaves a thread's other Fibers to the program while one waits for a file's turn" do
    seen = in_program(<<~'RUBY')
      collector = Memprofiler.start(interval: 1)
      kept = Array.new(50_000) { |i| "kept #{i}" }
      flusher = Memprofiler::FileFlusher.new(dir: "profiles", every: 1_000)
      others = Thread.new { 3.times { flusher.flush } }
      Thread.new do
        Fiber.set_scheduler(Scheduler.new)
        Fiber.schedule { 2.times { flusher.flush } }
        Fiber.schedule { 5_000.times { Counted.new && sleep(0) } }
      end.join
      others.join
      counted(collector)
    RUBY
    expect(seen).to eq(5_000)
  end

  it "ends where a Fiber is dropped in the middle of it" do
    before, after = in_program(<<~RUBY)
      collector = Memprofiler::Collector.new(interval: 1).start
      def dropped = Fiber.new { Memprofiler.own { Fiber.yield } }.resume
      def deep(n) = n.zero? ? dropped : deep(n - 1) # so that nothing of it stays on the stack
      deep(100)
      100.times { Counted.new }
      before = counted(collector)
      20.times { GC.start && Array.new(10_000) { [] } }
      1_000.times { Counted.new }
      [before, counted(collector)]
    RUBY
    expect(before).to be <= 100
    expect(after - before).to eq(1_000)
  end

  it "is interrupted by a trap handler in a flush, whose objects are the program's" do
    made, seen = in_program(<<~'RUBY')
      collector = Memprofiler::Collector.new(interval: 1).start
      made = 0
      kept = Array.new(200_000) { |i| "kept #{i}" }
      trap("USR1") { 100.times { Counted.new && made += 1 } }
      sender = Thread.new { 20.times { Process.kill(:USR1, Process.pid) && sleep(0.01) } }
      Memprofiler.own { collector.flush } while sender.alive?
      [made, counted(collector)]
    RUBY
    expect(made).to be >= 100
    expect(seen).to be > 0
    expect(seen).to be <= made
  end
end
