# frozen_string_literal: true

require "memprofiler"
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
end
