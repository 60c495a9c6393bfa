# frozen_string_literal: true

require "memprofiler"
require "objspace"

# Estimates held against what the programs below are known to allocate and to hold.
#
# With an interval of N each object is sampled with probability 1/N and counts N, so a sum over
# values v has the variance (N - 1) * sum(v**2). Each estimate lies within 5 of its standard
# deviations, and the mean of K of them, by K seeds, within 4 of its own: a bias of a few percent
# shows up there.
RSpec.describe Memprofiler::Collector, "estimates" do
  SEEDS = 10

  # What allocates. Each method makes the objects it is named after, and nothing else.
  module Maker
    module_function

    def filler = Object.new
    def tenth = Object.new
    def burst(count) = count.times { Object.new }
    def trickle = Object.new
    def shallow(count) = count.times { Object.new }
    def deep(count, depth) = depth.zero? ? shallow_in_the_deep(count) : deep(count, depth - 1)
    def shallow_in_the_deep(count) = count.times { Object.new }
    def kept = Object.new
    def dropped = Object.new
    def string(size) = "x" * size
    # Owns as much, and is quicker made.
    def roomy_string(size) = String.new(capacity: size)

    def array(size) = Array.new(size)
    def table(size) = {}.tap { |hash| size.times { |i| hash[i] = i } }
    def in_thread(count) = count.times { Object.new }
    def in_fiber(count) = count.times { Object.new }
  end

  # @return [Hash{String => Integer}] what each of Maker's methods has, by the profile
  def by_maker(profile, metric)
    profile.samples.each_with_object(Hash.new(0)) do |sample, sums|
      maker = sample.stack.find { |frame| frame.file == __FILE__ && frame.function.match?(/Maker[.#]/) }
      sums[maker.function[/\w+\z/]] += sample.values[metric] if maker
    end
  end

  def deviation(interval, squares)
    Math.sqrt((interval - 1) * squares)
  end

  # Runs the program with each seed; it returns what it holds, which lives until the flush.
  # @param truth [Hash{String => Array(Numeric, Numeric)}] a maker's sum, and its sum of squares
  def hold_against(truth, metric, interval:, weight: interval, gc: false, **options, &program)
    program.call # inline caches
    scores = Hash.new { |hash, maker| hash[maker] = [] }
    SEEDS.times do |seed|
      collector = described_class.new(interval: interval, seed: seed + 1, **options).start
      held = program.call
      estimates = by_maker(collector.flush(gc: gc), metric)
      collector.stop
      truth.each do |maker, (sum, squares)|
        scores[maker] << ((estimates[maker] - sum) / deviation(weight, squares))
      end
      held.clear if held.respond_to?(:clear)
    end
    scores.each do |maker, list|
      expect(list.map(&:abs).max).to be < 5, "#{maker}: off by #{list.map { |score| score.round(1) }} deviations"
      mean = list.sum / list.size
      expect(mean.abs).to be < 4 / Math.sqrt(list.size), "#{maker}: biased by #{mean.round(2)} deviations"
    end
  end

  # The sum and the sum of squares of `count` ones.
  def ones(count) = [count, count]

  # The first is the interval at which every-Nth sampling would see all of one line or none of it.
  [[10, 10], [7, 7], [64, 64]].each do |interval, period|
    it "are true for a program with a period of #{period} at interval #{interval}" do
      rounds = 100 * interval
      truth = { "tenth" => ones(rounds), "filler" => ones(rounds * (period - 1)) }
      hold_against(truth, :alloc_objects, interval: interval) do
        rounds.times do
          (period - 1).times { Maker.filler }
          Maker.tenth
        end
      end
    end
  end

  [7, 64, 512].each do |interval|
    count = 150 * interval

    it "are true for bursts with trickles between at interval #{interval}" do
      hold_against({ "burst" => ones(count * 2), "trickle" => ones(count) }, :alloc_objects, interval: interval) do
        10.times do
          Maker.burst(count / 5)
          (count / 10).times { Maker.trickle }
        end
      end
    end

    it "are true for deep and shallow stacks at interval #{interval}" do
      truth = { "shallow" => ones(count), "shallow_in_the_deep" => ones(count) }
      hold_against(truth, :alloc_objects, interval: interval) do
        5.times do
          Maker.shallow(count / 5)
          Maker.deep(count / 5, 200)
        end
      end
    end

    it "are true for threads and fibers at interval #{interval}" do
      truth = { "in_thread" => ones(count * 2), "in_fiber" => ones(count) }
      hold_against(truth, :alloc_objects, interval: interval) do
        threads = Array.new(4) { Thread.new { Maker.in_thread(count / 2) } }
        fibers = Array.new(5) { Fiber.new { 2.times { Fiber.yield Maker.in_fiber(count / 10) } } }
        2.times { fibers.each(&:resume) }
        threads.each(&:join).clear
      end
    end

    it "are true for what is kept of a program's objects at interval #{interval}" do
      hold_against({ "kept" => ones(count) }, :inuse_objects, interval: interval, gc: true) do
        Array.new(count) do |i|
          Maker.dropped
          Maker.kept.tap { Maker.trickle if (i % 3).zero? }
        end
      end
    end

    # The sizes are the VM's own, of strings just like those.
    it "are true for bytes of mixed sizes at interval #{interval}" do
      random = Random.new(3)
      sizes = Array.new(count) { (10**random.rand(0.0..3.5)).to_i }
      truth = sizes.map { |size| ObjectSpace.memsize_of("x" * size) }
      truth = [truth.sum, truth.sum { |bytes| bytes**2 }]
      hold_against({ "string" => truth }, :alloc_space, interval: interval) { sizes.each { |size| Maker.string(size) } && nil }
    end
  end

  it "start without phantoms: many short runs add up to the truth" do
    runs = 2_000
    sum = runs.times.sum do |seed|
      collector = described_class.new(interval: 20, seed: seed).start
      3.times { Maker.filler }
      collector.stop
      by_maker(collector.flush, :alloc_objects)["filler"]
    end
    expect((sum - (3 * runs)).abs).to be < 5 * deviation(20, 3 * runs)
  end

  it "repeat themselves with the same seed, and differ with another or none" do
    sequences = [1, 1, 2, nil, nil].map do |seed|
      collector = described_class.new(interval: 50, seed: seed).start
      totals = Array.new(20) do
        Maker.burst(500)
        collector.stats[:samples]
      end
      collector.stop
      totals
    end
    expect(sequences[0]).to eq(sequences[1])
    expect(sequences.uniq.size).to eq(4)
  end

  %i[mark free].each do |liveness|
    describe "of bytes, deaths seen by #{liveness}" do
      def total(collector, maker, metric)
        by_maker(collector.flush, metric)[maker]
      end

      it "count what objects own: 10,000 strings of 1 MB are 10 GB, though none is held" do
        collector = described_class.new(interval: 7, seed: 1, liveness: liveness).start
        10_000.times { Maker.roomy_string(1_000_000) }
        collector.stop
        bytes = total(collector, "roomy_string", :alloc_space)
        expect((bytes - 10_000_000_000).abs).to be < (5 * deviation(7, 10_000 * (1_000_000**2)))
      end

      it "count what Arrays own" do
        collector = described_class.new(interval: 7, seed: 1, liveness: liveness).start
        30_000.times { Maker.array(100) }
        collector.stop
        size = ObjectSpace.memsize_of(Array.new(100))
        expect(size).to be >= 840
        bytes = total(collector, "array", :alloc_space)
        expect((bytes - (30_000 * size)).abs).to be < (5 * deviation(7, 30_000 * (size**2)))
      end

      it "count what objects own when a lazy sweep is on its way, at a flush and at stop" do
        truth = 3_000 * ObjectSpace.memsize_of(Array.new(100))
        estimates = %i[flush stop].map do |ending|
          collector = described_class.new(interval: 1, liveness: liveness).start
          GC.disable
          held = Array.new(3_000) { Maker.string(10_000) } + Array.new(1_000) { Maker.table(100) }
          3_000.times { Maker.array(100) }
          GC.enable
          GC.start(immediate_sweep: false)
          profile = collector.flush if ending == :flush
          collector.stop
          profile ||= collector.flush
          bytes = by_maker(profile, :alloc_space)
          bytes["array"] + bytes["string"] + bytes["table"] - truth - held.sum { |object| ObjectSpace.memsize_of(object) }
        end
        expect(estimates).to all(be_between(0, 2_000)) # inline caches
      ensure
        GC.enable
      end

      it "are those held, and those only, in inuse_space" do
        collector = described_class.new(interval: 7, seed: 1, liveness: liveness).start
        held = Array.new(3_000) { |i| Maker.string(i) }
        2_000.times { Maker.string(5_000) }
        sizes = held.map { |string| ObjectSpace.memsize_of(string) }
        bytes = by_maker(collector.flush(gc: true), :inuse_space)["string"]
        # The last few of the others may still be on the stack.
        expect((bytes - sizes.sum).abs).to be < (5 * deviation(7, sizes.sum { |size| size**2 })) + (3 * 7 * 5_100)

        held.clear
        Maker.array(1)
        bytes = by_maker(collector.flush(gc: true), :inuse_space)["string"]
        expect(bytes).to be <= 4 * 7 * 5_100
        collector.stop
      end

      it "follow growth and shrinking: the largest size for alloc, the present one for inuse" do
        collector = described_class.new(interval: 1, liveness: liveness).start
        held = Array.new(50) { Maker.string(10) }
        held.each { |string| string << ("y" * 100_000) }
        grown = held.sum { |string| ObjectSpace.memsize_of(string) }
        profile = collector.flush(gc: true)
        expect(by_maker(profile, :inuse_space)["string"]).to eq(grown)
        expect(by_maker(profile, :alloc_space)["string"]).to eq(grown)
        held.each(&:clear)
        shrunk = held.sum { |string| ObjectSpace.memsize_of(string) }
        profile = collector.flush(gc: true)
        expect(by_maker(profile, :inuse_space)["string"]).to eq(shrunk)
        expect(by_maker(profile, :alloc_space)["string"]).to eq(grown)
        collector.stop
      end
    end
  end

  it "stay true where one in three samples is tracked" do
    sizes = Array.new(4_200) { |i| 100 + (i % 700) }
    slots = sizes.map { |size| ObjectSpace.memsize_of("x" * size) }
    hold_against({ "kept" => ones(6_300) }, :inuse_objects, interval: 7, weight: 21, track_one_in: 3, gc: true) do
      Array.new(6_300) { Maker.kept }
    end
    hold_against({ "string" => [slots.sum, slots.sum { |size| size**2 }] }, :alloc_space,
                 interval: 7, weight: 21, track_one_in: 3) { sizes.each { |size| Maker.string(size) } && nil }
  end

  it "stay true when the live table is full: half goes, the others count twice" do
    # 12,000 / 7 samples do not fit into 400: weights end at 7 * 2**3 or more
    hold_against({ "kept" => ones(12_000) }, :inuse_objects, interval: 7, weight: 7 * 16, max_samples: 400, gc: true) do
      Array.new(12_000) { Maker.kept }
    end
    hold_against({ "kept" => ones(12_000) }, :alloc_objects, interval: 7, max_samples: 400) do
      Array.new(12_000) { Maker.kept }
    end
    collector = described_class.new(interval: 7, max_samples: 400, seed: 1).start
    held = Array.new(12_000) { Maker.kept }
    profile = collector.flush(gc: true)
    expect(collector.stats[:live_samples]).to be <= 400
    expect(collector.stats[:track_one_in_force]).to be >= 4
    expect(profile.metadata[:thinned_samples]).to be > 400
    expect(held.size).to eq(12_000)
    collector.stop
  end

  it "are exact at interval 1, however full a cap is set" do
    held = [Maker.kept]
    collector = described_class.new(interval: 1, max_samples: 100, seed: 5).start
    held.concat(Array.new(1_000) { Maker.kept })
    profile = collector.flush(gc: true)
    expect(by_maker(profile, :alloc_objects)["kept"]).to eq(1_000)
    expect((by_maker(profile, :inuse_objects)["kept"] - 1_000).abs).to be < 5 * deviation(32, 1_000)
    expect(profile.metadata[:thinned_samples]).to be > 100
    expect(held.size).to eq(1_001)
    collector.stop
  end

  it "agree with the VM's own total" do
    before = GC.stat(:total_allocated_objects)
    collector = described_class.new(interval: 64, seed: 9).start
    200_000.times { |i| [i] }
    collector.stop
    truth = GC.stat(:total_allocated_objects) - before
    expect((collector.flush.total(:alloc_objects) - truth).abs).to be < 5 * deviation(64, truth)
    expect(collector.stats[:allocations]).to be_within(500).of(truth)
  end
end
