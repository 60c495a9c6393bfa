# frozen_string_literal: true

require "tmpdir"
require_relative "support/child"
require_relative "support/go"

# What Go's pprof makes of our files. It refuses a profile with dangling numbers, and counts by itself.
RSpec.describe "go tool pprof" do
  METRICS = %i[alloc_objects alloc_space inuse_objects inuse_space].freeze

  # Makes two profiles of one run, one after the other, into its folder.
  PROGRAM = <<~'RUBY'
    class Shop
      def page(number)
        lines = Array.new(10) { |i| "line #{number} #{i}" }
        lines.join("\n")
      end

      def keep(number)
        (@kept ||= {})[number] = page(number)
      end

      def total
        (1..50).map { |i| (2**70) + i }.sum
      end
    end

    shop = Shop.new
    work = lambda do |from|
      100.times { |i| shop.keep(from + i) }
      Thread.new { shop.total }.tap { |thread| thread.name = "sums" }.join
      eval("[1].map { |x| [x] }", binding, "b\xFFd \"name\".rb", 3)
    end
    collector = Memprofiler::Collector.new(interval: 1).start
    work.call(0)
    first = collector.flush(labels: %i[class thread age], gc: true).pprof_data
    work.call(100)
    plain = collector.flush(gc: true).pprof_data
    second = collector.flush(labels: %i[class thread age]).pprof_data
    collector.stop
    [first, second, plain]
  RUBY

  # Once for all examples: each costs a second, and none changes it.
  before(:context) do
    next unless Go.available?

    @dir = Dir.mktmpdir
    @files = {}
    { "a" => Child.value(PROGRAM), "b" => Child.value(PROGRAM) }.each do |name, data|
      %w[first second plain].zip(data) do |state, bytes|
        path = @files["#{name}_#{state}"] = File.join(@dir, "#{name}_#{state}.pb.gz")
        File.binwrite(path, bytes)
      end
    end
    File.write(File.join(@dir, "program.rb"), PROGRAM)
  end

  after(:context) { FileUtils.rm_rf(@dir) if @dir }

  before { skip_or_fail Go::MISSING unless Go.available? }

  def pprof(...) = Go.pprof(...).force_encoding("UTF-8")

  def profile(name = "a_second") = Memprofiler::Profile.load(@files[name])

  # [[values, stack as location numbers, labels]], and { number => [address, name, file, line] }
  def raw(name)
    out = pprof("-raw", @files[name])
    samples, locations = out.split(/^Samples:\n/).last.split(/^Locations\n/)
    places = locations.split(/^Mappings\n/).first.scan(/^ +(\d+): (0x\h+) M=1 (.*?) ([^ ].*?|):(\d+)(?::\d+)? s=\d+/)
    [out, samples, places.to_h { |number, *place| [number, place] }]
  end

  it "reads head, types and comments with -raw, and adds up to the same totals" do
    out, samples, places = raw("a_second")
    expect(out).to include("PeriodType: objects count\nPeriod: 1\n", "Comment: memprofiler: ", "Comment: interval: 1\n")
    expect(samples.lines.first.split).to eq(["alloc_objects/count", "alloc_space/bytes", "inuse_objects/count", "inuse_space/bytes[dflt]"])
    sums = samples.scan(/^ +(-?\d+) +(-?\d+) +(-?\d+) +(-?\d+): /).map { |row| row.map(&:to_i) }.transpose.map(&:sum)
    expect(sums).to eq(METRICS.map { |metric| profile.total(metric) })
    expect(places.size).to eq(profile.model[:locations].size)
    expect(samples.scan(/: ((?:\d+ )+)/).flatten.flat_map(&:split).uniq - places.keys).to eq([])
  end

  it "says the same as we do with -top, for each metric" do
    METRICS.each do |metric|
      out = pprof("-top", "-nodecount=1000", "-nodefraction=0", "-unit=#{metric.end_with?("space") ? "B" : "count"}",
                  "-sample_index=#{metric}", @files["a_second"])
      expect(out).to include("Type: #{metric}")
      theirs = out.scan(/^ *(-?\d+)(?:B)? +\S+% +\S+% +(-?\d+)(?:B)? +\S+% +(.*?)$/).to_h { |flat, all, name| [name.strip, [flat.to_i, all.to_i]] }
      mine = profile.samples.group_by { |sample| sample.stack.first.function }
                    .transform_values { |samples| samples.sum { |sample| sample.values[metric] } }.reject { |_, value| value.zero? }
      mine.each { |name, value| expect([name, theirs[name]&.first]).to eq([name, value]) }
    end
  end

  it "calls the file by the program's name, as it was at the start, and tells differences and sums of workers by nothing else" do
    titled = PROGRAM.sub("work.call(100)", "$0 = 'puma: worker 0 [x]'; work.call(100)").sub(/^\[first.*/, "%w[one two].zip([first, second]) { |name, bytes| File.binwrite(name, bytes) }")
    File.write("#{@dir}/my app.rb", "require 'memprofiler'\n#{titled}")
    system(RbConfig.ruby, "--disable-gems", *Child::LOAD_PATH.flat_map { |folder| ["-I", folder] }, "my app.rb", chdir: @dir, exception: true)
    tops = [["#{@dir}/one"], ["-diff_base=#{@dir}/one", "#{@dir}/two"], ["#{@dir}/one", "#{@dir}/two"]].map { |words| pprof("-top", "-sample_index=alloc_objects", *words) }
    expect(tops).to all(start_with("File: my_app.rb\n"))
    expect(pprof("-top", @files["a_second"])).to start_with("File: ruby\n") # -e has no name
    # That file is no binary: nobody tries to find names in it, and the source is found by its own path.
    out, err, = Open3.capture3({ "GO111MODULE" => "off" }, "go", "tool", "pprof", "-list=Shop#page", "-sample_index=alloc_objects", "#{@dir}/two")
    expect([out, err]).to match([%r{^ROUTINE =+ Shop#page in .*/my app\.rb$.*^ +\d\S* +\S+ +4: +lines = Array\.new}m, /\A(?!.*symboliz)/mi])
    expect(pprof("-raw", "#{@dir}/one")[/^Mappings\n.*/m].scan("my_app.rb").size).to eq(1)
  end

  it "names functions in -peek, with their callers" do
    out = pprof("-peek=Shop#page$", "-sample_index=alloc_objects", @files["a_second"])
    expect(out).to match(/\d+ +100% \| +Shop#keep\n(?:.*\| +.*\n)*? +\d+ .*\| Shop#page\n(?:.*\| +.*\n)*?.*\| +Array#join\n/)
  end

  it "annotates source lines with -list" do
    out = pprof("-list=Shop#page", "-sample_index=alloc_objects", "-source_path=#{@dir}", "-trim_path=/", @files["a_second"])
    expect(out).to match(/^ROUTINE =+ Shop#page in /)
    expect(out).to match(/ 3: +lines = Array\.new\(10\) \{ \|i\| "line #\{number\} #\{i\}" \}/)
    counts = out.scan(/^ +(\.|\d+) +(\.|\d+(?:\.\d+k)?) +(3|4): /).to_h { |_, all, line| [line, all] }
    expect(counts["4"].to_i).to be_between(200, 420) # two hundred joins
  end

  it "sums labels up with -tags" do
    out = pprof("-tags", "-sample_index=alloc_objects", @files["a_second"])
    expect(out).to match(/^ *class: Total /)
    expect(out).to match(/^ *thread: Total /)
    expect(out).to match(/: String$/).and match(/: sums$/).and match(/: main$/).and match(/: Integer$/)
    expect(pprof("-tags", "-sample_index=inuse_objects", @files["a_second"])).to match(/^ *age: Total /).and match(/%\): [123]\b/)
    strings = pprof("-top", "-tagfocus=class=^String$", "-sample_index=alloc_objects", @files["a_second"])[/accounting for (\d+)/, 1].to_i
    expect(strings).to be >= 2_200
  end

  it "prints every stack with -traces, root last" do
    out = pprof("-traces", "-sample_index=alloc_objects", @files["a_plain"])
    traces = out.split(/^-+\+-+\n/).drop(1).map { |trace| trace.lines.map { |line| line[/\S.*/].to_s.sub(/\A\d+(?:\.\d+k)? +/, "").strip } }
    expect(traces).to include(include("Shop#page", "Shop#keep", "<main>"))
    stacks = traces.map { |trace| trace.reject(&:empty?) }.reject(&:empty?)
    expect(stacks.map(&:last).uniq - ["<main>", "<compiled>"]).to all(match(/\Ablock .*in <main>\z/))
    expect(out).to be_valid_encoding
  end

  it "finds the same addresses in each flush and each process" do
    first, second, other = %w[a_first a_second b_second].map { |name| raw(name).last.values.to_h { |address, *place| [place, address] } }
    expect(second).to include(first)
    expect(other).to eq(second)
  end

  it "subtracts an earlier flush: what is left is what came in between" do
    out = pprof("-top", "-nodecount=1000", "-nodefraction=0", "-sample_index=alloc_objects", "-base=#{@files["a_first"]}", @files["a_second"])
    difference = profile.total(:alloc_objects) - profile("a_first").total(:alloc_objects)
    expect(out[/Showing nodes accounting for (\d+)/, 1].to_i).to eq(difference)
    expect(out).not_to match(/^ *-/)
  end

  it "merges profiles of two processes" do
    out = pprof("-top", "-nodecount=1000", "-nodefraction=0", "-sample_index=alloc_objects", @files["a_second"], @files["b_second"])
    sum = profile.total(:alloc_objects) + profile("b_second").total(:alloc_objects)
    expect(out[/Showing nodes accounting for (\d+)/, 1].to_i).to eq(sum)
  end

  it "writes a profile that we read" do
    path = File.join(@dir, "again.pb.gz")
    pprof("-proto", "-output=#{path}", @files["a_second"], @files["b_second"])
    again = Memprofiler::Profile.load(path)
    METRICS.each { |metric| expect(again.total(metric)).to eq(profile.total(metric) + profile("b_second").total(metric)) }
    expect(again.period).to eq(1)
  end
end
