# frozen_string_literal: true

require "memprofiler"
require "memprofiler/report"
require_relative "support/profiles"

# The error that a row says, against arithmetic: 1.96 standard deviations, of the truths that are that far away. See
# docs/reading-a-profile.md, and docs/accuracy.md for what becomes of it in programs.
RSpec.describe Memprofiler::Profile, "errors" do
  def with_deviations(profile, deviations)
    model = profile.model
    described_class.from_model(model.merge(samples: model[:samples].zip(deviations).map { |sample, ours| ours ? [*sample, ours] : sample }))
  end

  # Of an estimate of 1 with a deviation d: 1.96 deviations of its own away are the two truths t with
  # (t - 1)**2 = 1.96**2 * d**2 * t, as a sum's variance grows with it. The error is their mean square distance from 1.
  def of(deviation)
    variance = deviation**2
    middle = 1 + ((1.96**2) * variance / 2)
    half = Math.sqrt((middle**2) - 1)
    Math.sqrt((((middle - half - 1)**2) + ((middle + half - 1)**2)) / 2)
  end

  def error(profile, metric = :inuse_space) = profile.top(metric).first.error

  # 100 objects that 10 samples stand for: of one size, (1 - 1/10) / 10 is the square of the error.
  let(:even) { Profiles.build({ ["a /a.rb:1"] => [100, 4000, 100, 4000] }, period: 10, comments: { interval: 10, track_one_in: 1 }) }
  let(:uneven) { with_deviations(even, [[30, 3000, 30, 1600]]) }

  it "are those of objects of one size where the profile says no more" do
    expect(error(even)).to be_within(1e-9).of(of(Math.sqrt(0.9 / 10)))
  end

  it "are the profile's own where it has them" do
    expect(error(uneven)).to be_within(1e-9).of(of(1600 / 4000.0))
    expect(error(uneven, :alloc_space)).to be_within(1e-9).of(of(3000 / 4000.0))
    expect(Memprofiler::Profile::Sampling.new(uneven.model, uneven.metadata).total_error(3)).to be_within(1e-9).of(of(1600 / 4000.0))
  end

  it "go through a file" do
    expect(error(described_class.new(uneven.pprof_data))).to eq(error(uneven))
    expect(described_class.new(even.pprof_data).model[:samples].first.size).to eq(3)
  end

  it "add up by their squares, with those that follow from the values" do
    [even + uneven, uneven + even].each do |sum|
      expect(error(sum)).to be_within(1e-3).of(of(Math.hypot(1600, 4000 * Math.sqrt(0.9 / 10)) / 8000))
    end
    expect((even + even).model[:samples].first.size).to eq(3)
  end

  it "of a difference are those of what came since" do
    later = with_deviations(Profiles.build({ ["a /a.rb:1"] => [200, 9000, 100, 4000] }, period: 10, comments: { interval: 10, track_one_in: 1 }),
                            [[42, 5000, 30, 1600]])
    expect(error(later - uneven, :alloc_space)).to be_within(1e-9).of(of(4000 / 5000.0))
  end

  # One in ten owns 20,000 bytes, the others 100. Some 50 of the large ones are sampled, which tells the deviation to
  # within 1 / (2 sqrt(50)) of itself; of one size it would come out as a third.
  it "tell how far bytes may be off where sizes differ" do
    sizes = Array.new(4_000) { |i| (i % 10).zero? ? 20_000 : 100 }
    ratios = (1..10).map do |seed|
      collector = Memprofiler::Collector.new(interval: 8, seed: seed).start
      held = sizes.map { |size| String.new(capacity: size) }
      profile = collector.flush(gc: true)
      collector.stop
      row = profile.top(:inuse_space).find { |candidate| candidate.name.end_with?("error_spec.rb:#{__LINE__ - 3}") }
      truth = Math.sqrt(7 * held.size * sizes.sum { |size| (size + 41)**2 } / sizes.size)
      row.error / of(truth / row.flat)
    end
    expect(ratios).to all(be_within(5 * 0.5 / Math.sqrt(50)).of(1))
    expect(ratios.sum / 10).to be_within(4 * 0.5 / Math.sqrt(50 * 10)).of(1)
  end

  # A sample that is followed stands for more objects than one that was taken.
  { "one in so many is followed" => { interval: 4, track_one_in: 6 }, "they were thinned" => { interval: 4, max_samples: 100 } }.each do |how, options|
    it "of a difference, and the samples behind it, are those of the profile itself where #{how}" do
      collector = Memprofiler::Collector.new(seed: 5, **options).start
      earlier = collector.flush(gc: true)
      before = collector.send(:baseline, in_use: true)
      held = Array.new(8_000) { Object.new }
      line = "error_spec.rb:#{__LINE__ - 1}"
      whole = collector.flush(gc: true)
      since, = collector.send(:flush_since, before, in_use: true)
      collector.stop
      weight = whole.total(:inuse_objects) / collector.stats[:live_samples]
      expect(weight).to be >= 24
      found = [whole, whole - earlier, since].map { |profile| profile.top(:inuse_objects, by: :line).find { |row| row.name.end_with?(line) } }
      expect(found.map(&:samples)).to all(be_within(2).of(found.first.flat / weight.to_f))
      expect(found.map(&:error)).to all(be_within(0.02).of(of(Math.sqrt((weight - 1) / found.first.flat.to_f))))
      expect(found.map(&:flat).uniq.size).to eq(1)
      expect(held.size).to eq(8_000)
    end
  end

  describe "of sums where a sample stands for different numbers of objects" do
    # @param stacks [Hash] frame to [samples of allocations, and of what lives], objects of 40 bytes
    def sampled(interval, stacks, followed: 1)
      values = stacks.to_h do |frame, (allocated, living)|
        [[frame], [allocated, allocated * 40, living * followed, living * followed * 40].map { |value| value * interval }]
      end
      samples, live = stacks.values.transpose.map(&:sum)
      Profiles.build(values, period: interval, comments: { interval: interval, track_one_in: followed, samples: samples, live_samples: live })
    end

    def row(profile, name, metric = :alloc_objects) = profile.top(metric).find { |row| row.name == name }

    let(:exact) { sampled(1, { "a /a.rb:1" => [50_000, 40], "b /b.rb:1" => [40, 40] }) }
    let(:coarse) { sampled(512, { "a /a.rb:1" => [100, 50], "c /c.rb:1" => [30, 25] }, followed: 4) }
    let(:sums) do
      [exact + coarse, coarse + exact, described_class.new((exact + coarse).pprof_data), described_class.sum([coarse, exact, coarse]) - coarse]
    end

    it "are each profile's own, added up by their squares" do
      sums.each do |sum|
        expect(sum.metadata[:weights]).to eq("differ")
        deviation = Math.sqrt(512 * 511 * 100)
        %i[alloc_objects alloc_space].each { |metric| expect(row(sum, "/a.rb:1", metric).error).to be_within(1e-3).of(of(deviation / (50_000 + 51_200))) }
        living = Math.sqrt(2048 * 2047 * 50)
        expect(row(sum, "/a.rb:1", :inuse_space).error).to be_within(1e-3).of(of(living / (40 + 102_400)))
        total = Memprofiler::Profile::Sampling.new(sum.model, sum.metadata).total_error(0)
        expect(total).to be_within(1e-3).of(of(Math.sqrt(512 * 511 * 130) / (50_040 + 66_560)))
      end
    end

    it "come with the number of samples of one weight that would be as good" do
      sums.each do |sum|
        expect(row(sum, "/c.rb:1").to_h).to include(samples: 30, error: be_within(1e-3).of(of(Math.sqrt(511 / 512.0 / 30))))
        expect(row(sum, "/c.rb:1", :inuse_space).samples).to eq(25)
        expect(row(sum, "/b.rb:1").to_h).to include(samples: 40, error: 0.0)
        expect(row(sum, "/a.rb:1").samples).to be_within(2).of((101_200**2) / (50_000 + (100 * (512**2))))
      end
    end

    it "are not those of few samples where all is exact" do
      table = Memprofiler::Report.new(sampled(1, { "b /b.rb:1" => [3, 3] }) + coarse).table(:alloc_objects, by: :line, count: 5)
      expect(table.lines.last).to match(%r{ 0\.0% +3  /b\.rb:1$})
      expect(table).not_to include("few")
    end

    it "go on through sums of sums" do
      more = sampled(64, { "a /a.rb:1" => [900, 900] })
      [(exact + coarse) + more, exact + (more + coarse), described_class.sum([more, coarse, exact])].each do |sum|
        deviation = Math.sqrt((512 * 511 * 100) + (64 * 63 * 900))
        expect(row(sum, "/a.rb:1").error).to be_within(1e-3).of(of(deviation / (50_000 + 51_200 + 57_600)))
      end
    end

    it "don't come out smaller by rounding, of many stacks with little" do
      pair = sampled(2, Array.new(500) { |i| ["a#{i} /a.rb:1", [1, 1]] }.to_h)
      [exact + pair, described_class.new((pair + exact).pprof_data)].each do |sum|
        expect(row(sum, "/a.rb:1").error).to be_within(1e-5).of(of(Math.sqrt(500 * 2) / 51_000))
      end
    end

    it "are told by averages where all stand for the same" do
      sum = coarse + coarse
      expect(sum.metadata).not_to include(:weights)
      expect(sum.model[:samples].map(&:size)).to all(eq(3))
      expect(row(sum, "/c.rb:1").samples).to eq(60)
    end

    # 100 samplings of 100,000 objects, by two collectors: by the binomial distribution fewer than 87 come once in 1000.
    [[1, 512], [64, 512]].each do |intervals|
      it "hold the truth in 95 % of samplings, of #{intervals.join(" and ")}" do
        random = Random.new(7)
        held = Array.new(100) do
          sum = described_class.sum(intervals.map do |interval|
            samples = (0...50_000).count { random.rand(interval).zero? }
            sampled(interval, { "a /a.rb:1" => [samples, samples] })
          end)
          (sum.total(:alloc_objects) - 100_000).abs <= sum.total(:alloc_objects) * error(sum, :alloc_objects)
        end
        expect(held.count(true)).to be >= 87
      end
    end
  end
end
