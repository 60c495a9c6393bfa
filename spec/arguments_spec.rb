# frozen_string_literal: true

require "memprofiler"
require "memprofiler/rake_task"
require "pathname"
require "memprofiler/auto/settings"
require_relative "support/profiles"

# Whoever is given something that isn't allowed: the same words, and an error by which a program can tell.
RSpec.describe Memprofiler::Arguments do
  wording = /\A[a-z][\w' \[\]]* must be \S.*, not \S.*\z/i
  push = { url: "http://127.0.0.1:1", app_name: "a" }
  task = ->(name, value) { Memprofiler::RakeTask.new { |made| made.public_send("#{name}=", value) } }
  profile = -> { Memprofiler::Profile.from_model({ sample_types: [%w[inuse_space bytes]], samples: [] }) }

  # Of each: one that is of no allowed class, one that is, and is not allowed all the same
  {
    "Collector.new" => [->(value) { Memprofiler::Collector.new(interval: value) }, "1", 0],
    "Profile.load" => [->(value) { Memprofiler::Profile.load(value) }, 1, ""],
    "Profile#top, by:" => [->(value) { profile.call.top(:inuse_space, by: value) }, "line", :lines],
    "Profile#top, n:" => [->(value) { profile.call.top(:inuse_space, n: value) }, 1.0, 0],
    "FileFlusher, every:" => [->(value) { Memprofiler::FileFlusher.new(dir: "x", every: value) }, "1", 0],
    "FileFlusher, keep:" => [->(value) { Memprofiler::FileFlusher.new(dir: "x", keep: value) }, nil, 0],
    "PyroscopeExporter, url:" => [->(value) { Memprofiler::PyroscopeExporter.new(**push, url: value) }, 1, "http://u:geheim@x?y"],
    "PyroscopeExporter, app_name:" => [->(value) { Memprofiler::PyroscopeExporter.new(**push, app_name: value) }, 1, "a b"],
    "PyroscopeExporter, tags:" => [->(value) { Memprofiler::PyroscopeExporter.new(**push, tags: { a: value }) }, [], "b,c"],
    "PyroscopeExporter, token:" => [->(value) { Memprofiler::PyroscopeExporter.new(**push, token: value) }, 1, "geheim geheim"],
    "PyroscopeExporter, username:" => [->(value) { Memprofiler::PyroscopeExporter.new(**push, username: value) }, 1, "geheim:"],
    "PyroscopeExporter, timeout:" => [->(value) { Memprofiler::PyroscopeExporter.new(**push, timeout: value) }, "1", 0],
    "Rack, path:" => [->(value) { Memprofiler::Rack::App.new(path: value) }, 1, "a"],
    "Rack, max_seconds:" => [->(value) { Memprofiler::Rack::App.new(max_seconds: value) }, "1", 0],
    "RakeTask, interval" => [->(value) { task["interval", value] }, "1", 0],
    "RakeTask, output" => [->(value) { task["output", value] }, 1, ""],
    "RakeTask, args" => [->(value) { task["args", value] }, "a", ["a\0"]],
    "RakeTask, name" => [->(value) { Memprofiler::RakeTask.new(value) }, nil, ""]
  }.each do |what, (call, other_class, other_value)|
    it "has one wording for #{what}" do
      { other_class => TypeError, other_value => ArgumentError }.each do |value, error|
        expect { call[value] }.to raise_error(error, wording) { |raised| expect(raised.message).not_to include("geheim") }
      end
    end
  end

  texts = {
    "Profile.load" => ->(value) { Memprofiler::Profile.load(value) },
    "Profile#write" => ->(value) { profile.call.write(value) },
    "Profile#top" => ->(value) { profile.call.top(:inuse_space, by: value) },
    "FileFlusher" => ->(value) { Memprofiler::FileFlusher.new(dir: value) },
    "PyroscopeExporter, app_name:" => ->(value) { Memprofiler::PyroscopeExporter.new(**push, app_name: value) },
    "PyroscopeExporter, url:" => ->(value) { Memprofiler::PyroscopeExporter.new(**push, url: value) },
    "PyroscopeExporter, tags: (names)" => ->(value) { Memprofiler::PyroscopeExporter.new(**push, tags: { value => 1 }) },
    "PyroscopeExporter, token:" => ->(value) { Memprofiler::PyroscopeExporter.new(**push, token: value) },
    "PyroscopeExporter, username:" => ->(value) { Memprofiler::PyroscopeExporter.new(**push, username: value, password: "x") },
    "Rack, path:" => ->(value) { Memprofiler::Rack.new(->(_) {}, path: value) },
    "RakeTask, output" => ->(value) { task["output", value] },
    "RakeTask, args" => ->(value) { task["args", [value]] },
    "RakeTask, name" => ->(value) { Memprofiler::RakeTask.new(value) }
  }
  texts.each do |what, call|
    it "refuses an encoding without ASCII, for #{what}" do
      %w[label:a /a a].each { |text| expect { call[text.encode("UTF-16LE")] }.to raise_error(ArgumentError, /\A[a-z].* must be .+, not .+\z/) }
    end
  end

  texts.reject { |what, _| what.match?(/Profile.load|write|FileFlusher|username|output|args|RakeTask/) }.each do |what, call|
    it "refuses what is no text in its encoding, for #{what}" do
      ["label:\xff", "/a\xff", "x\xff"].each { |text| expect { call[text] }.to raise_error(wording) { |raised| expect(raised).to be_a(ArgumentError).or(be_a(TypeError)) } }
    end
  end

  it "doesn't mind how many rows are wanted" do
    expect(Profiles.build(["a /a.rb:1"] => [1, 40, 1, 40]).top(:inuse_space, n: 2**64).map(&:flat)).to eq([40])
  end

  it "makes no service without its options" do
    [Memprofiler::FileFlusher, Memprofiler::PyroscopeExporter].each do |service|
      expect { service.allocate }.to raise_error(TypeError, "allocator undefined for #{service}")
    end
  end

  it "names the block that is missing" do
    [-> { Memprofiler.with_labels(a: 1) }, -> { Memprofiler.with_labels }].each { |call| expect(&call).to raise_error(ArgumentError, "Memprofiler.with_labels needs a block") }
    expect { Memprofiler.profile }.to raise_error(ArgumentError, "Memprofiler.profile needs a block")
  end

  it "has it for variables too" do
    variables = { "INTERVAL" => "0", "LIVENESS" => "x", "EVERY" => "0", "KEEP" => "0", "SIGNAL" => "KILL", "DIR" => "/dev/null/x" }
    complaints = Memprofiler::Auto::Settings.new(variables.transform_keys { |name| "MEMPROFILER_#{name}" }).complaints
    expect(complaints.size).to eq(variables.size)
    expect(complaints).to all(match(/\AMEMPROFILER_[A-Z]+ must be .+, not ".+": .+\z/))
  end

  it "takes plain decimal numbers only, of variables" do
    of = ->(name, text) { Memprofiler::Auto::Settings.new("MEMPROFILER_#{name}" => text) }
    slips = ["0x10", "0b1", "0o7", "0d9", "1_0", " 10", "10 ", "10\n", "+10", "1e1", "0x1p4", ".5", "5.", "x", "\xff"]
    %w[INTERVAL MAX_DEPTH MAX_SAMPLES TRACK_ONE_IN EVERY KEEP].product(slips) do |name, text|
      expect(of[name, text].complaints).to match([/\AMEMPROFILER_#{name} must be .+, not .+: .+\z/])
    end
    expect([of["EVERY", "010"], of["EVERY", "0.5"]].map(&:every)).to eq([10, 0.5])
    expect(of["INTERVAL", "512"].collector_options).to eq(interval: 512)
  end

  it "shows what was given, within limits, and never an object's own words" do
    long = described_class.shown("x" * 1000)
    expect([described_class.shown(:a), described_class.shown("a"), described_class.shown(Class.new { def inspect = raise }.new)])
      .to match([":a", '"a"', /\Aan instance of #<Class:/])
    expect(long.length).to be < 100
    expect { described_class.callable("c", 1, "a callable") }.to raise_error(TypeError, "c must be a callable, not 1")
    expect(described_class.callable("c", :a.method(:to_s), "a callable").call).to eq("a")
  end

  it "lets nothing by that is allowed otherwise than it came" do
    expect([described_class.number("n", 1r, 0.5..2), described_class.words("w", %w[a b]), described_class.boolean("b", false),
            described_class.path("p", Pathname("a b")), described_class.path("p", nil, optional: true)]).to eq([1r, %w[a b], false, "a b", nil])
  end
end
