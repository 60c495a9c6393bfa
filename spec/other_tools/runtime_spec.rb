# frozen_string_literal: true

require "rbconfig"
require_relative "../support/other_tools"

# What lies below or round a program: its allocator, its compiler, its loader, and another copy of upb.
RSpec.describe Memprofiler::Collector, "beside" do
  def rounds(...)
    OtherTools.rounds(...)
  end

  # An allocator that the whole process uses, our tables included; threads, each with an arena.
  ALLOCATOR = <<~RUBY
    def tool_start = nil
    $middle = -> { Array.new(4) { Thread.new { 500.times { "x" * 1000 } } }.each(&:join) }
    def tool_stop = File.read("/proc/self/maps")[/jemalloc/].inspect + ENV["MALLOC_ARENA_MAX"].inspect
  RUBY

  # (no_asan: whose runtime has to be the first that is preloaded.)
  it "jemalloc, preloaded", :no_asan, if: File.exist?("/proc/self/maps") do
    found = Dir["/usr/lib/*/libjemalloc.so.2"].first
    skip_or_fail "needs jemalloc (Debian: libjemalloc2)" unless found
    answer = rounds(ALLOCATOR, env: { "LD_PRELOAD" => found })
    expect(answer.first).to eq('"jemalloc"nil')
    expect(answer).to be_true_beside_us
  end

  it "glibc's malloc with one arena", if: File.exist?("/proc/self/maps") do
    answer = rounds(ALLOCATOR, env: { "MALLOC_ARENA_MAX" => "1" })
    expect(answer.first).to eq('nil"1"')
    expect(answer).to be_true_beside_us
  end

  describe "a compiler:" do
    COMPILED = <<~RUBY
      def hot(i) = [i, i.to_s, Kept2.new]
      Kept2 = Class.new
      def tool_start = nil
      $middle = -> { 3_000.times { |i| hot(i) } }
      def tool_stop = nil
    RUBY
    {
      YJIT: %w[--yjit --yjit-call-threshold=5],
      MJIT: %w[--disable-gems --mjit --mjit-wait --mjit-min-calls=2000], # a C compiler's run for each method
      RJIT: %w[--rjit --rjit-call-threshold=1500], # written in Ruby; it keeps its own objects from all hooks
      ZJIT: %w[--zjit --zjit-call-threshold=5]
    }.each do |name, options|
      it "#{name}: what compiled code allocates is counted", if: defined?(RubyVM) && RubyVM.const_defined?(name) do
        answer = OtherTools.value("#{COMPILED}\n[RubyVM::#{name}.enabled?, rounds]", options: options)
        expect(answer.first).to be(true)
        expect(answer.last).to be_true_beside_us(unseen: name == :RJIT)
      end
    end
  end

  describe "bootsnap" do
    # The first process fills the cache, the second one loads from it.
    it "with iseqs and load paths cached: lines and counts are right" do
      Dir.mktmpdir do |dir|
        File.write(File.join(dir, "cached.rb"), "# frozen_string_literal: true\n\ndef cached(count)\n  Array.new(count) { Object.new }\nend\n")
        program = <<~RUBY
          require "bootsnap"
          collector = Memprofiler::Collector.new(interval: 1)
          collector.start if ENV["FIRST"] == "us"
          Bootsnap.setup(cache_dir: "#{dir}/cache", development_mode: false, load_path_cache: true, compile_cache_iseq: true, compile_cache_yaml: false)
          hits = []
          Bootsnap.instrumentation = ->(event, path) { hits << event if path.end_with?("cached.rb") }
          collector.start unless ENV["FIRST"] == "us"
          $LOAD_PATH.unshift("#{dir}")
          require "cached"
          kept = cached(300)
          profile = collector.flush(gc: true, labels: [:class])
          rows = profile.samples.select { |s| s.labels["class"] == "Object" && s.stack.any? { |f| f.file.end_with?("cached.rb") } }
          [hits, kept.size, rows.map { |s| [s.stack.find { |f| f.file.end_with?("cached.rb") }.line, s.values[:alloc_objects], s.values[:inuse_objects]] },
           collector.stats.values_at(:unseen_objects, :lost_collections), [rounds_nothing, rounds].last]
        RUBY
        nothing = "def tool_start = nil\ndef tool_stop = nil\ndef rounds_nothing = nil\n"
        answers = %w[us tool].product([1, 2]).map do |first, _|
          OtherTools.value(nothing + program, gems: %w[bootsnap], options: ["--enable=gems"], env: { "FIRST" => first })
        end
        expect(answers.map(&:first)).to eq([[:miss], [:hit], [:hit], [:hit]])
        answers.each do |_, kept, rows, troubles, results|
          expect([kept, rows, troubles]).to eq([300, [[4, 300, 300]], [0, 0]])
          expect(results).to be_true_beside_us
        end
      end
    end
  end

  describe "zeitwerk" do
    it "loading lazily, eagerly and again: names, lines and counts are right" do
      answer = rounds(<<~'RUBY', gems: %w[zeitwerk], options: ["--enable=gems"])
        require "zeitwerk"
        require "fileutils"
        FileUtils.mkdir_p("app/shop")
        File.write("app/shop.rb", "module Shop\n  def self.items(n) = Array.new(n) { Item.new }\nend\n")
        File.write("app/shop/item.rb", "class Shop::Item\nend\n")
        File.write("app/shop/unused.rb", "class Shop::Unused\n  HELD = Array.new(10) { Object.new }\nend\n")
        LOADER = Zeitwerk::Loader.new
        LOADER.push_dir("app")
        LOADER.enable_reloading
        LOADER.setup
        def tool_start = $items = Shop.items(50)
        $middle = lambda do
          LOADER.eager_load
          3.times { LOADER.reload }
          LOADER.eager_load
          $again = Shop.items(70)
        end
        def tool_stop = [$items.size, $again.size, Shop::Item.name, Shop::Unused::HELD.size, $items.first.is_a?(Shop::Item)]
      RUBY
      expect(answer.first).to eq([50, 70, "Shop::Item", 10, false])
      expect(answer).to be_true_beside_us
    end

    it "classes of both lives count under one name" do
      counts = OtherTools.value(<<~'RUBY', gems: %w[zeitwerk], options: ["--enable=gems"])
        require "zeitwerk"
        Dir.mkdir("app")
        File.write("app/item.rb", "class Item\n  def self.some(n) = Array.new(n) { new }\nend\n")
        loader = Zeitwerk::Loader.new
        loader.push_dir("app")
        loader.enable_reloading
        loader.setup
        %i[mark free].map do |liveness|
          collector = Memprofiler::Collector.new(interval: 1, liveness: liveness).start
          held = Array.new(5) { Item.some(40).tap { loader.reload } }
          gone = Item.some(33) && nil
          clear_stack
          profile = collector.flush(labels: [:class], gc: true)
          collector.stop
          row = profile.top(:inuse_objects, by: :class).find { |r| r.name == "Item" }
          lines = profile.samples.select { |s| s.labels["class"] == "Item" }.map { |s| s.stack.find { |f| f.file.end_with?("item.rb") }.line }
          [row.flat, lines.uniq, held.size, gone]
        end
      RUBY
      counts.each do |alive, lines, *|
        expect(alive).to be_between(200, 203)
        expect(lines).to eq([2])
      end
    end
  end

  describe "google-protobuf" do
    MESSAGES = <<~RUBY
      def encode
        message = Google::Protobuf::Struct.new(fields: {
          "name" => Google::Protobuf::Value.new(string_value: "shop"), "count" => Google::Protobuf::Value.new(number_value: 42)
        })
        bytes = Google::Protobuf::Struct.encode(message)
        back = Google::Protobuf::Struct.decode(bytes)
        [bytes.bytesize, back.fields["name"].string_value, back.fields["count"].number_value, Google::Protobuf::Timestamp.encode(Google::Protobuf::Timestamp.new(seconds: 7)).bytes]
      end
      def use_protobuf
        require "google/protobuf/struct_pb"
        require "google/protobuf/timestamp_pb"
        encode
      end
    RUBY

    it "loaded after us: both encode and decode" do
      answer = rounds(<<~RUBY, gems: %w[google-protobuf], options: ["--enable=gems"])
        #{MESSAGES}
        use_protobuf
        def tool_start = ($before = encode)
        $middle = -> { GC.start; encode }
        def tool_stop = [$before, encode, Memprofiler::Profile.new(Memprofiler.profile(interval: 1) { encode }.pprof_data).total(:alloc_objects) > 20]
      RUBY
      bytes = [30, "shop", 42.0, [8, 7]]
      expect(answer.first[0].drop(1)).to eq(bytes.drop(1))
      expect(answer.first).to eq([answer.first[0], answer.first[0], true])
      expect(answer).to be_true_beside_us
    end

    it "loaded before us: both encode and decode, and the profile reads with theirs" do
      options = ["-I", *OtherTools.load_path(%w[google-protobuf]).join(" -I ").split, "--enable=gems"]
      Dir.mktmpdir do |dir|
        File.write(File.join(dir, "first.rb"), "#{MESSAGES}\n$first = use_protobuf\n")
        answer = OtherTools.value(<<~RUBY, options: [*options, "-r", File.join(dir, "first.rb")])
          profile = Memprofiler.profile(interval: 1) { made(50) }
          again = Memprofiler::Profile.new(profile.pprof_data)
          [$first == encode, $LOADED_FEATURES.index { |f| f.include?("protobuf_c") } < $LOADED_FEATURES.index { |f| f.include?("memprofiler.so") },
           again.total(:alloc_objects) == profile.total(:alloc_objects), again.top(:alloc_objects, by: :line).first.flat]
        RUBY
        expect(answer.first(3)).to eq([true] * 3)
        expect(answer.last).to be_between(51, 60)
      end
    end

    it "finds nothing of ours to bind to" do
      library = $LOADED_FEATURES.find { |feature| feature.end_with?("memprofiler/memprofiler.#{RbConfig::CONFIG["DLEXT"]}") }
      names = IO.popen(["nm", "-D", "--defined-only", library], &:read).lines.map { |line| line.split.last }
      expect(names - ["ruby_abi_version"]).to eq(["Init_memprofiler"])
    end
  end
end
