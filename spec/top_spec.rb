# frozen_string_literal: true

require_relative "support/profiles"

RSpec.describe Memprofiler::Profile, "#top" do
  def rows(...) = Profiles.rows(...)

  let(:main) { "<main> /app/main.rb:9" }

  describe "by line" do
    it "counts what a C function allocates for the line that called it" do
      profile = Profiles.build(["String#dup", "Array#map", "Shop#page /app/shop.rb:4", main] => [10, 400, 0, 0])
      expect(rows(profile, by: :line)).to eq([["/app/shop.rb:4", 10, 10], ["/app/main.rb:9", 0, 10]])
    end

    it "counts what Ruby's own library in Ruby allocates for the line that called it" do
      profile = Profiles.build(["Integer#times <internal:numeric>:231", main] => [7, 280, 0, 0])
      expect(rows(profile, by: :line)).to eq([["/app/main.rb:9", 7, 7]])
    end

    it "counts what an extension allocates while it's being loaded for the line that loads it" do
      profile = Profiles.build(["<top (required)> /usr/lib/ruby/ripper.so:0", "Kernel#require", main] => [7, 280, 0, 0])
      expect(rows(profile, by: :line)).to eq([["/app/main.rb:9", 7, 7]])
    end

    it "keeps two lines of one method apart" do
      profile = Profiles.build(["Shop#page /app/shop.rb:4", main] => [1, 40, 0, 0],
                               ["Shop#page /app/shop.rb:5", main] => [2, 80, 0, 0])
      expect(rows(profile, by: :line))
        .to eq([["/app/shop.rb:5", 2, 2], ["/app/shop.rb:4", 1, 1], ["/app/main.rb:9", 0, 3]])
    end

    it "counts a line once for a stack, however often it is in it" do
      walk = "Tree#walk /app/tree.rb:3"
      profile = Profiles.build([walk, walk, "Array#each", walk, main] => [5, 200, 0, 0])
      expect(rows(profile, by: :line)).to eq([["/app/tree.rb:3", 5, 5], ["/app/main.rb:9", 0, 5]])
    end

    it "names what has no Ruby code at all" do
      profile = Profiles.build(["GC.start"] => [2, 80, 0, 0], [] => [1, 40, 0, 0], ["(overflow)"] => [4, 160, 0, 0])
      expect(rows(profile, by: :line)).to eq([["(overflow)", 4, 4], ["(no Ruby code)", 3, 3]])
    end

    it "shows a file without a line where the line is not known" do
      profile = Profiles.build(["Shop#page /app/shop.rb:0"] => [1, 40, 0, 0])
      expect(rows(profile, by: :line)).to eq([["/app/shop.rb", 1, 1]])
    end
  end

  describe "by function" do
    it "shows C functions" do
      profile = Profiles.build(["String#dup", "Array#map", "Shop#page /app/shop.rb:4", main] => [10, 400, 0, 0])
      expect(rows(profile, by: :function))
        .to eq([["String#dup", 10, 10], ["<main>", 0, 10], ["Array#map", 0, 10], ["Shop#page", 0, 10]])
    end

    it "makes one row of all lines of a function" do
      profile = Profiles.build(["Shop#page /app/shop.rb:4"] => [1, 40, 0, 0], ["Shop#page /app/shop.rb:5"] => [2, 80, 0, 0])
      expect(rows(profile, by: :function)).to eq([["Shop#page", 3, 3]])
    end

    it "tells functions of one name apart by their place" do
      profile = Profiles.build(["Shop#page /app/a.rb:4"] => [1, 40, 0, 0], ["Shop#page /app/b.rb:5"] => [2, 80, 0, 0])
      expect(rows(profile, by: :function)).to eq([["Shop#page (/app/b.rb:1)", 2, 2], ["Shop#page (/app/a.rb:1)", 1, 1]])
    end

    it "counts a function that recurs once for a stack" do
      profile = Profiles.build(["String#+", "fib /f.rb:2", "fib /f.rb:3", "fib /f.rb:2"] => [4, 160, 0, 0])
      expect(rows(profile, by: :function)).to eq([["String#+", 4, 4], ["fib", 0, 4]])
    end
  end

  it "sums lines by file" do
    profile = Profiles.build(["String#dup", "Shop#page /app/shop.rb:4", main] => [1, 40, 0, 0],
                             ["Shop#total /app/shop.rb:8", main] => [2, 80, 0, 0])
    expect(rows(profile, by: :file)).to eq([["/app/shop.rb", 3, 3], ["/app/main.rb", 0, 3]])
  end

  it "sums files by gem" do
    rack = "Rack.run /var/gems/3.1.0/gems/rack-2.2.4/lib/rack.rb:4"
    profile = Profiles.build(["Hash#dup", rack, main] => [4, 160, 0, 0],
                             ["JSON.parse /usr/lib/ruby/3.1.0/json/common.rb:2", rack, main] => [2, 80, 0, 0],
                             ["eval (eval):1", main] => [1, 40, 0, 0])
    expect(rows(profile, by: :gem)).to eq([["rack", 4, 6], ["(stdlib)", 2, 2], ["(app)", 1, 7]])
  end

  describe "by class" do
    it "sums by the class label" do
      profile = Profiles.build(["a /a.rb:1", { "class" => "String" }] => [1, 40, 0, 0],
                               ["b /a.rb:2", { "class" => "String" }] => [2, 80, 0, 0],
                               ["b /a.rb:2"] => [5, 200, 0, 0])
      expect(rows(profile, by: :class)).to eq([["(no class)", 5, 5], ["String", 3, 3]])
    end

    it "says so when the profile has no class labels" do
      profile = Profiles.build({ ["a /a.rb:1"] => [1, 40, 0, 0] }, comments: { memprofiler: "0.1.0" })
      expect { profile.top(by: :class) }
        .to raise_error(Memprofiler::MissingLabelError, "the profile has no class labels: collect it with labels: [:class], of flush or Memprofiler.profile")
      expect { Profiles.build(["a /a.rb:1"] => [1, 40, 0, 0]).top(by: :class) }
        .to raise_error(Memprofiler::MissingLabelError, "the profile has no class labels, and is not memprofiler's")
    end
  end

  it "never shows frames of the profiler's own" do
    own = "Memprofiler.profile #{Memprofiler.method(:profile).source_location.join(":")}"
    profile = Profiles.build(["String#dup", "block in <main> /app/main.rb:3", own, main] => [3, 120, 0, 0],
                             ["Memprofiler::Collector#flush", own, main] => [1, 40, 0, 0])
    names = %i[line function file gem].flat_map { |by| profile.top(:alloc_objects, by: by).map(&:name) }
    expect(names.grep(/memprofiler/i)).to be_empty
    expect(rows(profile, by: :line)).to eq([["/app/main.rb:3", 3, 3], ["/app/main.rb:9", 1, 4]])
  end

  it "keeps a program's own file of that name" do
    profile = Profiles.build(["Memprofiler.setup /app/config/initializers/memprofiler.rb:2"] => [1, 40, 0, 0])
    expect(rows(profile, by: :line)).to eq([["/app/config/initializers/memprofiler.rb:2", 1, 1]])
  end

  it "uses the metric that is asked for, inuse_space and lines by default" do
    profile = Profiles.build(["a /a.rb:1"] => [1, 40, 1, 40], ["b /a.rb:2"] => [2, 80, 0, 0], ["c /a.rb:3"] => [1, 900, 1, 900])
    expect(profile.top.map { |row| [row.name, row.flat] }).to eq([["/a.rb:3", 900], ["/a.rb:1", 40]])
    expect(rows(profile, :alloc_objects).map(&:first)).to eq(%w[/a.rb:2 /a.rb:1 /a.rb:3])
  end

  it "gives n rows at most" do
    profile = Profiles.build(["a /a.rb:1"] => [1, 40, 0, 0], ["b /a.rb:2"] => [2, 80, 0, 0])
    expect(rows(profile, n: 1)).to eq([["/a.rb:2", 2, 2]])
    expect(rows(profile, n: 9).size).to eq(2)
  end

  it "gives each row's shares of the whole" do
    profile = Profiles.build(["a /a.rb:1"] => [1, 40, 0, 0], ["b /a.rb:2", "a /a.rb:1"] => [3, 120, 0, 0])
    expect(profile.top(:alloc_objects).map { |row| [row.share, row.cumulative_share] }).to eq([[0.75, 0.75], [0.25, 1.0]])
  end

  it "orders by what a row itself allocated, or with what it called" do
    profile = Profiles.build(["a /a.rb:1", main] => [5, 200, 0, 0], ["b /a.rb:2", main] => [3, 120, 0, 0], ["c /a.rb:3"] => [4, 160, 0, 0])
    expect(rows(profile).map(&:first)).to eq(%w[/a.rb:1 /a.rb:3 /a.rb:2 /app/main.rb:9])
    expect(rows(profile, sort: :flat)).to eq(rows(profile))
    expect(rows(profile, sort: :cumulative).map(&:first)).to eq(%w[/app/main.rb:9 /a.rb:1 /a.rb:3 /a.rb:2])
    expect(rows(profile, sort: :cumulative, n: 1)).to eq([["/app/main.rb:9", 0, 8]])
  end

  it "puts what shrank most where what grew as much would stand" do
    later = Profiles.build(["a /a.rb:1", main] => [9, 360, 5, 200], ["b /a.rb:2", main] => [9, 360, 1, 40], ["c /a.rb:3"] => [9, 360, 2, 80])
    earlier = Profiles.build(["a /a.rb:1", main] => [9, 360, 4, 160], ["b /a.rb:2", main] => [9, 360, 9, 360])
    expect(rows(later - earlier, :inuse_objects)).to eq([["/a.rb:2", -8, -8], ["/a.rb:3", 2, 2], ["/a.rb:1", 1, 1], ["/app/main.rb:9", 0, -7]])
    expect(rows(later - earlier, :inuse_objects, sort: :cumulative).map(&:first)).to eq(%w[/a.rb:2 /app/main.rb:9 /a.rb:3 /a.rb:1])
    expect((later - earlier).top(:inuse_objects, n: 1).first).to have_attributes(share: be_within(1e-9).of(-8.0 / 11))
  end

  it "has no rows for an empty profile, by class neither" do
    expect(Profiles.build({}).top).to eq([])
    expect(Profiles.build({}).top(by: :class)).to eq([])
  end

  # For counts, with r = (1 - p) / n, 1.96 * sqrt(r + 1.92 r**2); 100 samples at 1 in 64: r = 63/6400.
  it "gives the samples behind a row, and its error" do
    profile = Profiles.build({ ["a /a.rb:1"] => [6400, 256_000, 0, 0], ["b /a.rb:2"] => [57_600, 2_304_000, 0, 0] },
                             period: 64, comments: { interval: 64, samples: 1000 })
    nine_tenths, tenth = profile.top(:alloc_objects)
    expect([nine_tenths.samples, tenth.samples]).to eq([900, 100])
    expect([nine_tenths, tenth].map(&:cumulative_samples)).to eq([900, 100])
    expect([tenth.error, tenth.cumulative_error]).to all(be_within(0.0001).of(0.1963))
    expect(nine_tenths.error).to be_within(0.0001).of(0.0649)
  end

  # 50 objects of 40 bytes and 50 of 4000: 1 + CV² is 1.96, so 1.4 times the error of the count.
  it "gives bytes a larger error where sizes differ" do
    profile = Profiles.build({ ["a", "x /a.rb:1"] => [3200, 128_000, 0, 0], ["b", "x /a.rb:1"] => [3200, 12_800_000, 0, 0] },
                             period: 64, comments: { interval: 64, samples: 100 })
    expect(profile.top(:alloc_space).first.error).to be_within(0.001).of(0.2773)
  end

  # 100 samples, 20 of which are of lines that a calls
  it "gives the error of what a row has called with it, and of what it has itself" do
    profile = Profiles.build({ ["b /a.rb:2", "a /a.rb:1"] => [1280, 51_200, 0, 0], ["a /a.rb:1"] => [5120, 204_800, 0, 0] },
                             period: 64, comments: { interval: 64, samples: 100 })
    row, called = profile.top(:alloc_space)
    expect([row.samples, row.cumulative_samples]).to eq([80, 100])
    expect([row.error, row.cumulative_error]).to match([be_within(0.0001).of(0.2200), be_within(0.0001).of(0.1963)])
    expect(called.error).to eq(called.cumulative_error)
    by_class = Profiles.build({ ["a /a.rb:1", { "class" => "A" }] => [6400, 256_000, 0, 0] }, period: 64, comments: { interval: 64, samples: 100 })
    expect(by_class.top(:alloc_space, by: :class).first.cumulative_error).to be_within(0.0001).of(0.1963)
  end

  it "is exact at interval 1" do
    profile = Profiles.build({ ["a /a.rb:1"] => [7, 280, 0, 0] }, comments: { interval: 1, samples: 7 })
    expect(profile.top(:alloc_objects).first).to have_attributes(samples: 7, error: 0.0, cumulative_error: 0.0)
  end

  # Thinned samples stand for more objects each than the interval says.
  it "counts the samples that there really were" do
    profile = Profiles.build({ ["a /a.rb:1"] => [6400, 256_000, 6400, 256_000] },
                             period: 64, comments: { interval: 64, samples: 100, live_samples: 25 })
    expect(profile.top(:alloc_objects).first.samples).to eq(100)
    expect(profile.top(:inuse_objects).first.samples).to eq(25)
  end

  describe "arguments" do
    profile = Profiles.build(["a /a.rb:1"] => [1, 40, 0, 0])
    metrics = "metric must be one of :alloc_objects, :alloc_space, :inuse_objects, :inuse_space, not "
    groups = "by must be one of :line, :file, :gem, :function, :class, or \"label:NAME\", not "
    count = "n must be an Integer of at least 1, or nil for all, not "
    {
      -> { profile.top(:cpu) } => [ArgumentError, "#{metrics}:cpu"],
      -> { profile.top("alloc_objects") } => [TypeError, "#{metrics}\"alloc_objects\""],
      -> { profile.total(nil) } => [TypeError, "#{metrics}nil"],
      -> { profile.total(:"") } => [ArgumentError, "#{metrics}:\"\""],
      -> { profile.total(Object.new) } => [TypeError, "#{metrics}an instance of Object"],
      -> { profile.top("x" * 1000) } => [TypeError, "#{metrics}\"#{"x" * 79}..."],
      -> { profile.top(by: :method) } => [ArgumentError, "#{groups}:method"],
      -> { profile.top(by: "line") } => [TypeError, "#{groups}\"line\""],
      -> { profile.top(by: nil) } => [TypeError, "#{groups}nil"],
      -> { profile.top(n: 0) } => [ArgumentError, "#{count}0"],
      -> { profile.top(n: "3") } => [TypeError, "#{count}\"3\""],
      -> { profile.top(n: 1.5) } => [TypeError, "#{count}1.5"],
      -> { profile.top(sort: :cum) } => [ArgumentError, "sort must be one of :flat, :cumulative, not :cum"],
      -> { profile.top(sort: "flat") } => [TypeError, "sort must be one of :flat, :cumulative, not \"flat\""],
      -> { profile.top(n: false) } => [TypeError, "#{count}false"]
    }.each do |call, (error, message)|
      it("are refused where #{message[0, 120]}") { expect(&call).to raise_error(error, message) }
    end
  end
end
