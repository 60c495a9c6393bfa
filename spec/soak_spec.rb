# frozen_string_literal: true

require "open3"
require "rbconfig"
require_relative "soak/bounds"
require_relative "support/child"

# The short form of `rake soak`; what is claimed of each scenario is in soak/verdict.rb.
RSpec.describe "The soak", if: File.exist?("/proc/self/statm") do
  # A sanitizer keeps what was freed.
  it "finds the profiler's memory bounded, told and explained", unless: ENV["MEMPROFILER_ASAN"] == "1" do
    load_path = Child::LOAD_PATH.flat_map { |folder| ["-I", folder] }
    output, status = Open3.capture2e(RbConfig.ruby, "--disable-gems", *load_path, File.join(__dir__, "soak/run.rb"), "--seconds", "8")
    expect(status).to be_success, output
    expect(output).to match(/14 scenarios, 0 failed/)
  end

  it "goes by the caps that docs/memory.md gives" do
    text = File.read(File.expand_path("../docs/memory.md", __dir__))
    Soak::Bounds::TABLES.each do |table, (items, bytes)|
      row = text[/^\|[^|]*`#{table}`[^|]*\|([^|]*\|[^|]*)\|/, 1].to_s
      expect([table, row.delete(",").scan(/\d+/).map(&:to_i)]).to eq([table, [items, bytes]])
    end
  end

  describe "of names without end" do
    # 32 MB of them: at most 1 kB of each is kept.
    def full(rest)
      Child.value(<<~RUBY)
        require "memprofiler/report"
        collector = Memprofiler::Collector.new(interval: 1).start
        long = "x" * 1_010
        18_000.times do |i|
          eval("def self.m\#{i}\#{long} = [1]; m\#{i}\#{long}; singleton_class.remove_method(:m\#{i}\#{long})", binding, "/f\#{i}\#{long}.rb")
          GC.start if i % 2_000 == 1_999
        end
        #{rest}
      RUBY
    end

    it "a profile can be had all the same, with what found no room in (overflow), counted, and told in the report" do
      rows, stats, total, report = full(<<~RUBY)
        GC.start
        Memprofiler.with_labels(job: "late") { [1] }
        profile = collector.flush(labels: %i[class pid age])
        stats = collector.stats
        rows = profile.top(:alloc_objects, by: :function).to_h { |row| [row.name, row.cumulative] }
        later = collector.flush.top(:alloc_objects, by: "label:job").map(&:name)
        [[rows["(overflow)"], later], stats, profile.total(:alloc_objects), Memprofiler::Report.new(profile).head]
      RUBY
      overflow, jobs = rows
      expect(jobs).to include("late")
      expect(overflow).to be > 1_000
      expect(stats[:overflow_stacks]).to be_between(overflow, overflow + 100)
      expect(total).to be > 18_000
      expect(stats[:memory]).to be < Soak::Bounds.memory(depth: 512, living: stats[:live_samples])
      expect(report).to match(/^note: samples that found no room.*\d/)
    end
  end
end
