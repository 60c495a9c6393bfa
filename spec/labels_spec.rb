# frozen_string_literal: true

require "zlib"
require_relative "support/child"

RSpec.describe Memprofiler::Collector, "labels" do
  def profile(labels, gc: true, &block)
    collector = described_class.new(interval: 1).start
    held = block.call
    result = collector.flush(labels: labels, gc: gc)
    collector.stop
    expect(held).not_to equal(0)
    result
  end

  # label => sum of the metric, of what was allocated in this file
  def by_label(profile, key, metric = :alloc_objects)
    profile.samples.each_with_object(Hash.new(0)) do |sample, sums|
      sums[sample.labels[key]] += sample.values[metric] if sample.stack.any? { |frame| frame.file == __FILE__ }
    end
  end

  it "are absent unless asked for, and only those asked for are there" do
    { [] => [], [:class] => %w[class], [:thread] => %w[thread], [:age] => %w[age],
      %i[class age thread] => %w[age class thread], %i[class class] => %w[class] }.each do |labels, names|
      found = profile(labels) { Array.new(10) { +"x" } }.samples.flat_map { |sample| sample.labels.keys }
      expect(found.uniq.sort).to eq(names)
    end
  end

  # What a class or a thread is called may be nobody's business.
  it "that nobody asked for are not in the file either" do
    stub_const("TellTaleTenant", Class.new)
    in_thread = -> { Thread.new { Thread.current.name = "job for alice"; Array.new(10) { TellTaleTenant.new } }.value }
    { [] => [], [:class] => ["TellTaleTenant"], [:thread] => ["job for alice"] }.each do |labels, names|
      bytes = Zlib.gunzip(profile(labels, &in_thread).pprof_data)
      expect(["TellTaleTenant", "job for alice"].select { |name| bytes.include?(name) }).to eq(names)
    end
  end

  it "leave the sums alone" do
    collector = described_class.new(interval: 1).start
    held = Array.new(500) { |i| [i.to_s, { i => i }] }
    GC.start
    collector.stop
    sums = [[], [:class], [:age], [:thread], %i[class age thread]].map do |labels|
      result = collector.flush(labels: labels)
      %i[alloc_objects alloc_space inuse_objects inuse_space].map { |metric| result.total(metric) }
    end
    expect(sums.uniq.size).to eq(1)
    expect(held.size).to eq(500)
  end

  describe "class" do
    module Zoo
      Animal = Class.new
      Pair = Struct.new(:a, :b)
    end

    it "names the class of each object" do
      counts = by_label(profile([:class]) do
        [Array.new(30) { Zoo::Animal.new }, Array.new(20) { Zoo::Pair.new(1, 2) }, Array.new(10) { Class.new },
         Array.new(10) { Module.new }, Array.new(10) { 2**80 }, Array.new(10) { 1.0e300 * 7 }, Array.new(10) { /a/.match("a") }]
      end, "class")
      expect(counts).to include("Zoo::Animal" => 30, "Zoo::Pair" => 20, "Class" => be >= 10, "Module" => 10, "Integer" => be >= 10,
                                "MatchData" => 10, "Array" => be >= 7)
    end

    it "names objects with a singleton class after the class they were made of" do
      counts = by_label(profile([:class]) do
        Array.new(20) { Zoo::Animal.new.tap { |animal| def animal.sound = "moo" } }
      end, "class")
      expect(counts["Zoo::Animal"]).to eq(20)
      expect(counts.keys.grep(/0x|#<Class:#</)).to be_empty
    end

    it "names anonymous classes without addresses, as one" do
      counts = by_label(profile([:class]) { Array.new(5) { Class.new.then { |klass| Array.new(4) { klass.new } } } }, "class")
      expect(counts["#<Class>"]).to eq(20)
    end

    it "is the VM's own word: no class's `name` or `inspect` is run" do
      lying = Class.new do
        def self.name = raise("asked for its name")
        def self.inspect = raise("inspected")
        def self.to_s = raise("to_s")
        def class = raise("asked for its class")
        def hash = raise("hashed")
        def method_missing(*) = raise("missing")
      end
      Zoo.const_set(:Liar, lying)
      expect(by_label(profile([:class]) { Array.new(10) { lying.new } }, "class")["Zoo::Liar"]).to eq(10)
    end

    it "stays known when the class has died" do
      collector = described_class.new(interval: 1).start
      make = -> { Zoo.const_set(:Passing, Class.new).then { |klass| Array.new(50) { klass.new } } && nil }
      make.call
      collector.flush
      Zoo.send(:remove_const, :Passing)
      5.times { Array.new(1_000) { [1] } && GC.start }
      expect(by_label(collector.flush(labels: [:class]), "class")["Zoo::Passing"]).to eq(50)
      collector.stop
    end

    it "is read again where it was hidden at first" do
      # IO#each_line, Comparable and their like make hidden Arrays and Strings and reveal some of them.
      counts = by_label(profile([:class]) { Array.new(50) { |i| "a,b,#{i}".split(",").sort_by(&:itself) } }, "class")
      hidden = counts.select { |name, _| name.start_with?("(hidden Array") }.values.sum
      expect(counts["Array"]).to be >= 101
      expect(hidden).to be <= 51
      revealed = by_label(profile([:class]) { Array.new(50) { { a: 1 }.map { |pair| pair } } }, "class")
      expect(revealed["Array"]).to be >= 101
    end

    # Shared bytes belong to one object: the others, and their class, must not count them again.
    it "gives the bytes that Strings share once" do
      result = profile([:class]) { Array.new(40) { ("x" * 100_000).then { |long| [long, long.dup, long.clone, long[1..]] } } }
      strings = result.top(:inuse_space, by: :class).select { |row| row.name.include?("String") }.sum(&:flat)
      expect(strings).to be_between(4_000_000, 4_100_000)
    end

    it "says of a hidden object that has the bytes others share what it is" do
      result = profile([:class]) { Array.new(40) { Array.new(10_000, 1).then { |long| [long, long.drop(1), long.first(9_000)] } } }
      counts, bytes = %i[inuse_objects inuse_space].map { |metric| by_label(result, "class", metric) }
      shared = "(hidden Array: shared contents)"
      expect(counts[shared]).to be_between(40, 42)
      expect(bytes[shared]).to be_between(40 * 80_000, 41 * 80_200)
      expect(bytes["Array"]).to be < 80_000
    end

    it "names internal objects by type" do
      counts = by_label(profile([:class]) do
        50.times { |i| eval("proc { |a| a + #{i} }").call(1) }
        Array.new(20) { |i| binding.tap { i } }
      end, "class")
      internal = counts.keys.grep(/\A\(/)
      expect(internal).to include("(imemo iseq)", "(imemo env)")
      expect(counts["(imemo iseq)"]).to be >= 100
      expect(internal).to all(match(/\A\((imemo|hidden) [\w :]+\)\z/))
    end

    it "is there for each object, whatever it is" do
      result = profile([:class]) do
        3.times { |i| Class.new { include Comparable; define_method(:x) { i } }.new.x }

        [Thread.new { 1 }.join, Fiber.new { 1 }, 1i, 1r, :"sym#{rand}".to_proc, $stdout.dup, ObjectSpace::WeakMap.new, /1/]
      end
      expect(result.samples.reject { |sample| sample.labels["class"] }).to be_empty
    end
  end

  describe "age" do
    it "is how many collections an object in use has survived" do
      collector = described_class.new(interval: 1).start
      held = [[], [], []]
      held.each do |generation|
        100.times { generation << Zoo::Animal.new }
        GC.start
      end
      ages = by_label(collector.flush(labels: %i[age]), "age", :inuse_objects)
      count = by_label(collector.flush(labels: %i[age class]), "age", :inuse_objects)
      collector.stop
      expect(ages).to include([1, "collections"] => be_between(100, 130), [2, "collections"] => be_between(100, 130),
                              [3, "collections"] => be_between(100, 130))
      expect(count).to include([1, "collections"] => be >= 100)
      expect(held.flatten.size).to eq(300)
    end

    it "is not on what was allocated, and what is not in use has none" do
      result = profile([:age], gc: false) { Array.new(100) { Zoo::Animal.new } }
      expect(result.samples.flat_map { |sample| sample.labels.keys }).to be_empty
      result = profile([:age]) { Array.new(100) { Zoo::Animal.new } }
      aged, plain = result.samples.partition { |sample| sample.labels["age"] }
      expect(aged.map { |sample| sample.values[:alloc_objects] }).to all(eq(0))
      expect(plain.map { |sample| sample.values[:inuse_objects] }).to all(eq(0))
    end
  end

  describe "thread" do
    it "names the main thread, named threads, and others by where their block stands" do
      line = __LINE__ + 5
      counts = by_label(profile([:thread]) do
        mine = Array.new(50) { Zoo::Animal.new }
        named = Thread.new { Array.new(40) { Zoo::Animal.new } }
        named.name = "worker 1"
        plain = Array.new(2) { Thread.new { Array.new(30) { Zoo::Animal.new } } }
        [mine, named.value, plain.map(&:value)]
      end, "thread")
      expect(counts["main"]).to be >= 51
      expect(counts["worker 1"]).to be_between(41, 43)
      expect(counts["#{__FILE__}:#{line}"]).to be_between(62, 66)
      expect(counts.keys.grep(/0x/)).to be_empty
    end

    it "counts a fiber for the thread it runs on" do
      counts = by_label(profile([:thread]) { Fiber.new { Array.new(30) { Zoo::Animal.new } }.resume }, "thread")
      expect(counts.keys).to eq(["main"])
    end

    it "stays known when the thread is gone" do
      collector = described_class.new(interval: 1).start
      20.times do |i|
        Thread.new { Thread.stop || Array.new(10) { Zoo::Animal.new } }.tap do |thread|
          thread.name = "t#{i}"
          Thread.pass until thread.stop?
          thread.run.join
        end
      end
      5.times { GC.start }
      counts = by_label(collector.flush(labels: [:thread]), "thread")
      collector.stop
      20.times { |i| expect(counts["t#{i}"]).to be >= 11 }
    end

    # Of those that ended unnamed a few are kept, so that they can be asked.
    it "stays known of the main thread, and of one that lives, however many come and go" do
      collector = described_class.new(interval: 1).start
      long = Thread.new { [Array.new(40) { Zoo::Animal.new }, Thread.stop] }
      long.name = "long"
      Thread.pass until long.stop?
      Array.new(50) { Zoo::Animal.new }
      900.times { Thread.new { (Thread.current.name = "short") && Zoo::Animal.new }.join }
      GC.start
      animals = collector.flush(labels: %i[thread class]).samples.select { |sample| sample.labels["class"] == "Zoo::Animal" }
      counts = animals.group_by { |sample| sample.labels["thread"] }
                      .transform_values { |samples| samples.sum { |sample| sample.values[:alloc_objects] } }
      expect(counts.values_at("main", "long")).to eq([50, 40])
      expect(counts.values_at("short", "(thread)").compact.sum).to eq(900)
      expect(counts["short"]).to be >= 30
    ensure
      long&.kill&.join
      collector&.stop
    end

    it "follows a thread that names itself" do
      collector = described_class.new(interval: 1).start
      held = Array.new(3) { |i| Thread.new { (Thread.current.name = "self #{i}") && Array.new(20) { Zoo::Animal.new } }.value }
      counts = by_label(collector.flush(labels: [:thread]), "thread")
      collector.stop
      held.each_index { |i| expect(counts["self #{i}"]).to be >= 20 }
    end

    it "takes names of any bytes" do
      counts = by_label(profile([:thread]) do
        ["b\xFFd", "line\nbreak", "n" * 5_000].map do |name|
          Thread.new { Thread.stop || Array.new(20) { Zoo::Animal.new } }.tap do |thread|
            thread.name = name.dup.force_encoding("UTF-8")
            Thread.pass until thread.stop?
            thread.run.join
          end
        end
      end, "thread")
      expect(counts.keys.map(&:valid_encoding?)).to all(be(true))
      expect(counts.keys.map(&:size).max).to be <= 1_024
      expect(counts.keys.grep(/\Aline.break\z/).size).to eq(1)
    end
  end
end
