# frozen_string_literal: true

require_relative "support/child"

RSpec.describe Memprofiler, ".with_labels" do
  def allocate(count) = Array.new(count) { Object.new }

  # Objects that `allocate` made, by what the label says of them.
  def by_label(profile, name, metric = :alloc_objects)
    profile.samples.each_with_object(Hash.new(0)) do |sample, sums|
      mine = sample.labels["class"] == "Object" && sample.stack.any? { |frame| frame.function.end_with?("#allocate") }
      sums[sample.labels[name]] += sample.values[metric] if mine
    end
  end

  def profile(**options, &block)
    collector = Memprofiler::Collector.new(interval: 1).start
    held = block.call
    result = collector.flush(labels: [:class], gc: true, **options)
    collector.stop
    expect(held).not_to equal(0)
    result
  end

  before { allocate(1) }

  def with(...) = described_class.with_labels(...)

  it "labels what its block allocates, and what of that is in use, and returns what the block does" do
    answer = kept = nil
    result = profile do
      answer = with(endpoint: "posts#index") { (kept = allocate(10)) && allocate(5) && :done }
      allocate(7)
      kept
    end
    expect(answer).to eq(:done)
    expect(by_label(result, "endpoint")).to eq("posts#index" => 15, nil => 7)
    expect(by_label(result, "endpoint", :inuse_objects)["posts#index"]).to be_between(10, 15)
    expect(result.labels).to contain_exactly(:class, :endpoint)
  end

  it "nests: other labels hold on, a new value counts until the block's end, nil and an empty one take it away" do
    result = profile do
      with(endpoint: "a", user: :admin) do
        allocate(1)
        with("endpoint" => "b", n: 5, big: 2**70, on: true) { allocate(2) }
        with(endpoint: nil) { allocate(4) }
        with(endpoint: "") { allocate(8) }
        allocate(16)
      end
    end
    expect(by_label(result, "endpoint")).to eq("a" => 17, "b" => 2, nil => 12)
    expect(by_label(result, "user")).to eq("admin" => 31)
    expect(by_label(result, "n")).to eq("5" => 2, nil => 29)
    expect(by_label(result, "big")).to eq((2**70).to_s => 2, nil => 29)
    expect(by_label(result, "on")).to eq("true" => 2, nil => 29)
  end

  it "ends with its block, however that ends" do
    expect { with(a: 1) { raise "mine" } }.to raise_error("mine")
    expect(catch(:out) { with(a: 1) { throw :out, 3 } }).to eq(3)
    expect(with(a: 1) { break 5 }).to eq(5)
    Thread.new { with(a: 1) { Thread.exit } }.join
    expect(described_class.labels).to eq({})
  end

  it "is the block's thread's and fiber's own, which others can be given" do
    result = profile do
      with(endpoint: "a") do
        Thread.new { allocate(1) }.join
        Fiber.new { allocate(2) }.resume
        Enumerator.new { |y| y << allocate(4) }.next
        Thread.new(described_class.labels) { |labels| with(**labels) { allocate(8) } }.join
        fibers = %w[b c].map { |name| Fiber.new { with(endpoint: name) { allocate(16) && (Fiber.yield || allocate(32)) } } }
        2.times { fibers.each(&:resume) }
        allocate(64)
      end
    end
    expect(by_label(result, "endpoint")).to eq(nil => 7, "a" => 72, "b" => 48, "c" => 48)
  end

  # No request of it had come when the first profile was taken.
  it "stays in a difference, if only one of the two profiles has it" do
    collector = Memprofiler::Collector.new(interval: 1).start
    earlier = collector.flush(labels: [:class])
    with(endpoint: "a") { allocate(10) }
    later = collector.flush(labels: [:class])
    collector.stop
    expect(by_label(later - earlier, "endpoint")).to eq("a" => 10)
  end

  it "goes on in a forked child" do
    answer = Child.value(<<~RUBY)
      def allocate(count) = Array.new(count) { Object.new }
      collector = Memprofiler::Collector.new(interval: 1).start
      Memprofiler.with_labels(job: "import") do
        reader, writer = IO.pipe
        pid = fork do
          kept = allocate(20)
          writer.write(Marshal.dump(collector.flush(labels: [:class, :pid]).samples.select { |s| s.labels["class"] == "Object" }.map { |s| [s.labels, s.values[:alloc_objects]] }))
          exit!(0) if kept
        end
        writer.close
        [Marshal.load(reader.read), pid]
      end
    RUBY
    samples, pid = answer
    expect(samples).to include([{ "class" => "Object", "pid" => pid.to_s, "job" => "import" }, 20])
  end

  it "has nothing to do in another Ractor, but to run the block" do
    answer = Child.value(<<~RUBY)
      ractor = Ractor.new { [Memprofiler.with_labels(a: 1) { 7 }, Memprofiler.labels] }
      ractor.respond_to?(:value) ? ractor.value : ractor.take
    RUBY
    expect(answer).to eq([7, {}])
  end

  it "repairs what isn't UTF-8, and cuts what is long" do
    result = profile do
      with(a: "caf\xE9".dup.force_encoding("ISO-8859-1"), b: "x\xFFy", c: "\u00e9" * 200, d: "wide".encode("UTF-16LE")) { allocate(1) }
    end
    labels = result.samples.map(&:labels).find { |found| found.key?("a") }
    expect(labels.values_at("a", "b", "c", "d")).to eq(["caf\u00e9", "x\uFFFDy", "\u00e9" * 128, "wide"])
  end

  it "repairs names too, of which two may then be one, and cuts what is nothing but stray bytes" do
    with("q\xFF" => 1, "q\xFE" => 2) { expect(described_class.labels).to eq({ q�: "2" }) }
    with("\x80" * 300 => "\x80" * 300) do
      expect(described_class.labels).to eq({ "\uFFFD": "\uFFFD" })
      expect(with(**described_class.labels) { described_class.labels }).to eq(described_class.labels)
    end
  end

  it "gives the block's value, or exception, where the block freezes the thread" do
    thread = Thread.new { with(a: 1) { Thread.current.freeze && :value } }
    expect(thread.value).to eq(:value)
    thread = Thread.new { with(a: 1) { Thread.current.freeze && raise(IOError, "the block's") } }
    thread.report_on_exception = false
    expect { thread.value }.to raise_error(IOError, "the block's")
  end

  it "calls a value (other) when the process has 32,768 sets, and takes no more memory" do
    others, first, memory = Child.value(<<~RUBY)
      def allocate(count) = Array.new(count) { Object.new }
      def rss = File.exist?("/proc/self/statm") ? File.read("/proc/self/statm").split[1].to_i * 4 : 0
      collector = Memprofiler::Collector.new(interval: 1).start
      40_000.times { |i| Memprofiler.with_labels(id: i) { allocate(1) } }
      GC.start
      before = rss
      200_000.times { |i| Memprofiler.with_labels(id: 40_000 + i) { nil } }
      GC.start
      grown = rss - before
      rows = collector.flush.top(:alloc_objects, by: "label:id").to_h { |row| [row.name, row.flat] }
      [rows["(other)"], rows["0"], grown]
    RUBY
    expect(others).to be >= 7_000
    expect(first).to be_between(1, 20)
    expect(memory).to be < 20_000 unless ENV["MEMPROFILER_ASAN"] == "1" # kB
  end

  {
    { class: 1 } => [ArgumentError, "class, age, thread and pid are memprofiler's own labels: choose another name than class"],
    { "pid" => 1 } => [ArgumentError, "class, age, thread and pid are memprofiler's own labels: choose another name than pid"],
    { a: [] } => [TypeError, "label a must be a String, Symbol, Integer, true, false or nil, not Array"],
    { a: 1.5 } => [TypeError, "label a must be a String, Symbol, Integer, true, false or nil, not Float"],
    { 1 => 2 } => [TypeError, "a label's name must be a Symbol or String that isn't empty, not 1"],
    { "" => 2 } => [TypeError, "a label's name must be a Symbol or String that isn't empty, not \"\""],
    Array.new(17) { |i| [:"k#{i}", i] }.to_h => [ArgumentError, "at most 16 labels can be given"]
  }.each do |labels, (error, message)|
    it "refuses #{labels.inspect[0, 40]}, and the block has not run" do
      ran = false
      expect { with(**labels) { ran = true } }.to raise_error(error, message)
      expect([ran, described_class.labels]).to eq([false, {}])
    end
  end

  it "needs a block" do
    expect { with(a: 1) }.to raise_error(ArgumentError, "Memprofiler.with_labels needs a block")
  end

  it "never shows in a stack" do
    result = profile { with(a: 1) { allocate(10) } }
    expect(result.samples.flat_map(&:stack).map(&:function).grep(/\AMemprofiler[.:]/)).to eq([])
  end
end
