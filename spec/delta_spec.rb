# frozen_string_literal: true

require_relative "support/profiles"

RSpec.describe "Memprofiler::Delta" do
  def between(...) = Memprofiler::Delta.between(...)

  def values(profile)
    profile.samples.to_h { |sample| [[sample.stack.map(&:function), sample.labels], sample.values.values] }
  end

  let(:earlier) { Profiles.build({ ["a /a.rb:1"] => [10, 400, 8, 320], ["b /b.rb:2"] => [5, 50, 5, 50], ["c /c.rb:3"] => [1, 9, 1, 9] }, time: 1_000_000_000, comments: { pid: 7, run: "a-1" }) }

  it "has alloc_* since the earlier one and inuse_* of the later one, and nothing negative" do
    later = Profiles.build({ ["a /a.rb:1"] => [13, 460, 2, 80], ["b /b.rb:2"] => [5, 50, 1, 10], ["c /c.rb:3"] => [1, 9, 0, 0], ["d /d.rb:4"] => [4, 44, 3, 33] },
                           time: 3_500_000_000, comments: { pid: 7, run: "a-1", samples: 30, live_samples: 6 })
    delta = between(earlier, later)
    expect(values(delta)).to eq([["a"], {}] => [3, 60, 2, 80], [["b"], {}] => [0, 0, 1, 10], [["d"], {}] => [4, 44, 3, 33])
    expect([delta.model[:duration_nanos], delta.time, delta.period]).to eq([2_500_000_000, later.time, 1])
    expect(delta.metadata).to include(pid: 7, difference: "of alloc_* only, 2.500 s apart", live_samples: 6)
    expect(Memprofiler::Profile.new(delta.pprof_data).then { |read| [values(read), read.model[:duration_nanos]] }).to eq([values(delta), 2_500_000_000])
  end

  it "of the same profile twice has what is in use" do
    expect(values(between(earlier, earlier))).to eq([["a"], {}] => [0, 0, 8, 320], [["b"], {}] => [0, 0, 5, 50], [["c"], {}] => [0, 0, 1, 9])
  end

  it "has all of the later one, where there is no earlier one or the collector was started anew" do
    later = Profiles.build({ ["a /a.rb:1"] => [2, 40, 1, 20] }, comments: { run: "a-2" })
    expect([between(nil, later), between(earlier, later)]).to all(be(later))
  end

  it "tells labels apart, and gives none a negative value when a sample got its class late" do
    earlier = Profiles.build({ ["a /a.rb:1", {}] => [4, 40, 4, 40], ["a /a.rb:1", { "class" => "A", "job" => "x" }] => [1, 10, 1, 10] })
    later = Profiles.build({ ["a /a.rb:1", {}] => [3, 30, 3, 30], ["a /a.rb:1", { "class" => "A", "job" => "x" }] => [7, 70, 2, 20] })
    expect(values(between(earlier, later))).to eq([["a"], {}] => [0, 0, 3, 30], [["a"], { "class" => "A", "job" => "x" }] => [5, 50, 2, 20])
  end

  it "of a collector adds up to what it allocated" do
    collector = Memprofiler::Collector.new(interval: 1).start
    first = collector.flush
    kept = Array.new(100) { Object.new }
    second = collector.flush(gc: true)
    Array.new(50) { Object.new }
    third = collector.flush(gc: true)
    collector.stop
    deltas = [between(nil, first), between(first, second), between(second, third)]
    expect(deltas.sum { |delta| delta.total(:alloc_objects) }).to eq(third.total(:alloc_objects))
    expect(deltas.last.total(:inuse_space)).to eq(third.total(:inuse_space))
    expect(deltas.flat_map(&:samples).flat_map { |sample| sample.values.values }).to all(be >= 0)
    expect(kept.size).to eq(100)
  end

  it "is refused of profiles in the wrong order" do
    later = Profiles.build({ ["a /a.rb:1"] => [1, 1, 0, 0] })
    expect { between(earlier, later) }.to raise_error(ArgumentError, /not an earlier and a later profile/)
  end
end
