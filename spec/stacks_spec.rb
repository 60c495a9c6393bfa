# frozen_string_literal: true

require_relative "support/child"

RSpec.describe Memprofiler::Collector, "stacks" do
  Marker = Class.new

  # @return [Array<Array<Memprofiler::Profile::Frame>>] the stacks on which the block made a Marker, innermost first
  def stacks(**options)
    collector = described_class.new(interval: 1, **options).start
    yield
    collector.stop
    marked(collector.flush(labels: [:class]))
  end

  def marked(profile)
    profile.samples.select { |sample| sample.labels["class"] == "Marker" }.map(&:stack)
  end

  def names(stack) = stack.map(&:function)

  # Frames from the innermost Ruby one of this file.
  def ours(stack) = stack.select { |frame| frame.file == __FILE__ }

  def mark = Marker.allocate
  def deep(depth) = depth.zero? ? mark : deep(depth - 1)

  describe "lines and files" do
    it "are those of the allocating call, which a C function that makes the object leaves to its caller" do
      line = __LINE__
      found = stacks do
        Marker.allocate
        [1].each do
          nil
          Marker.allocate
        end
        [1,
         Marker.allocate,
         Marker.allocate]
      end
      expect(found.map { |stack| ours(stack).first.line - line }.sort).to eq([2, 5, 8, 9])
      expect(found.map { |stack| stack.first.to_a }.uniq).to eq([["Class#allocate", "", 0]])
    end

    it "have one frame per call, the callers with the line they called from" do
      line = __LINE__ + 1
      stack = stacks { deep(3) }.first
      frames = ours(stack)
      expect(frames.map(&:function).first(5).map { |name| name[/\w+\z/] }).to eq(%w[mark deep deep deep deep])
      expect(frames.map(&:line).first(5)).to eq([method(:mark).source_location[1], *[method(:deep).source_location[1]] * 4])
      expect(frames[5].line).to eq(line)
    end

    it "of blocks are the blocks' own" do
      line = __LINE__
      stack = stacks do
        [1].each do
          [2].map { mark }
        end
      end.first
      expect(ours(stack).drop(1).map { |frame| frame.line - line }.first(3)).to eq([3, 3, 2])
      expect(names(stack)).to include("Array#each", "Array#map")
    end

    it "of a thread begin with the thread's block" do
      found = stacks { Thread.new { mark }.join }.first
      expect(ours(found).size).to eq(2)
      expect(ours(found).last.function).to start_with("block ")
    end

    it "of a fiber begin with the fiber's block" do
      found = stacks { Fiber.new { mark }.resume }.first
      expect(ours(found).size).to eq(2)
    end

    it "are right in compiled code", if: defined?(RubyVM::YJIT) do
      lines = Child.value(<<~RUBY, options: ["--yjit", "--yjit-call-threshold=3"])
        def make(n)
          a = [n]
          b = n.to_s

          { a => b }
        end
        200.times { |i| make(i) }
        collector = Memprofiler::Collector.new(interval: 1).start
        200.times { |i| make(i) }
        collector.flush
        200.times { |i| make(i) }
        collector.stop
        profile = collector.flush
        profile.samples.select { |s| s.values[:alloc_objects] >= 200 }.map { |s| [s.stack.find { |f| f.file != "" }.line, s.values[:alloc_objects]] }
      RUBY
      sums = lines.each_with_object(Hash.new(0)) { |(line, count), hash| hash[line] += count }
      expect(sums.slice(2, 3, 5).values).to all(be >= 400)
      expect(sums).not_to include(0)
    end
  end

  describe "max_depth" do
    it "keeps the innermost frames, over a root that says so" do
      found = stacks(max_depth: 10) { deep(50) }
      expect(found.map(&:size)).to eq([11])
      expect(names(found[0]).last).to eq("(truncated)")
      expect(names(found[0])[1]).to end_with("#mark")
      expect([found[0].last.file, found[0].last.line]).to eq(["", 0])
    end

    it "cuts nothing that just fits" do
      full = stacks { deep(20) }.first
      fitting = stacks(max_depth: full.size + 1) { deep(20) }.first # <main> twice on 3.1
      expect(names(fitting)).to eq(names(full))
    end

    it "may be 1" do
      expect(stacks(max_depth: 1) { mark }.map { |stack| names(stack) }).to eq([["Class#allocate", "(truncated)"]])
    end

    it "counts what was cut" do
      collector = described_class.new(interval: 1, max_depth: 30).start
      7.times { deep(100) }
      collector.stop
      cut = collector.stats[:truncated_stacks]
      expect(cut).to be >= 7
      expect(collector.flush.metadata[:truncated_stacks]).to eq(cut)
    end

    it "of 10,000 takes a stack of thousands" do
      sizes = Child.value(<<~RUBY, env: { "RUBY_THREAD_VM_STACK_SIZE" => "8000000" })
        def deep(depth) = depth.zero? ? Object.new : deep(depth - 1)
        collector = Memprofiler::Collector.new(interval: 1, max_depth: 10_000).start
        deep(5_000)
        collector.flush.samples.map { |sample| sample.stack.size }.max
      RUBY
      expect(sizes).to be_between(5_001, 5_020)
    end
  end

  class Named
    def self.made = [:singleton].each { Marker.new }
    define_method(:defined) { Marker.new }
    def plain = Marker.new
  end

  module Refined
    refine(String) { def refined_mark = Marker.new }
  end
  using Refined

  describe "names" do
    it "are those of methods, singleton methods, blocks and define_method, by class" do
      found = stacks do
        Named.made
        Named.new.plain
        Named.new.defined
      end
      tops = found.map { |stack| names(ours(stack)).first }
      expect(tops).to include(end_with("Named#plain"), end_with("Named.made"))
      expect(tops.grep(/\Ablock in <class:Named>|Named#defined\z/).size).to eq(1)
      expect(tops.size).to eq(3)
    end

    it "hold no addresses: anonymous classes, singleton objects, refinements" do
      anonymous = Class.new { def m = Marker.new }
      object = Object.new
      def object.single = Marker.new
      extended = Module.new { def ext = Marker.new }
      found = stacks do
        "x".refined_mark
        anonymous.new.m
        object.single
        Object.new.extend(extended).ext
        Module.new { def self.on_module = Marker.new }.on_module
      end
      all = found.flat_map { |stack| names(stack) }
      expect(all.grep(/0x\h/)).to eq([])
      expect(found.size).to eq(5)
    end

    it "are few, however many methods are bound or objects extended" do
      functions, frames = Child.value(<<~RUBY)
        module Saying
          def say = [to_s]
        end
        collector = Memprofiler::Collector.new(interval: 1).start
        1_000.times { Kernel.instance_method(:to_s).bind_call(Object.new) }
        1_000.times { Object.new.extend(Saying).say }
        1_000.times { Object.new.tap { |o| def o.one = ["x"] }.one }
        profile = collector.flush
        collector.stop
        names = profile.samples.flat_map { |s| s.stack.map { |f| [f.function, f.file] } }.uniq
        [names, profile.samples.size]
      RUBY
      expect(functions.size).to be < 25
      expect(frames).to be < 60
    end

    it "never are the profiler's own" do
      all = Child.value(<<~RUBY)
        profile = Memprofiler.profile(interval: 1) do
          inner = Memprofiler::Collector.new(interval: 1).start
          50.times { |i| eval("def m\#{i} = ['x']; m\#{i}"); inner.flush(labels: %i[class age thread]) if i % 10 == 0 }
          inner.stats
          inner.stop
          Memprofiler.profile { Array.new(100) { [1] } }.total(:alloc_objects)
        end
        profile.samples.flat_map { |s| s.stack.map { |f| [f.function, f.file] } }.uniq
      RUBY
      expect(all.select { |name, file| name.match?(/Memprofiler/) || file.match?(%r{lib/memprofiler}) }).to eq([])
      expect(all.map(&:first)).to include("<main>")
    end

    it "have <main> once, at the root" do
      found = Child.value(<<~RUBY)
        def make = Object.new
        collector = Memprofiler::Collector.new(interval: 1).start
        make
        stacks = collector.flush.samples.map { |s| s.stack.map { |f| [f.function, f.file] } }
        stacks.find { |stack| stack.any? { |name, _| name == "Object#make" } }
      RUBY
      expect(found.count(["<main>", "-e"])).to eq(1)
      expect(found.last).to eq(["<main>", "-e"])
    end

    it "of any length and any bytes come out as short, valid text" do
      long = "m#{"x" * 10_000}"
      binary = "\xE9t\xE9".dup.force_encoding("ISO-8859-1").to_sym
      klass = Class.new do
        class_eval("def #{long} = Marker.new")
        define_method(binary) { Marker.new }
        define_method(:"with\x00nul") { Marker.new }
        define_method(:"with\nnewline") { Marker.new }
        define_method("é∞") { Marker.new }
      end
      found = stacks { [long, binary, :"with\x00nul", :"with\nnewline", "é∞"].each { |name| klass.new.public_send(name) } }
      all = found.flat_map { |stack| names(stack) }
      expect(found.size).to eq(5)
      expect(all.map(&:valid_encoding?)).to all(be(true))
      expect(all.map(&:bytesize).max).to be <= 1_024
      expect(all.grep(/[\0\n]/)).to eq([])
      expect(all.grep(/xxx…\z/)).not_to be_empty
    end

    it "of files are absolute, whatever the bytes; eval's are as given" do
      found = stacks do
        eval("Marker.new", binding, "/tmp/st\xC3\xA4ck.rb", 7)
        eval("Marker.new", binding, "b\xFFd.rb", 8)
        eval("Marker.new")
      end
      files = found.map { |stack| stack.find { |frame| frame.file != "" } }
      expect(files.map(&:line)).to include(7, 8)
      expect(files.map(&:file)).to include("/tmp/stäck.rb")
      expect(files.map { |frame| frame.file.valid_encoding? }).to all(be(true))
    end

    it "of one file are one, however the program was started and whatever it gave to eval" do
      files = Dir.mktmpdir do |dir|
        dir = File.realpath(dir)
        Dir.mkdir(File.join(dir, "a"))
        Dir.mkdir(File.join(dir, "b"))
        File.write(File.join(dir, "b", "main.rb"), <<~RUBY)
          require "memprofiler"
          collector = Memprofiler::Collector.new(interval: 1).start
          Dir.chdir("/")
          eval("def made = ['x']", binding, __FILE__, __LINE__)
          kept = made
          at_exit do
            files = collector.flush.samples.flat_map { |s| s.stack.map(&:file) }.uniq.reject { |file| file == "" || file.start_with?("<") }
            $stdout.write(files.map { |file| file.delete_prefix(#{dir.inspect}) }.inspect)
          end
        RUBY
        IO.popen([RbConfig.ruby, "--disable-gems", *Child::LOAD_PATH.flat_map { |path| ["-I", path] }, "../b/main.rb"],
                 chdir: File.join(dir, "a"), &:read)
      end
      expect(files).to eq(["/b/main.rb"].inspect)
    end

    it "and addresses of locations are the same in each flush and each process" do
      program = <<~RUBY
        Thing = Class.new { def make = [1].map { |x| { x => Class.new { def m = ["x"] }.new.m } } }
        collector = Memprofiler::Collector.new(interval: 1).start
        run = -> { 3.times { Thing.new.make } && Object.new.tap { |o| def o.x = [1] }.x }
        run.call
        first = collector.flush.model
        run.call
        second = collector.flush.model
        [first, second].map { |m| m[:locations].to_h { |function, line, address| [[m[:functions][function], line], address] } }
      RUBY
      one = Child.value(program)
      two = Child.value(program)
      expect(one[1]).to include(one[0])
      expect(two).to eq(one)
      addresses = one[1].values
      expect(addresses.uniq.size).to eq(addresses.size)
      expect(addresses).to all(be_positive)
    end
  end

  describe "of programs that make endless code" do
    # Tables after 2,000 rounds and after 10,000.
    def growth(body)
      Child.value(<<~RUBY)
        collector = Memprofiler::Collector.new(interval: 1).start
        stats = [2_000, 8_000].map do |rounds|
          rounds.times { |i| #{body}; GC.start if i % 500 == 499 }
          3.times { GC.start && Thread.pass }
          collector.flush(labels: [:class])
          collector.stats
        end
        stats << collector.flush.total(:alloc_objects)
      RUBY
    end

    {
      "methods of one name" => "eval('def again = [1]; again')",
      "anonymous classes" => "Class.new { def m = [1] }.new.m",
      "singleton methods" => "Object.new.tap { |o| def o.m = [1] }.m",
      "blocks by eval" => "eval('proc { [1] }').call",
      "threads" => "Thread.new { [1] }.join"
    }.each do |name, body|
      it "stay bounded: #{name}" do
        early, late, total = growth(body)
        %i[functions locations strings stacks sites].each { |table| expect([table, late[table]]).to match([table, be <= (early[table] + 40)]) }
        %i[frames classes threads raw_stacks raw_sites].each { |table| expect([table, late[table]]).to match([table, be < 6_000]) }
        expect(late[:memory]).to be < (early[:memory] * 2) + 1_000_000
        expect(late[:overflow_stacks]).to eq(0)
        expect(total).to be > 10_000
      end
    end

    it "go in pieces, between which the program goes on" do
      made, after_one, later = Child.value(<<~'RUBY')
        collector = Memprofiler::Collector.new(interval: 1).start
        lines = Array.new(100) { |line| "when #{line} then Object.new\n" }.join
        code = Array.new(120) { eval("proc { |line| case line\n#{lines}end }") }
        code.each { |block| 100.times { |line| block.call(line) } }
        made = collector.stats[:raw_stacks]
        code = nil
        GC.start
        after_one = collector.stats[:raw_stacks]
        5_000.times { Object.new }
        [made, after_one, collector.stats[:raw_stacks]]
      RUBY
      expect(made).to be > 12_000
      expect(after_one).to be_within(100).of(made)
      expect(later).to be < 2_000
    end

    it "stay bounded where no two stacks are alike, and what is beyond is one (overflow), counted" do
      stats, total, overflow, seen = Child.value(<<~RUBY)
        def walk(turns, depth)
          return Object.new if depth.zero?

          if turns.even?
            walk(turns >> 1, depth - 1)
          else
            walk(turns >> 1, depth - 1)
          end
        end
        walk(0, 1) && walk(1, 1)
        collector = Memprofiler::Collector.new(interval: 1).start
        before = GC.stat(:total_allocated_objects)
        400_000.times { |i| walk(i, 19) }
        growth = GC.stat(:total_allocated_objects) - before
        stats = collector.stats
        collector.stop
        profile = collector.flush
        overflow = profile.samples.select { |s| s.stack.map(&:function) == ["(overflow)"] }.sum { |s| s.values[:alloc_objects] }
        [stats, profile.total(:alloc_objects), overflow, growth - stats[:own_objects]]
      RUBY
      expect(total).to be_within(100).of(seen)
      expect(overflow).to be_within(200).of(stats[:overflow_stacks])
      expect(overflow).to be > 50_000
      expect(stats[:stacks]).to be <= 2**18
      expect(stats[:memory]).to be < 300_000_000
    end

    it "lose nothing of what was counted when their code dies" do
      counts = Child.value(<<~RUBY)
        collector = Memprofiler::Collector.new(interval: 1).start
        count = ->(profile) { profile.samples.sum { |s| s.stack.any? { |f| f.function.end_with?("#again") } ? s.values[:alloc_objects] : 0 } }
        counts = 4.times.map do
          1_000.times { eval("def again = [1]; again") }
          3.times { GC.start && Thread.pass }
          count.call(collector.flush)
        end
      RUBY
      expect(counts).to eq([1_000, 2_000, 3_000, 4_000])
    end
  end
end
