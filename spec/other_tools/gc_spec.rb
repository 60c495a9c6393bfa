# frozen_string_literal: true

require_relative "../support/other_tools"
require_relative "../support/raw_tool"

# Programs and tools that steer the collector, or measure it.
RSpec.describe Memprofiler::Collector, "beside what steers the garbage collector" do
  def rounds(...)
    OtherTools.rounds(...)
  end

  it "GC.disable stays in force, and what it said stays true" do
    answer = rounds(<<~RUBY)
      def tool_start = ($was = GC.disable)
      $middle = -> { Array.new(50_000) { [1] }; $runs = GC.count; 20_000.times { [1] }; $runs = GC.count - $runs }
      def tool_stop = [$was, $runs, GC.enable, GC.disable, GC.enable]
    RUBY
    expect(answer.first).to eq([false, 0, true, false, true])
    expect(answer).to be_true_beside_us
  end

  it "an extension that disables collections finds them disabled" do
    answer = rounds(<<~RUBY, options: RawTool.options)
      require "raw_tool"
      def tool_start = ($was = RawTool.disable_gc)
      def tool_stop = [$was, RawTool.disable_gc, GC.enable]
    RUBY
    expect(answer.first).to eq([false, true, true])
    expect(answer).to be_true_beside_us
  end

  # A flush with the free hook lets a sweep end by switching collections off and on.
  it "a program that has collections off still has them off after flushes" do
    states = OtherTools.value(<<~RUBY)
      %i[mark free].map do |liveness|
        collector = Memprofiler::Collector.new(interval: 1, liveness: liveness).start
        GC.disable
        work
        collector.flush(gc: true)
        collector.flush(labels: [:class])
        collector.stop
        [GC.enable, GC.disable, GC.enable]
      end
    RUBY
    expect(states).to eq([[true, false, true]] * 2)
  end

  it "GC.stress, on and off" do
    answer = rounds(<<~RUBY)
      def tool_start = nil
      $middle = lambda do
        GC.stress = true
        Array.new(5) { Kept.new.to_s }
        $stress = GC.stress
        GC.stress = false
      end
      def tool_stop = [$stress, GC.stress]
    RUBY
    expect(answer.first).to eq([true, false])
    expect(answer).to be_true_beside_us
  end

  it "GC::Profiler has a row for each collection" do
    answer = rounds(<<~RUBY)
      def tool_start
        GC::Profiler.clear
        GC::Profiler.enable
        $count = GC.count
      end
      def tool_stop
        rows = GC::Profiler.raw_data.size
        result = [rows - (GC.count - $count), GC::Profiler.total_time.positive?, GC::Profiler.enabled?]
        GC::Profiler.disable
        result
      end
    RUBY
    expect(answer.first[1..]).to eq([true, true])
    expect(answer).to be_true_beside_us
  end

  it "GC.measure_total_time" do
    answer = rounds(<<~RUBY)
      def tool_start
        GC.measure_total_time = true
        $time = GC.total_time
      end
      def tool_stop
        result = [GC.measure_total_time, GC.total_time > $time, GC.stat(:time).positive?]
        GC.measure_total_time = false
        result
      end
    RUBY
    expect(answer.first).to eq([true, true, true])
    expect(answer).to be_true_beside_us
  end

  # From 3.4 the VM counts what it moves as allocated: see exact_spec.
  {
    "GC.compact" => ["$middle = -> { GC.compact }", ""],
    "GC.auto_compact" => ["GC.auto_compact = true", "GC.auto_compact = false"],
    "GC.verify_compaction_references" =>
      ["$middle = -> { GC.verify_compaction_references(toward: :empty, expand_heap: true) }", "$middle = nil"]
  }.each do |name, (on, off)|
    # (Ruby 3.1.2 itself crashes in 3 of 8 such programs without a collector, in the last of them.)
    it "#{name}: nobody is lost by moving", if: GC.respond_to?(:compact) && (RUBY_VERSION >= "3.2" || !name.include?("verify")) do
      answer = rounds(<<~RUBY)
        def tool_start = (#{on})
        def tool_stop = (#{off}; [GC.auto_compact, $kept.map(&:class).tally.inspect])
      RUBY
      expect(answer).to be_true_beside_us(grown: RUBY_VERSION < "3.4")
    end
  end

  it "lazy sweeps and incremental marking, which are under way at each start and stop" do
    answer = rounds(<<~RUBY)
      def litter = Array.new(30_000) { [1] } && nil
      def tool_start
        litter
        GC.start(full_mark: true, immediate_mark: false, immediate_sweep: false)
      end
      $middle = -> { litter; GC.start(full_mark: true, immediate_mark: false, immediate_sweep: false); litter }
      def tool_stop
        GC.start(immediate_mark: true, immediate_sweep: false)
        $kept.size
      end
    RUBY
    expect(answer).to be_true_beside_us
  end
end
