# frozen_string_literal: true

require "memprofiler"

RSpec.describe "Memprofiler::Profile::Pieces" do
  let(:pieces) { Memprofiler::Profile::Pieces.new }

  # Nanoseconds play no part: each call is one of these seconds later.
  def clock(*moments)
    allow(Process).to receive(:clock_gettime).with(Process::CLOCK_MONOTONIC).and_return(*moments)
  end

  it "puts lists in order, by the first, then the next, then as they stand" do
    random = Random.new(5)
    numbers = Array.new(3_000) { random.rand(-20..20) }
    names = Array.new(3_000) { "n#{random.rand(40)}" }
    expect(Memprofiler::Profile::Pieces.order(numbers, names)).to eq((0...3_000).sort_by { |i| [numbers[i], names[i], i] })
    expect(Memprofiler::Profile::Pieces.order([3, 1, 2, 1])).to eq([1, 3, 2, 0])
    expect(Memprofiler::Profile::Pieces.order([], [])).to eq([])
  end

  it "orders numbers beyond what a machine word holds" do
    large = [2**70, -(2**80), 2**69, 0]
    expect(Memprofiler::Profile::Pieces.order(large, [1.5, 2, 3, 4])).to eq([1, 3, 2, 0])
  end

  it "looks at the clock now and then, and gives way after 5 ms" do
    clock(0.0, 0.004, 0.0051, 0.0052, 0.0060, 0.0061)
    passed = 0
    allow(Thread).to receive(:pass) { passed += 1 }
    counts = Array.new(48) do
      pieces.step
      passed
    end
    expect(counts).to eq(([0] * 31) + ([1] * 17))
  end

  it "gives way less often where others take their turn for long" do
    clock(0.0, 0.006, 0.006, 0.106, 0.113, 0.119, 0.119, 0.120, 0.121, 0.126, 0.126, 0.126)
    passed = 0
    allow(Thread).to receive(:pass) { passed += 1 }
    counts = Array.new(5) do
      pieces.look
      passed
    end
    # 6 ms, then 7 and 13 after a wait of 100 ms, then 1 and 7.
    expect(counts).to eq([1, 1, 2, 2, 3])
  end
end
