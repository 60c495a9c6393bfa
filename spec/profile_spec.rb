# frozen_string_literal: true

require "tmpdir"
require "pathname"
require "zlib"
require_relative "support/child"
require_relative "support/profiles"

RSpec.describe Memprofiler::Profile do
  def rows(...) = Profiles.rows(...)

  let(:profile) { Profiles.build({ ["a /a.rb:1"] => [3, 120, 1, 40] }, comments: { pid: 7 }, time: 1_700_000_000_000_000_000) }

  around { |example| Dir.mktmpdir { |dir| (@dir = dir) && example.run } }

  def path(name = "heap.pb.gz") = File.join(@dir, name)

  it "answers as well when it is frozen, or shared with other Ractors" do
    loaded = -> { described_class.new(profile.pprof_data) }
    made = -> { described_class.from_model(profile.model) }
    [loaded, made].each do |make|
      [make.call.freeze, Ractor.make_shareable(make.call)].each do |frozen|
        expect(frozen).to be_frozen
        2.times do
          expect(frozen.total(:alloc_space)).to eq(profile.total(:alloc_space))
          expect(frozen.top(:alloc_space)).to eq(profile.top(:alloc_space))
          expect(frozen.samples).to eq(profile.samples)
          expect(frozen.metadata).to eq(profile.metadata)
          expect(described_class.new(frozen.pprof_data).model).to eq(profile.model)
        end
        expect((frozen - make.call).total(:alloc_space)).to eq(0)
      end
    end
    answer = Child.value(<<~RUBY)
      profile = Ractor.make_shareable(Memprofiler.profile(interval: 1, labels: [:class]) { Array.new(100) { Object.new } })
      ractor = Ractor.new(profile) { |shared| [shared.total(:alloc_objects), *%i[line gem class].map { |by| shared.top(:alloc_space, by: by).size }, shared.metadata.size] }
      [ractor.respond_to?(:value) ? ractor.value : ractor.take, [profile.total(:alloc_objects), *%i[line gem class].map { |by| profile.top(:alloc_space, by: by).size }, profile.metadata.size]]
    RUBY
    expect(answer.first).to eq(answer.last)
    expect { described_class.new("\x1f\x8bdamaged".b).freeze }.to raise_error(Memprofiler::DecodeError)
  end

  describe "what it tells" do
    it "totals, metrics, period and time" do
      expect(profile.total(:alloc_space)).to eq(120)
      expect(profile.total(:inuse_objects)).to eq(1)
      expect(profile.sample_types)
        .to eq(alloc_objects: "count", alloc_space: "bytes", inuse_objects: "count", inuse_space: "bytes")
      expect(profile.period).to eq(1)
      expect(profile.time).to eq(Time.at(1_700_000_000))
      expect(Profiles.build.time).to be_nil
    end

    it "comments as metadata" do
      profile = Profiles.build({}, comments: { interval: 512, ruby: "3.1.2 x86_64-linux: own build" })
      profile = described_class.from_model(profile.model.merge(comments: [*profile.comments, "made by hand"]))
      expect(profile.metadata).to eq(interval: 512, ruby: "3.1.2 x86_64-linux: own build")
      expect(profile.comments.last).to eq("made by hand")
    end

    it "comments that pprof doesn't print as metadata too" do
      one = Profiles.build({}, comments: { "memprofiler" => "0.1.0", "# pid" => 7, "# samples" => 3, "dropped_samples" => 1 })
      expect(one.metadata).to eq(memprofiler: "0.1.0", pid: 7, samples: 3, dropped_samples: 1)
      sum = one + Profiles.build({}, comments: { memprofiler: "0.1.0", pid: 8, samples: 4 })
      expect(sum.metadata).to eq(memprofiler: "0.1.0", pid: "7, 8", samples: 7, dropped_samples: 1, processes: 2)
      expect(sum.comments.grep_v(/\A#/)).to eq(["memprofiler: 0.1.0", "dropped_samples: 1", "processes: 2"])
    end

    it "samples with their stacks" do
      profile = Profiles.build(["String#dup", "a /a.rb:5", { "class" => "String", "age" => [3, "collections"] }] => [3, 120, 1, 40])
      sample = profile.samples.first
      expect(sample.stack.map(&:to_a)).to eq([["String#dup", "", 0], ["a", "/a.rb", 5]])
      expect(sample.values).to eq(alloc_objects: 3, alloc_space: 120, inuse_objects: 1, inuse_space: 40)
      expect(sample.labels).to eq("class" => "String", "age" => [3, "collections"])
    end

    it "labels that samples have" do
      expect(profile.labels).to eq([])
      labels = { "class" => "String", "age" => [3, "collections"] }
      expect(Profiles.build(["a /a.rb:5"] => [3, 120, 1, 40], ["a /a.rb:5", labels] => [3, 120, 1, 40]).labels).to eq(%i[class age])
    end

    it "little of its bytes when inspected" do
      profile.pprof_data
      expect(profile.inspect).to match(/\A#<Memprofiler::Profile \(\d+ bytes of pprof\)>\z/)
    end
  end

  describe "files" do
    it "reads what it has written" do
      profile.write(path)
      loaded = described_class.load(Pathname(path))
      expect(rows(loaded)).to eq([["/a.rb:1", 3, 3]])
      expect(loaded.metadata).to eq(pid: 7)
      expect(loaded.pprof_data).to eq(File.binread(path))
    end

    it "writes gzipped bytes and gives itself back" do
      expect(profile.write(path)).to be(profile)
      expect(Zlib.gunzip(File.binread(path))).to include("/a.rb")
    end

    it "reads a profile that isn't gzipped" do
      File.binwrite(path, Zlib.gunzip(profile.pprof_data))
      expect(described_class.load(path).total(:alloc_space)).to eq(120)
    end

    it "lets only their owner read them, whatever the umask" do
      [0o000, 0o777].each_with_index do |mask, i|
        before = File.umask(mask)
        profile.write(path("heap#{i}"))
        expect(File.stat(path("heap#{i}")).mode & 0o777).to eq(0o600)
      ensure
        File.umask(before)
      end
    end

    it "may be written by a signal handler" do
      total = Child.value(<<~RUBY)
        collector = Memprofiler::Collector.new(interval: 1).start
        held = Array.new(1_000) { Object.new }
        written = nil
        trap(:USR1) { written = collector.flush.write("heap.pb.gz") }
        Process.kill(:USR1, Process.pid)
        Thread.pass until written
        collector.stop
        [Memprofiler::Profile.load("heap.pb.gz").total(:alloc_objects), held].first
      RUBY
      expect(total).to be >= 1_000
    end

    it "writes bytes, whatever the program transcodes" do
      internal = [Encoding.default_internal, $VERBOSE]
      $VERBOSE = nil
      Encoding.default_internal = Encoding::UTF_16LE
      profile.write(path)
      expect(File.binread(path)).to eq(profile.pprof_data)
    ensure
      Encoding.default_internal, $VERBOSE = internal
    end

    it "never replaces what is there, and leaves nothing else behind" do
      File.write(path, "mine")
      File.symlink("/nowhere", path("link"))
      [path, path("link")].each do |taken|
        expect { profile.write(taken) }.to raise_error(Memprofiler::WriteError, "#{taken}: a file is there already, and is never replaced")
      end
      expect(File.read(path)).to eq("mine")
      expect(Dir.children(@dir)).to contain_exactly("heap.pb.gz", "link")
    end

    it "has one winner of many that write to one name" do
      results = Array.new(8) do
        Thread.new do
          profile.write(path)
        rescue Memprofiler::WriteError
          nil
        end
      end.map(&:value)
      expect(results.compact.size).to eq(1)
      expect(Dir.children(@dir)).to eq(["heap.pb.gz"])
    end

    it "writes where there are no links, and replaces nothing there either" do
      allow(File).to receive(:link).and_raise(Errno::EPERM)
      profile.write(path)
      expect(described_class.load(path).total(:alloc_space)).to eq(120)
      expect { profile.write(path) }.to raise_error(Memprofiler::WriteError, /a file is there already/)
      expect(Dir.children(@dir)).to eq(["heap.pb.gz"])
    end

    it "names the path and why when it can't write" do
      expect { profile.write(path("none/heap")) }
        .to raise_error(Memprofiler::WriteError, "#{path("none/heap")}: No such file or directory")
    end

    it "leaves nothing behind when it can't be finished" do
      allow(File).to receive(:link).and_raise(Errno::ENOSPC)
      expect { profile.write(path) }.to raise_error(Memprofiler::WriteError, /No space left/)
      expect(Dir.children(@dir)).to be_empty
    end

    it "takes only paths" do
      expect { profile.write(nil) }.to raise_error(TypeError, "path must be a String or a Pathname that isn't empty and has no NUL, not nil")
      expect { profile.write("") }.to raise_error(ArgumentError, "path must be a String or a Pathname that isn't empty and has no NUL, not \"\"")
      expect { described_class.load("a\0b") }.to raise_error(ArgumentError, "path must be a String or a Pathname that isn't empty and has no NUL, not \"a\\u0000b\"")
      expect { described_class.load([]) }.to raise_error(TypeError, "path must be a String or a Pathname that isn't empty and has no NUL, not an instance of Array")
    end

    it "says that a folder has the name" do
      expect { profile.write(@dir) }.to raise_error(Memprofiler::WriteError, "#{@dir}: a folder is there already, and is never replaced")
    end
  end

  describe "bad files" do
    def refuse(bytes, why)
      File.binwrite(path, bytes)
      expect { described_class.load(path) }.to raise_error(Memprofiler::DecodeError, why)
    end

    it "says that one isn't there, or a folder" do
      expect { described_class.load(path) }.to raise_error(Memprofiler::ReadError, "#{path}: No such file or directory")
      expect { described_class.load(@dir) }.to raise_error(Memprofiler::ReadError, "#{@dir}: Is a directory")
    end

    it("says that one is empty") { refuse("", /\A#{Regexp.escape(path)}: .*empty/) }
    it("says that one is no profile") { refuse("hello, world\n" * 9, /\A#{Regexp.escape(path)}: .*not .*profile/) }
    it("says that one is cut short") { refuse(profile.pprof_data[0...-12], /\A#{Regexp.escape(path)}: .*cut short/) }

    it "takes no bytes that are no profile, and notices damage to gzipped ones when they are first needed" do
      ["", "junk", "\x1F"].each { |bytes| expect { described_class.new(bytes) }.to raise_error(Memprofiler::DecodeError) }
      bad = described_class.new(profile.pprof_data[0...-12])
      expect(bad.pprof_data.bytesize).to eq(profile.pprof_data.bytesize - 12)
      expect { bad.total(:alloc_space) }.to raise_error(Memprofiler::DecodeError, /cut short/)
    end

    it "takes bytes that aren't gzipped, of any encoding" do
      bytes = Zlib.gunzip(profile.pprof_data)
      expect(described_class.new(bytes.force_encoding("UTF-8")).total(:alloc_space)).to eq(120)
    end

    it("takes only bytes") { expect { described_class.new(nil) }.to raise_error(TypeError, "pprof_data must be a String, not nil") }
  end

  describe "+" do
    it "adds values up, whatever the numbers of functions and locations" do
      one = Profiles.build(["a /a.rb:1", "m /m.rb:9"] => [1, 40, 1, 40], ["b /b.rb:2"] => [2, 80, 0, 0])
      other = Profiles.build(["c /c.rb:3"] => [4, 160, 4, 160], ["a /a.rb:1", "m /m.rb:9"] => [8, 320, 0, 0])
      expect(rows(one + other)).to eq([["/a.rb:1", 9, 9], ["/c.rb:3", 4, 4], ["/b.rb:2", 2, 2], ["/m.rb:9", 0, 9]])
      expect((one + other).samples.size).to eq(3)
    end

    it "keeps what labels tell apart" do
      one = Profiles.build(["a /a.rb:1", { "class" => "String" }] => [1, 40, 0, 0])
      other = Profiles.build(["a /a.rb:1", { "class" => "Hash" }] => [2, 80, 0, 0])
      expect(rows(one + other, by: :class)).to eq([["Hash", 2, 2], ["String", 1, 1]])
    end

    it "adds counts of the metadata up and keeps the rest" do
      one = Profiles.build({}, comments: { ruby: "3.1.2", pid: 1, interval: 64, samples: 10, dropped_samples: 1 })
      other = Profiles.build({}, comments: { ruby: "3.1.2", pid: 2, interval: 64, samples: 30 })
      third = Profiles.build({}, comments: { ruby: "3.1.2", pid: 3, interval: 512, samples: 2 })
      expect((one + other).metadata)
        .to eq(ruby: "3.1.2", pid: "1, 2", interval: 64, samples: 40, dropped_samples: 1, processes: 2)
      expect((one + other + third).metadata).to include(pid: "1, 2, 3", interval: 512, intervals: "64, 512", processes: 3)
    end

    it "keeps what one part alone says of problems, but not of the whole" do
      one = Profiles.build({}, comments: { interval: 64, samples: 10, live_samples: 5, heap_live_slots: 900, hooks_rearmed: 1 })
      other = Profiles.build({}, comments: { interval: 64, samples: 7, lost_samples: 3 })
      expect((one + other).metadata).to eq(interval: 64, samples: 17, hooks_rearmed: 1, lost_samples: 3, processes: 2)
      expect((other + one).metadata).to eq((one + other).metadata)
      expect((one + Profiles.build).metadata).to eq(interval: 64, hooks_rearmed: 1, processes: 2)
    end

    describe "of profiles with and without labels" do
      let(:labelled) { Profiles.build({ ["a /a.rb:1", { "class" => "String" }] => [3, 120, 0, 0] }, comments: { memprofiler: "0.1.0" }) }
      let(:plain) { Profiles.build({ ["a /a.rb:1"] => [4, 160, 0, 0] }, comments: { memprofiler: "0.1.0" }) }
      let(:empty) { Profiles.build({}, comments: { memprofiler: "0.1.0" }) }

      it "is right by line" do
        [labelled + plain, plain + labelled].each { |sum| expect(rows(sum)).to eq([["/a.rb:1", 7, 7]]) }
      end

      it "has no classes, and says of how many" do
        [labelled + plain + plain, plain + plain + labelled, (plain + plain) + (labelled + empty)].each do |sum|
          sum = described_class.new(sum.pprof_data)
          expect { sum.top(by: :class) }
            .to raise_error(Memprofiler::MissingLabelError, /\A2 of the [34] profiles in this sum are without class labels/)
        end
        expect { (plain + plain).top(by: :class) }.to raise_error(Memprofiler::MissingLabelError, /the profile has no class labels/)
      end

      it "has classes if all that have samples have them" do
        [labelled + empty, empty + labelled + labelled].each { |sum| expect(sum.top(:alloc_objects, by: :class).map(&:name)).to eq(%w[String]) }
      end
    end

    describe "of one collector's profiles" do
      def of_run(run, pid, objects = 1)
        Profiles.build({ ["a /a.rb:1"] => [objects, objects * 40, 0, 0] }, comments: { run: run, pid: pid }.compact)
      end

      it "is refused, as is a sum and its part" do
        sum = of_run("a-1", 7) + of_run("b-2", 7) + of_run("c-3", 8)
        expect(sum.total(:alloc_objects)).to eq(3)
        [[of_run("a-1", 7), of_run("a-1", 7, 2)], [sum, of_run("c-3", 8)], [of_run("b-2", 7), sum]].each do |pair|
          expect { pair.reduce(:+) }.to raise_error(ArgumentError, /\Atwo of the profiles are of one run of a collector \(pid \d.*later - earlier\z/)
        end
      end

      it "is refused of a difference and a profile, in either order" do
        first, second = [1, 2].map { |objects| of_run("a-1", 7, objects) }
        pair = [second - first, of_run("b-2", 8)]
        [pair, pair.reverse].each do |profiles|
          expect { described_class.sum(profiles) }.to raise_error(ArgumentError, "one is a difference of two profiles, another one isn't")
        end
      end

      it "is told where files don't say which run they are of" do
        sum = of_run(nil, 7) + of_run(nil, 8) + of_run(nil, 7, 2) + of_run("a-1", 8)
        expect(sum.metadata[:same_pid]).to eq("7, 8")
        expect((of_run(nil, 7) + of_run(nil, 8)).metadata).not_to have_key(:same_pid)
        expect((of_run("a-1", 7) + of_run("b-1", 7)).metadata).not_to have_key(:same_pid)
      end
    end

    it "sums any number, one by one" do
      sum = described_class.sum((1..5).lazy.map { |i| Profiles.build(["a /a.rb:1"] => [i, i * 40, 0, 0]) })
      expect(sum.total(:alloc_objects)).to eq(15)
      expect(sum.pprof_data).to be_frozen
    end

    # As Go's own merge does. A Go program's heap profile has metrics of the same names.
    it "refuses a profile of which something else was sampled" do
      go = described_class.from_model(profile.model.merge(period_type: %w[space bytes], comments: []))
      expect { profile + go }.to raise_error(ArgumentError, "the profiles' period types differ: objects/count and space/bytes")
      expect { go - profile }.to raise_error(ArgumentError, /period types differ/)
    end

    it "refuses other things and other metrics" do
      cpu = described_class.from_model(profile.model.merge(sample_types: [%w[cpu nanoseconds]], samples: []))
      expect { profile + cpu }.to raise_error(ArgumentError, /metrics differ: alloc_objects.* and cpu/)
      expect { profile + 1 }.to raise_error(TypeError, "other must be a Memprofiler::Profile, not 1")
      expect { described_class.sum([]) }.to raise_error(ArgumentError, "at least one profile is needed")
      expect { described_class.sum([profile, "b"]) }.to raise_error(TypeError, 'each of profiles must be a Memprofiler::Profile, not "b"')
      expect { described_class.sum(profile) }
        .to raise_error(TypeError, "profiles must be an Array, or another Enumerable, of Memprofiler::Profile, not an instance of Memprofiler::Profile")
      expect { described_class.sum(nil) }.to raise_error(TypeError, /\Aprofiles must be .* not nil\z/)
    end
  end

  describe "-" do
    let(:earlier) { Profiles.build({ ["a /a.rb:1"] => [3, 120, 3, 120], ["b /b.rb:2"] => [5, 200, 5, 200] }, time: 1_000_000_000) }
    let(:later) { Profiles.build({ ["b /b.rb:2"] => [5, 200, 1, 40], ["a /a.rb:1"] => [10, 400, 4, 160] }, time: 3_500_000_000) }

    it "gives what was allocated in between" do
      expect(rows(later - earlier)).to eq([["/a.rb:1", 7, 7]])
      expect((later - earlier).total(:alloc_space)).to eq(280)
    end

    it "gives the change of what is in use, with its sign" do
      expect(rows(later - earlier, :inuse_space)).to eq([["/b.rb:2", -160, -160], ["/a.rb:1", 40, 40]])
      expect((later - earlier).top(:inuse_space).map(&:share)).to eq([-0.8, 0.2])
    end

    it "keeps signs in its file" do
      (later - earlier).write(path)
      expect(rows(described_class.load(path), :inuse_space)).to eq([["/b.rb:2", -160, -160], ["/a.rb:1", 40, 40]])
    end

    it "leaves out what didn't change, and says how long it was" do
      expect((later - later).samples).to be_empty
      expect((later - earlier).model[:duration_nanos]).to eq(2_500_000_000)
      expect((later - earlier).metadata).to include(difference: "of two profiles, 2.500 s apart")
    end

    it "subtracts counts of the metadata" do
      earlier = Profiles.build({}, comments: { interval: 64, samples: 10, live_samples: 5, collections: 2, dropped_samples: 1 })
      later = Profiles.build({}, comments: { interval: 64, samples: 25, live_samples: 4, collections: 9, dropped_samples: 1 })
      expect((later - earlier).metadata).to include(interval: 64, samples: 15, collections: 7)
      expect((later - earlier).metadata.keys & %i[live_samples dropped_samples]).to be_empty
    end

    it "follows a sample whose class became known late" do
      earlier = Profiles.build(["a /a.rb:1"] => [4, 160, 0, 0], ["a /a.rb:1", { "class" => "Hash" }] => [1, 40, 0, 0])
      later = Profiles.build(["a /a.rb:1", { "class" => "Hash" }] => [6, 240, 0, 0])
      expect(rows(later - earlier, by: :class)).to eq([["Hash", 1, 1]])
    end

    it "leaves ages out, which each collection changes" do
      earlier = Profiles.build(["a /a.rb:1", { "age" => [1, "collections"] }] => [4, 160, 4, 160])
      later = Profiles.build(["a /a.rb:1", { "age" => [2, "collections"] }] => [5, 200, 4, 160])
      delta = later - earlier
      expect(delta.samples.map { |sample| [sample.values.values, sample.labels] }).to eq([[[1, 40, 0, 0], {}]])
    end

    it "has the labels that both profiles have" do
      labelled = lambda do |objects, *labels|
        labels = { "class" => "String", "thread" => "main" }.slice(*labels)
        Profiles.build({ ["a /a.rb:1", labels] => [objects, objects * 40, 0, 0] }, comments: { memprofiler: "0.1.0" })
      end
      [labelled[5, "class"] - labelled[3], labelled[5] - labelled[3, "class"], labelled[5, "thread"] - labelled[3, "class"]].each do |difference|
        expect(rows(difference)).to eq([["/a.rb:1", 2, 2]])
        expect { difference.top(by: :class) }.to raise_error(Memprofiler::MissingLabelError, /the difference has no class labels.* both with flush/)
      end
      expect((labelled[5, "class", "thread"] - labelled[3, "class"]).samples.map(&:labels)).to eq([{ "class" => "String" }])
      expect((labelled[5, "class"] - Profiles.build).samples.map(&:labels)).to eq([{ "class" => "String" }])
    end

    it "refuses differences" do
      [[later, later - earlier], [later - earlier, earlier], [later - earlier, later - later]].each do |pair|
        expect { pair.reduce(:-) }.to raise_error(ArgumentError, "one of the two is a difference already, and later - earlier needs two whole profiles")
      end
    end

    it "refuses the wrong order, other runs, other periods and other things" do
      expect { earlier - later }.to raise_error(ArgumentError, /not an earlier and a later profile of one collector/)
      expect { later - Profiles.build({}, period: 9) }.to raise_error(ArgumentError, "the profiles' periods differ: 1 objects/count and 9 objects/count")
      expect { later - nil }.to raise_error(TypeError, "earlier must be a Memprofiler::Profile, not nil")
    end
  end

  it "doesn't mind that a program replaces File, as fakes of file systems do" do
    written = path
    alone = eq(["heap.pb.gz"]) # RSpec loads what it needs for this
    stub_const("File", Class.new)
    profile.write(written)
    expect(Dir.children(@dir)).to alone
  end
end
