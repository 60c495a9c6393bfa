# frozen_string_literal: true

require "objspace"
require_relative "support/child"
require_relative "support/profiles"

# What a flush leaves out of what an earlier one had, held against the difference of two profiles.
RSpec.describe "Memprofiler::Collector#flush_since" do
  def since(collector, ...) = collector.send(:flush_since, ...)

  def rows(profile)
    profile.model[:samples].to_h do |stack, values, labels|
      places = profile.model[:locations].values_at(*stack).map { |function, line,| [*profile.model[:functions][function].values_at(0, 2), line] }
      [[places, labels], values]
    end
  end

  # So deep, and of so many kinds, that there is something to tell apart.
  def work(kept, count)
    count.times do |i|
      Memprofiler.with_labels(job: i.even? ? "even" : "odd") { kept << [Object.new, "x" * (i % 7 * 100), { i => Array.new(i % 5) }] }
    end
  end

  # Both at the same state: nothing is counted in between, and nothing dies.
  def both(collector, labels:)
    collector.flush(gc: true)
    Memprofiler.own do
      GC.disable
      [yield, collector.flush(labels: labels)]
    end
  ensure
    GC.enable
  end

  [1, 7].product([[], [:class], %i[class thread], [:pid]]).each do |interval, labels|
    it "is what `later - earlier` is, row by row, at interval #{interval} with #{labels.empty? ? "no labels" : labels.inspect}" do
      collector = Memprofiler::Collector.new(interval: interval, seed: 3).start
      kept = []
      work(kept, 60)
      gone = Array.new(200) { Object.new }
      (_, baseline), earlier = both(collector, labels: labels) { since(collector, nil, in_use: true) }
      work(kept, 100)
      kept.shift(40)
      gone.clear
      kept.each { |objects| objects[1] << ("y" * 500) }
      (delta, later), profile = both(collector, labels: labels) { since(collector, baseline, labels: labels, in_use: true) }
      collector.stop
      expected = profile - earlier
      expect(rows(delta)).to eq(rows(expected))
      expect(rows(delta).values.flatten.minmax).to match([be_negative, be_positive])
      expect(delta.labels).to match_array(expected.labels)
      expect(delta.metadata.keys).to eq(expected.metadata.keys)
      expect(delta.metadata).to include(expected.metadata.merge(own_objects: be_an(Integer), heap_live_slots: be_an(Integer), spans: match(/\A#{expected.metadata[:run]}@\d+\.\.\d+\z/), difference: match(/\Aof two profiles, \d+\.\d{3} s apart\z/)))
      expect(delta.model.slice(:sample_types, :default_sample_type, :period_type, :period, :mapping)).to eq(expected.model.slice(:sample_types, :default_sample_type, :period_type, :period, :mapping))
      expect(delta.model[:duration_nanos]).to be_between(expected.model[:duration_nanos] * 0.5, expected.model[:duration_nanos] * 1.5)
      expect(delta.model[:duration_nanos]).to eq(((later.time - baseline.time) * 1_000_000_000).round)
      expect(delta.time).to eq(later.time)
      expect(kept.size).to eq(120)
    end
  end

  it "has alloc_* since the earlier moment and inuse_* as it is, unless it's asked for the change, and adds up" do
    collector = Memprofiler::Collector.new(interval: 1).start
    kept = []
    work(kept, 50)
    first, one = since(collector, nil, gc: true)
    work(kept, 30)
    kept.shift(10)
    second, two = since(collector, one, gc: true)
    collector.stop
    third, = since(collector, two)
    last = collector.flush
    expect([first, second, third].map { |profile| profile.total(:alloc_objects) }).to match([be > 200, be > 120, be < 20])
    expect([first, second, third].sum { |profile| profile.total(:alloc_space) }).to eq(last.total(:alloc_space))
    expect(third.total(:inuse_objects)).to be_within(4).of(last.total(:inuse_objects))
    expect([first, second, third].flat_map { |profile| rows(profile).values.flatten }).to all(be >= 0)
    expect(second.metadata).to include(difference: match(/\Aof alloc_\* only, \d+\.\d{3} s apart\z/), live_samples: second.total(:inuse_objects), samples: second.total(:alloc_objects))
    expect(first.metadata.keys).to include(:run)
    expect(first.metadata).not_to include(:difference, :spans)
    moments = [one, two].map { |moment| (moment.time.to_r * 1_000_000_000).to_i }
    expect(second.metadata.slice(:run, :spans)).to eq(run: first.metadata[:run], spans: "#{first.metadata[:run]}@#{moments.join("..")}")
    expect([first.model[:duration_nanos], second.model[:duration_nanos]]).to match([0, be_positive])
    expect(kept.size).to eq(70)
  end

  it "leaves out what has not changed, and says nothing of it" do
    collector = Memprofiler::Collector.new(interval: 1).start
    kept = []
    work(kept, 20)
    collector.stop
    _, baseline = since(collector, nil, in_use: true)
    delta, = since(collector, baseline, labels: [:class], in_use: true)
    expect([delta.samples, delta.model[:functions], delta.metadata[:samples]]).to eq([[], [], 0])
    expect(kept.size).to eq(20)
  end

  it "states no smaller an error than the difference of two profiles does, and the same of what was allocated" do
    collector = Memprofiler::Collector.new(interval: 5, seed: 11).start
    kept = []
    work(kept, 200)
    (_, baseline), earlier = both(collector, labels: []) { since(collector, nil, in_use: true) }
    work(kept, 200)
    kept.shift(150)
    (delta,), profile = both(collector, labels: []) { since(collector, baseline, in_use: true) }
    collector.stop
    expected = profile - earlier
    deviations = lambda do |of, column|
      sampling = Memprofiler::Profile::Sampling.new(of.model, of.metadata)
      of.model[:samples].sum { |sample| sampling.variance(column, sample) }
    end
    [0, 1].each { |column| expect(deviations.call(delta, column)).to be_between(deviations.call(expected, column) * 0.98, deviations.call(expected, column) * 1.02) }
    [2, 3].each { |column| expect(deviations.call(delta, column)).to be >= deviations.call(expected, column) * 0.98 }
    # 150 of the arrays that went were sampled one in five: each stood for 5 * 4.
    expect(deviations.call(delta, 2)).to be > 150 * 4
    expect(kept.size).to eq(250)
  end

  it "can be summed of one collector where nothing is in both, and says that what is in use is" do
    collector = Memprofiler::Collector.new(interval: 1).start
    kept = []
    moments = Array.new(3) { work(kept, 5) && collector.send(:baseline, in_use: true) }
    steps = moments.map { |moment| [moment, collector.send(:flush_since, moment, in_use: true)] }
    (_, (first, second)), = steps
    next_one, third = since(collector, second, in_use: true)
    allocs, fourth = since(collector, third)
    more_allocs, = since(collector, fourth)
    collector.stop
    sum = first + next_one
    expect(sum.total(:alloc_objects)).to eq(first.total(:alloc_objects) + next_one.total(:alloc_objects))
    expect(sum.metadata).to include(processes: 1, pid: Process.pid, run: first.metadata[:run])
    expect(sum.metadata).not_to include(:same_pid, :forked_pids)
    [[first, first], [first, steps[1][1][0]], [sum, next_one]].each do |pair|
      expect { pair.reduce(:+) }.to raise_error(ArgumentError, /\Atwo of the differences are of one run of a collector \(pid #{Process.pid}\) and overlap/)
    end
    expect((allocs + more_allocs).metadata).to include(processes: 1, same_pid: Process.pid)
    expect { sum + allocs }.to raise_error(ArgumentError, "of one difference inuse_* is what is in use, of another one what that has changed by")
    expect(kept.size).to eq(15)
  end

  it "of a collector that was started anew is all of it" do
    collector = Memprofiler::Collector.new(interval: 1).start
    kept = []
    work(kept, 5)
    baseline = collector.send(:baseline, in_use: true)
    collector.stop
    collector.start
    work(kept, 5)
    [{}, { in_use: true }].each do |options|
      profile, later = since(collector, baseline, **options)
      expect(profile.samples.sum { |sample| sample.stack.any? { |frame| frame.function.end_with?("#work") } ? sample.values[:alloc_objects] : 0 }).to be_between(25, 60)
      expect(profile.metadata).to include(:run, :live_samples)
      expect(profile.metadata).not_to include(:difference)
      expect(later.same_run?(baseline)).to be(false)
      expect(later.same_run?(collector.send(:baseline))).to be(true)
    end
    collector.stop
    expect(kept.size).to eq(10)
  end

  it "shows allocations first if it's told so" do
    collector = Memprofiler::Collector.new(interval: 1).start
    _, baseline = since(collector, nil)
    first = [since(collector, baseline), since(collector, baseline, allocs: true)].map { |profile,| profile.model[:default_sample_type] }
    collector.stop
    expect(first).to eq(%w[inuse_space alloc_space])
  end

  it "refuses what is no baseline, one of another collector, and one that lacks what is in use" do
    one, other = Array.new(2) { Memprofiler::Collector.new(interval: 1).start }
    baseline = one.send(:baseline)
    expect { since(other, baseline) }.to raise_error(ArgumentError, "the baseline is of another collector")
    expect { since(one, baseline, in_use: true) }.to raise_error(ArgumentError, "the baseline was taken without in_use: true")
    expect { since(one, Object.new) }.to raise_error(TypeError, /expected Memprofiler::Baseline/)
    expect { since(one, baseline, in_use: 1) }.to raise_error(TypeError, /in_use must be true or false/)
    expect { since(one, baseline, labels: [:x]) }.to raise_error(ArgumentError, /labels must be among/)
    expect { one.send(:baseline, in_use: nil) }.to raise_error(TypeError, /in_use must be true or false/)
    expect { Memprofiler::Collector.new.send(:baseline) }.to raise_error(Memprofiler::NotStartedError)
    expect { [baseline.dup, baseline.class.new] }.to raise_error(TypeError)
    [one, other].each(&:stop)
  end

  it "takes a baseline that says how much memory it has" do
    collector = Memprofiler::Collector.new(interval: 1).start
    kept = []
    work(kept, 20)
    without, with = [false, true].map { |in_use| collector.send(:baseline, in_use: in_use) }
    sites = collector.stats[:sites]
    expect([without, with]).to all(be_frozen)
    expect(ObjectSpace.memsize_of(without)).to be_between(24 * sites, (24 * sites) + 600)
    expect(ObjectSpace.memsize_of(with)).to be_between(56 * sites, (56 * sites) + 600)
    collector.stop
    expect(with.same_run?(without)).to be(true)
  end

  it "keeps no collector" do
    collectors = -> { GC.start || ObjectSpace.each_object(Memprofiler::Collector).count }
    before = collectors.call
    kept = Array.new(20) { Memprofiler::Collector.new(interval: 1).start.then { |one| one.send(:baseline).tap { one.stop } } }
    expect(collectors.call - before).to be < 5 # the machine stack may have some
    expect(kept.map { |baseline| baseline.same_run?(baseline) }).to all(be(true))
  end

  it "has what a forked child did since the baseline that it inherited, and of a child's child" do
    result = Child.ruby(<<~RUBY).value
      def allocate(count) = Array.new(count) { Object.new }
      def made(profile) = profile.samples.sum { |s| s.stack.any? { |f| f.function.end_with?("#allocate") } ? s.values[:alloc_objects] : 0 }
      def in_child
        reader, writer = IO.pipe
        Process.wait(fork { writer << Marshal.dump(yield); exit!(0) })
        Marshal.load(reader)
      end
      collector = Memprofiler::Collector.new(interval: 1).start
      allocate(100)
      baseline = collector.send(:baseline, in_use: true)
      allocate(10)
      children = in_child do
        allocate(5)
        own = collector.send(:baseline, in_use: true)
        kept = allocate(3)
        grand = in_child { allocate(2); [baseline, own].map { |b| made(collector.send(:flush_since, b, in_use: true)[0]) } }
        [*[baseline, own].map { |b| made(collector.send(:flush_since, b, in_use: true)[0]) }, own.same_run?(baseline), grand]
      end
      [children, made(collector.send(:flush_since, baseline)[0])]
    RUBY
    # Each Array is one more.
    expect(result).to eq([[21, 4, true, [24, 7]], 11])
  end

  it "is taken from many threads at once, by one baseline and by their own" do
    collector = Memprofiler::Collector.new(interval: 1).start
    first = collector.send(:baseline, in_use: true)
    kept = Array.new(4) { [] }
    totals = kept.map do |mine|
      Thread.new do
        baseline = first
        Array.new(5) do
          work(mine, 20)
          since(collector, first, in_use: true)
          delta, baseline = since(collector, baseline, in_use: true)
          delta.total(:alloc_objects)
        end
      end
    end.map(&:value)
    all, = since(collector, first, in_use: true)
    collector.stop
    totals.each { |mine| expect(mine.sum).to be_between(5 * 20 * 4, all.total(:alloc_objects)) }
    expect(kept.sum(&:size)).to eq(400)
  end
end
