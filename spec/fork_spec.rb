# frozen_string_literal: true

require_relative "support/child"

# Each program below forks; `forked { }` gives what the block in the forked child came to, or the
# child's end when it did not get there.
RSpec.describe Memprofiler::Collector, "and fork", if: Process.respond_to?(:fork) do
  PRELUDE = <<~RUBY
    def forked
      reader, writer = IO.pipe(binmode: true)
      pid = fork do
        reader.close
        writer.write(Marshal.dump(yield))
        writer.close
      end
      writer.close
      answer = reader.read
      reader.close
      _, status = Process.wait2(pid)
      status.success? ? Marshal.load(answer) : status.inspect
    end

    def allocate(count) = Array.new(count) { Object.new }

    def allocated(profile, metric = :alloc_objects)
      profile.samples.sum do |sample|
        sample.stack.any? { |frame| frame.function.end_with?("#allocate") } ? sample.values[metric] : 0
      end
    end
    allocate(1)
  RUBY

  def in_program(body)
    Child.value(PRELUDE + body)
  end

  # Workers of an idle master: where each takes its first sample is chance, 1 to 20,000 objects on.
  it "samples each child anew" do
    firsts = in_program(<<~RUBY)
      collector = Memprofiler::Collector.new(interval: 20_000, seed: 3).start
      Array.new(30) do
        forked do
          (1..).find { allocate(100) && collector.stats[:samples] > 0 }
        end
      end
    RUBY
    # Of 30 at random about 200 places, some 2 pairs are equal; were they all the same, 435.
    expect(firsts.uniq.size).to be > 15
  end

  it "before start: the child may start one" do
    child, parent = in_program(<<~RUBY)
      collector = Memprofiler::Collector.new(interval: 1)
      child = forked do
        collector.start
        held = allocate(100)
        [allocated(collector.flush(gc: true), :inuse_objects), held][0]
      end
      collector.start
      allocate(10)
      [child, allocated(collector.flush)]
    RUBY
    expect(child).to eq(101)
    expect(parent).to eq(11)
  end

  it "while running: the child goes on from there, and the parent as if nothing had been" do
    inherited, grown, alive, pid, parent, parent_alive = in_program(<<~RUBY)
      collector = Memprofiler::Collector.new(interval: 1).start
      held = allocate(1_000)
      GC.start
      child = forked do
        before = allocated(collector.flush)
        more = allocate(500)
        profile = collector.flush(gc: true)
        after = [allocated(profile), allocated(profile, :inuse_objects)]
        held.clear
        GC.start
        [before, *after, profile.metadata[:pid] == Process.pid, more].first(4)
      end
      allocate(70)
      [*child, allocated(collector.flush(gc: true)), allocated(collector.flush, :inuse_objects), held].first(6)
    RUBY
    expect([inherited, grown, alive, pid]).to eq([1_001, 1_502, 1_502, true])
    expect(parent).to eq(1_072)
    expect(parent_alive).to be_between(1_001, 1_072) # the last 71 may still be on the stack
  end

  it "while running: the child sees deaths, by both ways, and may compact" do
    answers = in_program(<<~RUBY)
      %i[mark free].map do |liveness|
        collector = Memprofiler::Collector.new(interval: 1, liveness: liveness).start
        held = allocate(1_000)
        GC.start
        forked do
          held.fill(nil, 0, 600)
          GC.compact if GC.respond_to?(:compact)
          3.times { 1_000.times { allocate(1) } && GC.start } # the stack may hold on to one, which may be an Array
          [allocated(collector.flush(gc: true), :inuse_objects), collector.stats[:lost_collections], held].first(2)
        end
      end
    RUBY
    answers.each do |alive, lost|
      expect(alive).to be_between(401, 404)
      expect(lost).to eq(0)
    end
  end

  it "after stop: the child has the frozen state, and may start anew" do
    frozen, anew = in_program(<<~RUBY)
      collector = Memprofiler::Collector.new(interval: 1).start
      allocate(100)
      collector.stop
      forked do
        frozen = allocated(collector.flush)
        collector.start
        allocate(20)
        [frozen, allocated(collector.stop.flush)]
      end
    RUBY
    expect([frozen, anew]).to eq([101, 21])
  end

  it "again and again: grandchildren flush too" do
    answer = in_program(<<~RUBY)
      collector = Memprofiler::Collector.new(interval: 1).start
      allocate(100)
      forked { allocate(10); forked { allocate(1); forked { allocated(collector.flush) } } }
    RUBY
    expect(answer).to eq(101 + 11 + 2)
  end

  it "a sum of parent and children says that what was before the fork counts in each" do
    pids, listed, alone, differences, own = in_program(<<~RUBY)
      collector = Memprofiler::Collector.new(interval: 1).start
      allocate(100)
      before = collector.flush
      moment = collector.send(:baseline, in_use: true)
      bytes = Array.new(2) do
        allocate(10)
        forked do
          first = collector.flush
          profiles = [first, first - before, collector.flush - first, collector.send(:flush_since, moment, in_use: true)[0]]
          [Process.pid, *profiles.map(&:pprof_data)]
        end
      end
      parent = collector.flush
      children, changes, own, deltas = bytes.map { |_, *data| data.map { |one| Memprofiler::Profile.new(one) } }.transpose
      sums = [parent + children[0], children.sum(Memprofiler.profile { nil }), Memprofiler::Profile.sum([parent, *children])]
      [[Process.pid, *bytes.map(&:first)], sums.map { |sum| sum.metadata[:forked_pids] },
       (parent + Memprofiler.profile { nil }).metadata[:forked_pids],
       [changes, deltas].map { |parts| [*parts.map { |part| part.metadata.slice(:forked_from) }.uniq, parts.reduce(:+).metadata[:forked_pids]] },
       own.reduce(:+).metadata.slice(:forked_from, :forked_pids)]
    RUBY
    parent, *children = pids
    expect(listed[0].split(", ").map(&:to_i)).to contain_exactly(parent, children[0])
    expect(listed[1].split(", ").map(&:to_i)).to include(*children)
    expect(listed[2].split(", ").map(&:to_i)).to contain_exactly(*pids)
    expect(alone).to be_nil
    # What the parent did between the earlier profile and the forks.
    expect(differences).to match([[{ forked_from: match(/\A\h{8}-\h{8}\z/) }, children.join(", ")]] * 2)
    expect(own).to eq({})
  end

  it "a child's child's profiles less those of all that it was forked from, and no others, are differences" do
    grandchild, cousin = in_program(<<~RUBY)
      collector = Memprofiler::Collector.new(interval: 1).start
      first = collector.flush
      other = Memprofiler::Profile.new(forked { collector.flush.pprof_data })
      forked do
        second = collector.flush
        allocate(10)
        forked do
          allocate(5)
          last = collector.flush
          [[first, second].map { |earlier| allocated(last - earlier) }, begin last - other rescue $!.message end]
        end
      end
    RUBY
    expect(grandchild).to eq([17, 17])
    expect(cousin).to match(/not an earlier and a later profile of one collector/)
  end

  it "in a thread: the child has that thread only" do
    answer = in_program(<<~RUBY)
      collector = Memprofiler::Collector.new(interval: 1).start
      stop = false
      busy = Thread.new { allocate(100) until stop }
      answer = Thread.new do
        forked do
          before = allocated(collector.flush(labels: [:thread]))
          allocate(50)
          allocated(collector.flush(labels: [:thread], gc: true)) - before
        end
      end.value
      stop = true
      busy.join
      answer
    RUBY
    expect(answer).to eq(51)
  end

  # The flush is gone in the child: nothing it held may stay locked or half done there.
  it "while another thread flushes, starts and stops" do
    answers, parent = in_program(<<~RUBY)
      collectors = Array.new(2) { |i| Memprofiler::Collector.new(interval: 1, liveness: %i[mark free][i]).start }
      held = allocate(4_000)
      other = Memprofiler::Collector.new(interval: 10)
      stop = false
      flushing = collectors.map { |c| Thread.new { c.flush(labels: %i[class age thread], gc: rand < 0.2) until stop } }
      switching = Thread.new { other.start && other.stop until stop }
      answers = Array.new(8) do
        rand(3).times { Thread.pass }
        forked do
          before = collectors.map { |c| allocated(c.flush) }
          allocate(30)
          after = collectors.map { |c| allocated(c.flush(gc: true)) }
          other.stop.start
          allocate(3_000)
          [before, after, other.flush.total(:alloc_objects)]
        end
      end
      stop = true
      [*flushing, switching].each(&:join)
      allocate(9)
      [answers, collectors.map { |c| allocated(c.flush) }, held].first(2)
    RUBY
    answers.each do |before, after, rough|
      expect(before).to eq([4_001, 4_001])
      expect(after).to eq([4_032, 4_032])
      expect(rough).to be_within(1_500).of(3_000)
    end
    expect(parent).to eq([4_011, 4_011])
  end

  it "gives each child a random sequence of its own" do
    counts = in_program(<<~RUBY)
      collector = Memprofiler::Collector.new(interval: 20, seed: 1).start
      Array.new(4) { forked { Array.new(12) { allocate(500); collector.stats[:samples] } } }
    RUBY
    expect(counts.uniq.size).to eq(4)
  end

  it "then exec, system and spawn leave the program that follows alone" do
    answer = in_program(<<~RUBY)
      require "rbconfig"
      Memprofiler::Collector.new(interval: 1).start
      allocate(1_000)
      command = [RbConfig.ruby, "--disable-gems", "-e", "print 6 * 7"]
      out = IO.popen(command, &:read)
      pid = fork { exec(*command, out: File::NULL) }
      [out, system(*command, out: File::NULL), Process.wait2(pid)[1].success?]
    RUBY
    expect(answer).to eq(["42", true, true])
  end

  it "then exit while another thread flushes, allocates or collects: the process ends as it should" do
    statuses = in_program(<<~RUBY)
      $stderr.reopen(File::NULL)
      endings = [-> { exit 3 }, -> { exit! 3 }, -> { raise "end" }, -> { Thread.main.raise(SystemExit.new(3)) }, -> { Process.kill(:KILL, $$) }]
      endings.map do |ending|
        pid = fork do
          collectors = %i[mark free].map { |liveness| Memprofiler::Collector.new(interval: 1, liveness: liveness).start }
          held = allocate(4_000)
          threads = collectors.map { |c| Thread.new { loop { c.flush(labels: [:class]) } } }
          threads << Thread.new { loop { allocate(100) && Thread.pass } } << Thread.new { loop { GC.start || Thread.pass } }
          at_exit { collectors[0].flush(gc: true).total(:inuse_objects) >= 4_000 or exit!(9) }
          3.times { Thread.pass }
          ending.call
          [held, threads]
        end
        _, status = Process.wait2(pid)
        status.exitstatus || status.termsig
      end
    RUBY
    expect(statuses).to eq([3, 3, 1, 3, 9])
  end
end
