# frozen_string_literal: true

require "objspace"
require "stringio"
require_relative "support/child"

# Who is alive: the two ways to see a death held against each other and against what the program
# really holds.
RSpec.describe Memprofiler::Collector, "liveness" do
  # Kinds of objects, with and without write barriers; each makes one of its class (and whatever it needs).
  MAKERS = {
    "String" => -> { +"short" },
    "Array" => -> { [1, 2, 3, 4, 5, 6, 7, 8] },
    "Hash" => -> { { a: [1] } },
    "Object" => -> { Object.new },
    "Proc" => -> { proc { 1 } },
    "Range" => -> { Range.new(+"a", +"b") },
    "MatchData" => -> { /s/.match(+"string") },
    "Method" => -> { 1.method(:+) },
    "Enumerator" => -> { [1].each },
    "StringIO" => -> { StringIO.new(+"text") },
    "Fiber" => -> { Fiber.new { Fiber.yield }.tap(&:resume) },
    "Class" => -> { Class.new },
    "Binding" => -> { binding }
  }.freeze

  # In a frame of its own, so that nothing is left on the caller's stack.
  def make(count)
    MAKERS.transform_values { |maker| Array.new(count) { maker.call } }
  end

  def make_threads(count)
    make = ->(thread) { thread[:held] = Array.new(100) { +"x" } }
    Array.new(count) { Thread.new { make.call(Thread.current) } }.each(&:join)
  end

  # The stack of the machine keeps what stood there last: write over it.
  def clear_stack(depth = 100)
    depth.zero? ? nil : [clear_stack(depth - 1)]
  end

  def collect
    clear_stack
    GC.start
  end

  # Of what `make` has made: RSpec and reading a profile allocate as well.
  def live_by_class(profile)
    profile.samples.each_with_object(Hash.new(0)) do |sample, sums|
      next unless sample.stack.any? { |frame| frame.function.include?("#make") }

      sums[sample.labels["class"]] += sample.values[:inuse_objects]
    end
  end

  # [stack, labels] => inuse values
  def live_set(profile)
    profile.samples.each_with_object(Hash.new([0, 0])) do |sample, set|
      inuse = sample.values.values_at(:inuse_objects, :inuse_space)
      next if inuse == [0, 0]

      key = [sample.stack.map(&:to_a), sample.labels]
      set[key] = set[key].zip(inuse).map(&:sum)
    end
  end

  # Two collectors that see the same program, and what each says is alive at its end. RSpec's own
  # account of two large Hashes that differ takes minutes: hence only what differs is compared.
  def both(interval: 1, seed: 1, labels: [:class])
    collectors = %i[mark free].map { |liveness| described_class.new(interval: interval, liveness: liveness, seed: seed) }
    collectors.each(&:start).each(&:stop) # fills inline caches
    collectors.each(&:start)
    kept = yield
    collect
    collectors.each(&:stop)
    profiles = collectors.map { |collector| collector.flush(labels: labels) }
    sets = profiles.map { |profile| live_set(profile) }
    expect(sets[0].values.sum(&:first)).to be > kept.size / interval
    expect([sets[0].to_a - sets[1].to_a, sets[1].to_a - sets[0].to_a].map { |more| more.first(3) }).to eq([[], []])
    profiles
  end

  # Keeps some, drops some, in the order of the seed, with collections of both kinds on the way.
  def churn(seed)
    random = Random.new(seed)
    kept = []
    40.times do |round|
      MAKERS.each_value { |maker| kept.concat(Array.new(3) { maker.call }) }
      kept = kept.sample(300, random: random) if kept.size > 400
      GC.start(full_mark: false) if (round % 3).zero?
      GC.start if (round % 20) == 19
    end
    kept
  end

  describe "the mark scan and the free hook" do
    [1, 2].each do |seed|
      it "give the same live set after a churn of all kinds of objects (seed #{seed})" do
        both { churn(seed) }
      end
    end

    it "give the same ages" do
      mark, = both(labels: %i[class age thread]) { churn(4) }
      expect(mark.samples.filter_map { |sample| sample.labels["age"] }.uniq.size).to be > 3
    end

    it "give the same samples at interval 7 with the same seed" do
      mark, free = both(interval: 7, seed: 11) { churn(5) }
      expect(mark.total(:alloc_objects)).to eq(free.total(:alloc_objects))
    end
  end

  it "is the heap's own account after minor and major collections alike" do
    stages = Child.value(<<~RUBY)
      require "stringio"
      KINDS = {
        MatchData => -> { /s/.match(+"string") }, Method => -> { 1.method(:+) }, Enumerator => -> { [1].each },
        StringIO => -> { StringIO.new(+"text") }, Fiber => -> { Fiber.new { Fiber.yield }.tap(&:resume) },
        Thread => -> { Thread.new {}.tap(&:join) }, Object.const_set(:Plain, Class.new) => -> { Plain.new },
        Object.const_set(:Pair, Struct.new(:a, :b)) => -> { Pair.new(1, 2) }
      }
      def heap = KINDS.keys.to_h { |kind| [kind.name, ObjectSpace.each_object(kind) {}] }
      def fill(count) = KINDS.values.flat_map { |maker| Array.new(count) { maker.call } }
      GC.start
      earlier = heap
      collectors = %i[mark free].map { |liveness| Memprofiler::Collector.new(interval: 1, liveness: liveness) }
      collectors.each(&:start)
      random = Random.new(1)
      kept = []
      stages = 12.times.map do |stage|
        GC.enable
        kept.concat(fill(20))
        fill(10)
        kept = kept.shuffle(random: random).drop(kept.size / 3) unless stage.zero?
        stage % 4 == 3 ? GC.start : GC.start(full_mark: false)
        GC.disable
        truth = heap
        profiles = collectors.map { |collector| collector.flush(labels: [:class]) }
        [stage, truth, profiles]
      end
      stages.map do |stage, truth, profiles|
        counts = profiles.map do |profile|
          sums = Hash.new(0)
          profile.samples.each { |sample| sums[sample.labels["class"]] += sample.values[:inuse_objects] }
          truth.keys.to_h { |name| [name, sums[name]] }
        end
        [stage, truth.to_h { |name, count| [name, count - earlier[name]] }, *counts]
      end
    RUBY
    expect(stages.last[1].values).to all(be > 20)
    stages.each do |stage, truth, mark, free|
      expect([stage, mark]).to eq([stage, truth])
      expect([stage, free]).to eq([stage, truth])
    end
  end

  %i[mark free].each do |liveness|
    describe "by #{liveness}" do
      let(:collector) { described_class.new(interval: 1, liveness: liveness).start }

      after { collector.stop }

      it "is what the program holds, and nothing once it let go" do
        collector
        held = make(50)
        collect
        counted = live_by_class(collector.flush(labels: [:class]))
        held.each_key { |name| expect(counted[name]).to be >= 50, "#{name}: #{counted[name]}" }
        # The outer Array and the Hash included; a Hash or a Range has Arrays or Strings of its own.
        expect(counted["Object"]).to be_between(50, 52)
        expect(counted["MatchData"]).to be_between(50, 52)
        expect(counted["Method"]).to be_between(50, 52)
        expect(counted["Fiber"]).to be_between(50, 52)
        expect(counted["StringIO"]).to be_between(50, 52)

        held.each_value(&:clear)
        held = nil
        3.times { collect }
        counted = live_by_class(collector.flush(labels: [:class]))
        MAKERS.each_key { |name| expect(counted[name]).to be <= 15, "#{name}: #{counted[name]} after letting go" }
        expect(held).to be_nil
      end

      it "sees threads and what they held go" do
        collector
        threads = make_threads(20)
        collect
        living = live_by_class(collector.flush(labels: [:class]))
        expect(living["Thread"]).to be_between(20, 21)
        expect(living["String"]).to be >= 2_000
        threads.clear
        3.times { collect }
        living = live_by_class(collector.flush(labels: [:class]))
        expect(living["Thread"]).to be <= 4
        expect(living["String"]).to be <= 500
      end

      it "is as of the last collection: what came later is not in use yet" do
        collector
        GC.start
        GC.disable
        held = make(500)
        expect(live_by_class(collector.flush(labels: [:class])).values.sum).to eq(0)
        expect(live_by_class(collector.flush(labels: [:class], gc: true))["Object"]).to be_between(500, 505)
        expect(held["Object"].size).to eq(500)
      ensure
        GC.enable
      end

      it "forgets what was alive with each new start" do
        held = Array.new(500) { +"early" }
        collector
        collector.stop
        collector.start
        GC.start
        expect(collector.flush(gc: true).total(:inuse_objects)).to be < 100
        expect(held.size).to eq(500)
      end
    end
  end

  it "is right in a flush that collections interrupt everywhere" do
    answers = Child.value(<<~RUBY)
      def held(count) = Array.new(count) { |i| i.even? ? Object.new : [i].first(1) }
      %i[mark free].map do |liveness|
        collector = Memprofiler::Collector.new(interval: 1, liveness: liveness).start
        kept = held(300)
        50.times { |i| eval("def stressed\#{i} = [Class.new]; stressed\#{i}") }
        GC.stress = true
        stressed = collector.flush(labels: %i[class age thread])
        GC.stress = false
        profiles = [stressed, collector.flush(labels: %i[class age thread])]
        collector.stop
        [kept.size, *profiles.map { |p| p.samples.sum { |s| s.labels["class"] == "Object" ? s.values[:inuse_objects] : 0 } }]
      end
    RUBY
    answers.each { |answer| expect(answer.drop(1)).to all(be_between(150, 156)) }
  end

  # What GC.compact and its kin moved is still known by its new address.
  describe "compaction" do
    {
      "GC.compact" => "3.times { GC.compact }",
      "GC.auto_compact" => "GC.auto_compact = true; 8.times { Array.new(5_000) { |i| [i] }; GC.start }",
      "GC.verify_compaction_references" =>
        "GC.verify_compaction_references(toward: :empty, **(RUBY_VERSION < '3.2' ? { double_heap: true } : { expand_heap: true }))",
      "compaction under GC.stress" => "GC.auto_compact = true; GC.stress = true; 3.times { [+'x'] }; GC.stress = false"
    }.each do |name, move|
      it "by #{name} loses nobody", if: GC.respond_to?(:compact) do
        before, after = Child.value(<<~RUBY)
            def fill = Array.new(6_000) { |i| i.even? ? +"x" : [i] }
          def clear_stack(depth = 100) = depth.zero? ? nil : [clear_stack(depth - 1)]
          def counts(collectors)
            GC.auto_compact = false
            clear_stack
            GC.start
            collectors.map do |c|
              profile = c.flush(labels: [:class])
              sums = Hash.new(0)
              profile.samples.each { |s| sums[s.labels["class"]] += s.values[:inuse_objects] if s.stack.any? { |f| f.function =~ /fill/ } }
              [sums["String"], sums["Array"], c.stats[:lost_collections]]
            end
          end
          collectors = %i[mark free].map { |l| Memprofiler::Collector.new(interval: 1, liveness: l).start }
          held = fill
          GC.start
          held.delete_if.with_index { |_, i| i % 3 == 0 } # 2,000 of each stay, with gaps between
          GC.start
          #{move}
          before = counts(collectors)
          held.fill(nil, 0, 2_000) # 1,000 of each
          GC.start
          #{move}
          [before, counts(collectors)]
        RUBY
        [[before, 2_000], [after, 1_000]].each do |counted, held|
          counted.each do |strings, arrays, lost|
            expect(lost).to eq(0)
            expect(strings).to be_between(held, held + 5)
            expect(arrays).to be_between(held, held + 6)
          end
        end
      end
    end
  end

  describe "a lost collection" do
    # What `held` made: how many of it are alive, and how many were allocated.
    def self.program(body)
      <<~RUBY
        $VERBOSE = nil
        def held(count) = Array.new(count) { Object.new }
        def objects(profile, metric)
          profile.samples.sum do |sample|
            ours = sample.labels["class"] == "Object" && sample.stack.any? { |frame| frame.function.include?("held") }
            ours ? sample.values[metric] : 0
          end
        end
        #{body}
      RUBY
    end

    %i[mark free].each do |liveness|
      it "driven by another Ractor is noticed, and nothing wrong is said afterwards (#{liveness})",
         if: RUBY_VERSION < "4", unless: Memprofiler::VMFaults::RACTORS_CRASH do # from 4.0 hooks see all Ractors
        before, noticed, after, comments = Child.value(self.class.program(<<~RUBY))
          collector = Memprofiler::Collector.new(interval: 1, liveness: :#{liveness}).start
          early = held(3_000)
          GC.start
          before = objects(collector.flush(labels: [:class]), :inuse_objects)
          ractor = Ractor.new { 300_000.times { [1] }; GC.start; 1 }
          ractor.take
          early.clear
          Array.new(5_000) { [1] } # new occupants of old addresses
          noticed = collector.stats
          late = held(700)
          3.times { GC.start }
          profile = collector.flush(labels: [:class])
          [before, noticed, objects(profile, :inuse_objects), profile.comments, late, ractor].first(4)
        RUBY
        expect(before).to be_between(3_000, 3_001)
        expect(noticed[:lost_collections]).to be >= 1
        expect(noticed[:lost_samples]).to be >= 3_000
        expect(after).to eq(700) # what was lost is given up; nothing else is made of it
        expect(comments.grep(/\Alost_(collections|samples): [1-9]\d*\z/).size).to eq(2)
      end

      it "under objspace tracing and GC.stress is noticed, and nothing wrong is said afterwards (#{liveness})" do
        noticed, after, allocated = Child.value(self.class.program(<<~RUBY))
          require "objspace"
          ObjectSpace.trace_object_allocations_start
          collector = Memprofiler::Collector.new(interval: 1, liveness: :#{liveness}).start
          early = held(500)
          GC.stress = true
          15.times { |i| [i.to_s] }
          GC.stress = false
          noticed = collector.stats
          early.clear
          late = held(700)
          3.times { GC.start }
          profile = collector.flush(labels: [:class])
          ObjectSpace.trace_object_allocations_stop
          [noticed, *%i[inuse_objects alloc_objects].map { |metric| objects(profile, metric) }, late].first(3)
        RUBY
        loses = RUBY_VERSION < "3.4"
        expect(noticed[:lost_collections]).to(loses ? be >= 1 : eq(0))
        expect(noticed[:lost_samples]).to be > 0 if loses
        expect(after).to be_between(700, 702)
        expect(allocated).to eq(1_200)
      end
    end
  end
end
