# frozen_string_literal: true

require_relative "support/child"

# Each program runs in a process of its own: with some Rubies a Ractor and hooks together crash it.
RSpec.describe Memprofiler::Collector, "and Ractors" do
  # Of Ractor's two ways to wait, the one this Ruby has.
  WAIT = <<~RUBY
    def wait_for(ractor) = ractor.respond_to?(:value) ? ractor.value : ractor.take
  RUBY
  CRASH = Memprofiler::VMFaults::RACTORS_CRASH

  def in_program(body, **options)
    Child.ruby(WAIT + body, **options)
  end

  it "can only be made in the main one" do
    answer = in_program(<<~RUBY).value
      wait_for(Ractor.new do
        [-> { Memprofiler::Collector.new }, -> { Memprofiler.profile { 1 } }].map do |attempt|
          attempt.call
          "made"
        rescue => error
          [error.class.name, error.class.ancestors.include?(Memprofiler::Error), error.message]
        end
      end)
    RUBY
    expect(answer).to eq([["Memprofiler::RactorError", true, "a collector can only be used in the main Ractor"]] * 2)
  end

  # GC.stress = 5: only malloc collects what is old, and putting a hook on calls it.
  it "leave a place free where a collector dies of being armed again (bug 19112)", if: RUBY_VERSION < "4" do
    alive, started = in_program(<<~RUBY).value
      def deep(levels, &block) = levels.zero? ? block.call : deep(levels - 1, &block)
      ended = Array.new(12) { Ractor.new { 1 }.tap { |ractor| wait_for(ractor) } }
      sleep 0.2
      box = [nil]
      looks = Memprofiler::Collector.new(interval: 1_000).start.stop
      weak = ObjectSpace::WeakMap.new
      12.times do
        deep(40) { weak[box[0] = Memprofiler::Collector.new(interval: 1_000).start] = 1 }
        4.times { GC.start }
        deep(50) { ended.pop && nil }
        deep(60) { 0.to_s && nil }
        GC.start # a Ractor goes, and with it all events
        GC.stress = 5
        box[0] = nil
        looks.stats
        GC.stress = false
      end
      GC.start
      started = Array.new(64) { Memprofiler::Collector.new.start }
      [weak.size, started.count(&:running?)]
    RUBY
    expect([alive, started]).to match([be <= 2, 64])
  end

  it "leave alone whose objects are the profiler's own in the main one" do
    counted, own = in_program(<<~RUBY).value
      own = "300_000.times { Memprofiler.own { 1 } }"
      ractors = Array.new(3) { Ractor.new(own) { |work| eval(work) } }
      eval(own)
      ractors.each { |ractor| wait_for(ractor) }
      collector = Memprofiler::Collector.new(interval: 1)
      Memprofiler.own { collector.start }
      100.times { Object.new }
      collector.stop
      [collector.flush.total(:alloc_objects), collector.stats[:own_objects]]
    RUBY
    expect(counted).to be >= 100
    expect(own).to be < 100
  end

  describe "on a Ruby that crashes when one starts under hooks", if: CRASH do
    it "end before the first one, with a warning, and the profile says why" do
      result = in_program(<<~RUBY)
        collectors = Array.new(2) { |i| Memprofiler::Collector.new(interval: 1, liveness: %i[mark free][i]).start }
        stopped = Memprofiler::Collector.new(interval: 1).start.stop
        held = Array.new(100) { Object.new }
        GC.start
        sum = wait_for(Ractor.new { 50_000.times.sum { |i| [i].first } })
        5.times { Array.new(10_000) { [1] } && GC.start }
        profile = collectors[0].flush
        [sum, collectors.map(&:running?), profile.metadata[:stopped], profile.total(:inuse_objects),
         stopped.flush.metadata[:stopped], held].first(5)
      RUBY
      sum, running, why, alive, other = result.value
      expect(sum).to eq(50_000 * 49_999 / 2)
      expect(running).to eq([false, false])
      expect(why).to match(/Ractor/)
      expect(alive).to be >= 100
      expect(other).to be_nil
      expect(result.err.scan(/^memprofiler: profiling ends here: .*Ractor/).size).to eq(1)
    end

    it "can't be started while one runs, and can when it has ended, until the next" do
      refused, counted, why, sum = in_program(<<~RUBY).value
        collector = Memprofiler::Collector.new(interval: 1).start.stop
        ractor = Ractor.new { Ractor.receive }
        refused = [collector, Memprofiler::Collector.new].map do |one|
          one.start
          "started"
        rescue Memprofiler::Error => error
          error.message
        end
        ractor.send(1)
        wait_for(ractor)
        Thread.pass until Ractor.count == 1
        collector.start
        10.times { Array.new(1_000) { [1] } && GC.start }
        counted = collector.flush.total(:alloc_objects)
        sum = wait_for(Ractor.new { 20_000.times.sum { |i| [i].first } })
        10.times { Array.new(1_000) { [1] } && GC.start }
        [refused, counted, collector.flush.metadata[:stopped], sum]
      RUBY
      expect(refused).to all(match(/crashes when a Ractor starts/))
      expect(counted).to be >= 10_000
      expect(why).to match(/Ractor/)
      expect(sum).to eq(20_000 * 19_999 / 2)
    end

    it "are not started by other threads while one is created" do
      sums = in_program(<<~RUBY).value
        $stderr = File.open(File::NULL, "w")
        collector = Memprofiler::Collector.new(interval: 1)
        others = Array.new(3) do
          Thread.new { loop { (collector.start rescue Memprofiler::Error) && Thread.pass && Array.new(10) { "x" * 10 } } }
        end
        sums = Array.new(100) { wait_for(Ractor.new { 200.times.sum { |i| [i].first } }) }
        others.each(&:kill).each(&:join)
        sums.uniq
      RUBY
      expect(sums).to eq([19_900])
    end

    it "leave Ractor.new alone where warnings raise, and can be started again" do
      sum, running = in_program(<<~RUBY).value
        def Warning.warn(*) = raise("a warning is an error")
        Warning[:experimental] = false
        collector = Memprofiler::Collector.new(interval: 1).start
        sum = wait_for(Ractor.new { 20_000.times.sum { |i| [i].first } })
        Thread.pass until Ractor.count == 1
        [sum, collector.start.running?]
      RUBY
      expect([sum, running]).to eq([20_000 * 19_999 / 2, true])
    end

    it "say nothing where none runs" do
      result = in_program(<<~RUBY)
        Memprofiler::Collector.new.start.stop
        wait_for(Ractor.new { 1 })
      RUBY
      expect(result.err).not_to include("memprofiler")
    end
  end

  describe "on a Ruby that survives them", unless: CRASH do
    it "go on in the main one, and count its objects" do
      counted, said = in_program(<<~RUBY).value
        collector = Memprofiler::Collector.new(interval: 1).start
        def allocate(count) = Array.new(count) { Object.new }
        allocate(1)
        ractors = Array.new(3) { |i| Ractor.new(i) { |n| 20_000.times { [n] } && n } }
        allocate(1_000)
        ractors.each { |ractor| wait_for(ractor) }
        allocate(1_000)
        profile = collector.flush(gc: true)
        mine = profile.samples.sum { |s| s.stack.any? { |f| f.function.end_with?("#allocate") } ? s.values[:alloc_objects] : 0 }
        [mine, profile.metadata]
      RUBY
      expect(counted).to be_between(2_004, 2_030)
      expect(said[:ractors]).to match(/not seen/) if RUBY_VERSION < "4"
    end

    # From 4.0 a finalizer runs in whichever Ractor collects.
    it "refuse to be used in another one, which finalizers may bring them to" do
      answers, still = in_program(<<~RUBY).value
        collector = Memprofiler::Collector.new(interval: 1).start
        answers = Hash.new(0)
        uses = [-> { collector.start }, -> { collector.stop }, -> { collector.flush }, -> { collector.stats }, -> { collector.running? }]
        finalizer = proc do
          mine = Ractor.current == Ractor.main
          uses.each { |use| mine ? answers[:mine] += 1 : (use.call rescue answers[$!.class.name] += 1) }
        end
        1_000.times { ObjectSpace.define_finalizer(Object.new, finalizer) }
        wait_for(Ractor.new { 10.times { GC.start && Array.new(1_000) { [1] } } })
        GC.start
        [answers, collector.running?]
      RUBY
      expect(answers.keys - [:mine, "Memprofiler::RactorError"]).to eq([])
      expect(answers.values.sum).to be >= 4_500
      expect(still).to be(true)
    end

    it "miss nothing, and say so, when others allocated before the start", if: RUBY_VERSION >= "4" do
      unseen, said = in_program(<<~RUBY).value
        ractors = Array.new(4) { Ractor.new { 900.times { Object.new } && Ractor.receive } }
        sleep 0.2
        collector = Memprofiler::Collector.new(interval: 1).start
        ractors.each { |ractor| ractor.send(1) }
        ractors.each { |ractor| wait_for(ractor) }
        profile = collector.flush(gc: true)
        [collector.stats[:unseen_objects], profile.metadata[:unseen_objects]]
      RUBY
      expect([unseen, said]).to eq([0, nil])
    end

    it "count the others' objects too where they can, while flushes go on", if: RUBY_VERSION >= "4" do
      answers = in_program(<<~RUBY).value
        %i[mark free].map do |liveness|
          collector = Memprofiler::Collector.new(interval: 1, liveness: liveness).start
          ractors = Array.new(3) do
            Ractor.new do
              held = []
              20_000.times { |i| (i % 100).zero? ? held << Object.new : Object.new }
              Ractor.receive
              held.size
            end
          end
          20.times { |i| collector.flush(labels: %i[class thread age], gc: i % 5 == 0) && Array.new(1_000) { [1] } }
          sleep 0.01 until collector.flush(labels: [:class]).top(:alloc_objects, by: :class).any? { |row| row.name == "Object" && row.flat >= 60_000 }
          GC.start
          profile = collector.flush(labels: [:class])
          ractors.each { |ractor| ractor.send(1) }
          ractors.each { |ractor| wait_for(ractor) }
          objects = %i[alloc_objects inuse_objects].map { |metric| profile.top(metric, by: :class).find { |row| row.name == "Object" }.flat }
          collector.stop
          [*objects, collector.stats[:lost_collections]]
        end
      RUBY
      answers.each do |allocated, alive, lost|
        expect(allocated).to be_between(60_000, 60_100)
        expect(alive).to be_between(600, 650)
        expect(lost).to eq(0)
      end
    end

    # A collection that another Ractor drives must not have the profiler at work beside the main one.
    it "do their work in the main one, while others collect and flushes go on" do
      counted, sizes = in_program(<<~RUBY).value
        def allocate(count) = Array.new(count) { Object.new }
        allocate(1)
        collectors = %i[mark free].flat_map { |liveness| [1, 5].map { |i| Memprofiler::Collector.new(interval: i, liveness: liveness).start } }
        ractors = Array.new(3) do
          Ractor.new do
            kept = []
            12_000.times do |i|
              kept << [i, i.to_s, { i => i }] if (i % 50).zero?
              eval("def made\#{i % 40} = [1]; made\#{i % 40}") if (i % 50).zero?
              GC.start if (i % 400).zero?
            end
            kept.size
          end
        end
        40.times do |round|
          collectors.sample.flush(labels: %i[class thread age], gc: (round % 5).zero?)
          collectors[2 + (round % 2)].tap(&:stop).start
          eval("def ours\#{round} = [Class.new.new]; ours\#{round}")
          allocate(1_000)
        end
        sizes = ractors.map { |ractor| wait_for(ractor) }
        before = collectors[0].flush
        allocate(1_000)
        counted = (collectors[0].flush - before).samples.sum { |s| s.stack.any? { |f| f.function.end_with?("#allocate") } ? s.values[:alloc_objects] : 0 }
        [counted, sizes]
      RUBY
      expect(sizes).to eq([240] * 3)
      expect(counted).to be_between(1_001, 1_010)
    end

    # Bare Ruby 3.3.8 crashes in the child (50 of 60 runs), 3.1.2 mostly too; from 4.0 on it refuses to fork there.
    it "go on in the child that another one forks", if: RUBY_VERSION.start_with?("3.4") do
      child, status, ours = in_program(<<~RUBY).value
        def allocate(count) = Array.new(count) { Object.new }
        Memprofiler.start(interval: 1)
        held = allocate(100)
        reader, writer = IO.pipe
        status = wait_for(Ractor.new(writer) do |out|
          pid = fork do
            earlier = Memprofiler.collector.flush
            kept = allocate(1_000)
            profile = Memprofiler.collector.flush(gc: true)
            made = (profile - earlier).samples.select { |s| s.stack.any? { |f| f.function.end_with?("#allocate") } }
            made = %i[alloc_objects inuse_objects].map { |metric| made.sum { |s| s.values[metric] } }
            out.write(Marshal.dump([Ractor.main == Ractor.current, Memprofiler.collector.running?, made, kept.size, profile.metadata]))
            out.close
            exit!(0)
          end
          out.close
          Process.wait2(pid).last.exitstatus
        end)
        writer.close
        profile = Memprofiler.collector.flush(gc: true)
        alive = profile.samples.sum { |s| s.stack.any? { |f| f.function.end_with?("#allocate") } ? s.values[:inuse_objects] : 0 }
        [Marshal.load(reader.read), status, [alive, profile.metadata], held].first(3)
      RUBY
      expect(status).to eq(0)
      main, running, made, kept, said = child
      expect([main, running, kept]).to eq([true, true, 1_000])
      expect(made.first).to be_between(1_001, 1_010)
      expect(made.last).to be_between(890, 1_010) # what main's thread alone had kept may go
      expect(said[:forked_from]).to eq(ours.last[:run])
      expect(ours.first).to be_between(101, 110)
    end

    # Putting a hook on, or taking one off, brings the events of all back (bug 19112): nobody would know.
    {
      "another one's start" => "others << Memprofiler::Collector.new.start",
      "another one's stop" => "others.pop.stop",
      "another one's death" => "others.pop; GC.start"
    }.each do |what, change|
      it "say what the VM had lost before #{what}", if: RUBY_VERSION < "4" do
        rearmed, unseen = in_program(<<~RUBY).value
          collector = Memprofiler::Collector.new(interval: 1).start
          others = Array.new(10) { Memprofiler::Collector.new(interval: 1).start }
          wait_for(Ractor.new { 1 })
          10.times do
            GC.start
            1_000.times { Object.new }
            #{change}
          end
          stats = collector.stats
          [stats[:hooks_rearmed], stats[:unseen_objects]]
        RUBY
        expect([rearmed, unseen]).to match([be >= 1, be >= 1_000])
      end
    end

    # Up to 3.4 the VM forgets all hooks when a Ractor is collected (bug 19112).
    it "notice that the VM lost the hooks, arm them again and say so", if: RUBY_VERSION < "4" do
      rearmed, seen, alive, said = in_program(<<~RUBY).value
        collectors = %i[mark free].map { |liveness| Memprofiler::Collector.new(interval: 1, liveness: liveness).start }
        def allocate(count) = Array.new(count) { Object.new }
        wait_for(Ractor.new { 1 })
        20.times do
          GC.start
          allocate(1_000) && Thread.pass
        end
        before = collectors.map { |c| c.stats[:allocations] }
        held = allocate(1_000)
        GC.start
        seen = collectors.zip(before).map { |c, count| c.stats[:allocations] - count }
        profiles = collectors.map(&:flush)
        alive = profiles.map do |profile|
          profile.samples.sum { |s| s.stack.any? { |f| f.function.end_with?("#allocate") } ? s.values[:inuse_objects] : 0 }
        end
        [collectors.map { |c| c.stats[:hooks_rearmed] }, seen, alive, profiles.map { |p| p.metadata[:hooks_rearmed] }, held].first(4)
      RUBY
      expect(rearmed).to all(be >= 1)
      expect(said).to eq(rearmed)
      expect(seen).to all(be >= 1_000)
      expect(alive).to all(be_between(1_001, 2_010))
    end
  end
end
