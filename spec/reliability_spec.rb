# frozen_string_literal: true

require "json"
require "objspace"
require "memprofiler/report"
require "memprofiler/report/json"
require "zlib"
require_relative "support/child"

# The table of faults that others met, and what of it no other spec shows.
RSpec.describe "docs/reliability.md" do
  root = File.expand_path("..", __dir__)
  rows = File.readlines(File.join(root, "docs/reliability.md"), chomp: true).grep(/\A\| /).map { |line| line.delete_prefix("| ").delete_suffix(" |").split(" | ") }

  # In a cell: `spec/a_spec.rb` "an example", "another one", `spec/core/test_b.c` "a function"
  examples = rows.flat_map do |cells|
    cells.fetch(2, "").split(%r{(?=`spec/)}).flat_map do |part|
      file = part[%r{\A`(spec/[^`]+)`}, 1]
      file ? part.scan(/"([^"]+)"/).flatten.map { |name| [file, name] } : []
    end
  end

  it "names examples that there are" do
    expect(examples.size).to be > 60
    missing = examples.uniq.reject do |file, name|
      path = File.join(root, file)
      texts = File.exist?(path) ? File.readlines(path).grep(/^\s*it[ (]|^static void /) : []
      texts.any? { |text| text.include?(name) }
    end
    expect(missing).to eq([])
  end

  it "has an example for each fault, or says that it's open" do
    faults = rows.reject { |cells| cells[0].match?(/\A(?:fault|---|\|)/) || cells.size < 3 }
    expect(faults.size).to be > 35
    expect(faults.reject { |_, why, shown| shown.include?("`spec/") || why.start_with?("**Open**") }).to eq([])
  end

  it "names files that there are, and links that are told" do
    text = File.read(File.join(root, "docs/reliability.md"))
    files = text.scan(%r{`((?:core|vm|lib|ext)/[\w/]+\.(?:[ch]|rb))`}).flatten.uniq.map { |file| file.match?(/\A(?:core|vm)/) ? "ext/memprofiler/#{file}" : file }
    expect(files.size).to be > 15
    expect(files.reject { |file| File.exist?(File.join(root, file)) }).to eq([])
    told = text.scan(/^\[([^\]]+)\]: https:/).flatten
    used = text.scan(/\[((?:[\w-]+ #|bug )\d+)\](?!:)/).flatten.uniq
    expect(told).to match_array(used)
  end
end

RSpec.describe Memprofiler, "faults that others had" do
  def sources(*patterns)
    Dir[*patterns.map { |pattern| File.expand_path("../ext/memprofiler/#{pattern}", __dir__) }].to_h { |path| [File.basename(path), File.read(path)] }
  end

  # Names and Ractors are asked for outside of hooks, the heap is walked by a flush.
  it "have hooks that call nothing which allocates, raises, or runs Ruby" do
    hooks = sources("vm/*.c", "core/*.c").except("naming.c", "ractors.c", "heap.c")
    expect(hooks.size).to be > 35
    illegal = /\b(?:rb_(?:e?raise|exc_raise|memory_id|obj_id|hash_\w+|funcall\w*|inspect|class_name|str_\w+|ary_\w+|mutex\w*|gc_start)|(?:ruby_)?x(?:m|c|re)alloc\w*|st_(?:insert|init|add)\w*|ALLOCV?(?:_N)?)\s*\(/
    expect(hooks.select { |_, text| text.match?(illegal) }.keys).to eq([])
    # A size is that of types which are told one by one; a name is interned at load.
    expect(hooks.select { |_, text| text.include?("rb_obj_memsize_of(") }.keys).to eq(["measure.c"])
    interning = hooks.flat_map { |_, text| text.scan(/^[a-z][^\n;]*\b(\w+)\([^;]*?\)\n\{\n(.*?)^\}/m) }.select { |_, body| body.include?("rb_intern") }
    expect(interning.map(&:first)).to all(end_with("_init"))
    expect(interning.size).to be >= 3
  end

  it "count an extension's objects, and classes, as their slots" do
    collector = Memprofiler::Collector.new(interval: 1).start
    kept = Array.new(50) { |i| [Random.new(i), Class.new { attr_reader :one }] }
    profile = collector.flush(labels: [:class], gc: true)
    collector.stop
    random, made = kept.first.map { |object| ObjectSpace.memsize_of(object) }
    expect(random).to be > 2_000 # the state of a Mersenne Twister
    rows = profile.top(:inuse_space, by: :class).to_h { |row| [row.name, row.flat] }
    expect(rows["Random"] / 50.0).to be_between(40, 160)
    expect(rows["Class"] / 100.0).to be < made # each may have a singleton class
  end

  it "refuse to start on a Ruby that crashes when it makes a class" do
    stub_const("Memprofiler::VMFaults::CLASSES_CRASH", true)
    collector = Memprofiler::Collector.new
    expect { collector.start }.to raise_error(Memprofiler::Error, /Ruby bug 19482\): use 3\.2\.3 or later/)
    expect(collector).not_to be_running
    expect { Memprofiler.profile { 1 } }.to raise_error(Memprofiler::Error, /Ruby bug 19482/)
  end

  # Only the development branch does it. Here a Ruby is told that it does.
  it "say where a just-in-time compiler makes objects past them" do
    child = Child.ruby(<<~RUBY)
      require "memprofiler/report"
      Memprofiler::VMFaults.send(:remove_const, :ZJIT_MAKES_OBJECTS)
      Memprofiler::VMFaults::ZJIT_MAKES_OBJECTS = true
      RubyVM.send(:remove_const, :ZJIT) if defined?(RubyVM::ZJIT)
      RubyVM::ZJIT = Struct.new(:on) { def enabled? = on }.new(false)
      profiles = [false, true, true].map do |on|
        RubyVM::ZJIT.on = on
        Memprofiler.profile(interval: 1) { Array.new(10) { +"x" } }
      end
      profiles.map { |profile| [profile.metadata[:jit], Memprofiler::Report.new(profile).head.lines.grep(/ZJIT/)] }
    RUBY
    missing = "ZJIT makes objects past any profiler, and those are missing"
    expect(child.value).to eq([[nil, []], [missing, ["note: #{missing}\n"]], [missing, ["note: #{missing}\n"]]])
    expect(child.err.scan(/^memprofiler: ZJIT of Ruby .*: run it without --zjit$/).size).to eq(1)
  end

  # As above, but that the program switches it on itself, with RubyVM::ZJIT.enable
  it "say so from the first flush on where that begins in the middle of a run" do
    child = Child.ruby(<<~RUBY)
      Memprofiler::VMFaults.send(:remove_const, :ZJIT_MAKES_OBJECTS)
      Memprofiler::VMFaults::ZJIT_MAKES_OBJECTS = true
      RubyVM.send(:remove_const, :ZJIT) if defined?(RubyVM::ZJIT)
      RubyVM::ZJIT = Struct.new(:on) { def enabled? = on }.new(false)
      collector = Memprofiler::Collector.new.start
      before = collector.flush
      RubyVM::ZJIT.on = true
      since = collector.send(:baseline)
      [before, collector.flush, collector.send(:flush_allocs, false), collector.send(:flush_since, since)[0], collector.flush].map { |profile| profile.metadata[:jit] }
    RUBY
    expect(child.value).to eq([nil, *["ZJIT makes objects past any profiler, and those are missing"] * 4])
    expect(child.err.scan(/^memprofiler: ZJIT of Ruby .*: run it without --zjit$/).size).to eq(1)
  end

  it "know the Rubies where it does by numbers" do
    versions = { "3.4.9" => false, "4.0.5" => false, "4.1.0" => true, "4.10.0" => true, "10.0.0" => true }
    known = versions.keys.map do |version|
      Child.value(<<~RUBY)
        Object.send(:remove_const, :RUBY_VERSION)
        RUBY_VERSION = #{version.dump}
        Memprofiler.send(:remove_const, :VMFaults)
        load $LOADED_FEATURES.find { |path| path.end_with?("/vm_faults.rb") }
        Memprofiler::VMFaults::ZJIT_MAKES_OBJECTS
      RUBY
    end
    expect(known).to eq(versions.values)
  end

  it "put nothing of what objects hold into a profile or report" do
    code = <<~RUBY
      require "memprofiler/report"
      require "memprofiler/report/json"
      require "memprofiler/rack"
      ENV["TOKEN"] = "hunter2-in-the-environment"
      Login = Struct.new(:user, :password)
      collector = Memprofiler::Collector.new(interval: 1).start
      held = Array.new(50) { |i| ["hunter2-in-a-string-\#{i}", :"hunter2-in-a-symbol-\#{i}", { "hunter2-in-a-key" => i }, Login.new("alice", +"hunter2-in-a-struct")] }
      held << (raise "hunter2-in-an-error" rescue $!) << /hunter2-in-a-pattern/ << Thread.new { Thread.current[:token] = "hunter2-in-a-thread" }.join
      profile = collector.flush(labels: %i[class age thread pid], gc: true)
      report = Memprofiler::Report.new(profile)
      app = Memprofiler::Rack::App.new(collector: collector, permit: ->(_) { true })
      page = ->(path) { app.call("REQUEST_METHOD" => "GET", "SCRIPT_NAME" => "", "PATH_INFO" => "/debug/pprof/" + path, "QUERY_STRING" => "debug=1").last.join }
      [profile.pprof_data, report.head + report.table(:inuse_space, by: :class),
       Memprofiler::Report::JSON.generate(profile, :inuse_space, by: :function, count: nil, files: []), *%w[top flamegraph heap].map(&page),
       collector.inspect + collector.stats.inspect + Memprofiler.status.inspect + profile.inspect, held.size.to_s]
    RUBY
    texts = Child.value(code)
    texts[0] = Zlib.gunzip(texts[0])
    expect(texts[1]).to include("Login")
    expect(texts.map { |text| text.b[/[^\0]{0,40}(?:hunter2|alice)[^\0]{0,40}/n] }).to eq([nil] * texts.size)
  end
end
