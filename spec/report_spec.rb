# frozen_string_literal: true

require "memprofiler/report"
require_relative "support/profiles"

RSpec.describe Memprofiler::Report do
  def head(profile) = described_class.new(profile).head
  def table(profile, metric = :alloc_objects, by: :line, **options) = described_class.new(profile, **options).table("Top", metric, by: by)

  let(:sampled) do
    Profiles.build({ ["a /a.rb:1"] => [51_200, 2_048_000, 5120, 204_800], ["b /b.rb:2"] => [5120, 204_800, 0, 0] },
                   period: 512, comments: { memprofiler: "0.1.0", ruby: "3.1.2 x86_64-linux", pid: 7, interval: 512,
                                            track_one_in: 1, samples: 110, live_samples: 10, heap_live_slots: 40_000 })
  end

  describe "head" do
    # 1.96 * sqrt(511/512 / 110) = 18.7 %, and of 10 samples 61.9 %
    it "says how the profile was made, its error, and what of the heap it covers" do
      expect(head(sampled)).to eq(<<~TEXT)
        memprofiler 0.1.0, ruby 3.1.2 x86_64-linux, pid 7
        interval: one object in 512 sampled; values are estimates
        samples: 110 of allocations, 10 of objects in use
        error (95 %): alloc_objects +/- 18.7%, alloc_space +/- 18.7%, inuse_objects +/- 61.9%, inuse_space +/- 61.9%
        in use: 5120 objects of the heap's 40.0 k live slots (12.8%); objects from before the start are not tracked
        sizes: 1 kB = 1000 bytes
      TEXT
    end

    describe "with the bytes of the whole heap" do
      # 100 k objects of 200 k: their share of the bytes would be half, if all were alike.
      def noted(inuse_space, heap_bytes, period: 512)
        comments = { interval: period, track_one_in: 1, samples: 1000, live_samples: 200, heap_live_slots: 200_000, heap_bytes: heap_bytes }
        head(Profiles.build({ ["a /a.rb:1"] => [100_000, inuse_space, 100_000, inuse_space] }, period: period, comments: comments))
      end

      it "tells how much of them it knows of" do
        expect(noted(4_100_000, 10_000_000))
          .to include("in use: 100.0 k objects of the heap's 200.0 k live slots (50.0%), 4.1 MB of its 10.0 MB (41.0%); ")
      end

      it "warns where large objects were missed, or counted many times" do
        expect(noted(4_100_000, 36_000_000)).not_to include("large objects")
        expect(noted(40_000_000, 80_000_000)).not_to include("large objects")
        expect(noted(4_100_000, 200_000_000)).to include("note: 195.9 MB of the heap are not in the profile: ")
        expect(noted(500_000_000, 80_000_000)).to include("note: bytes in use rest on few large objects, and come out too high; ")
        expect(noted(4_100_000, 200_000_000, period: 1)).not_to include("large objects") # from before the start
      end
    end

    it "says that an exact profile is exact" do
      profile = Profiles.build({ ["a /a.rb:1"] => [7, 280, 0, 0] }, comments: { interval: 1, track_one_in: 1, samples: 7 })
      expect(head(profile)).to include("exact: every object was recorded (interval 1)\n")
      expect(head(profile)).not_to match(/error|estimate/)
    end

    it "warns of few samples" do
      profile = Profiles.build({ ["a /a.rb:1"] => [1024, 40_960, 0, 0] }, period: 512, comments: { interval: 512, samples: 2 })
      expect(head(profile)).to include("few samples: numbers are guesses")
    end

    it "says what is missing" do
      problems = { intervals: "64, 512", dropped_samples: 12_345, untracked_samples: 8, thinned_samples: 1, lost_collections: 2, lost_samples: 3,
                   overflow_stacks: 4, truncated_stacks: 5, unseen_objects: 6, hooks_rearmed: 7, stopped: "a Ractor was made",
                   ractors: "other Ractors were not seen" }
      notes = head(Profiles.build({}, comments: { interval: 512, **problems })).lines.grep(/\Anote: /)
      expect(notes.size).to eq(problems.size)
      expect(notes).to include("note: profiling stopped early: a Ractor was made\n", "note: other Ractors were not seen\n",
                               "note: dropped: 12.3 k, so values are too low\n")
    end

    it "says which part of the samples was followed" do
      comments = { interval: 64, track_one_in: 4, samples: 500 }
      expect(head(Profiles.build({}, comments: comments)))
        .to include("interval: one object in 64 sampled, one in 4 of these followed until it died; values are estimates\n")
      expect(head(Profiles.build({}, comments: { **comments, interval: 1 })))
        .to include("interval: every object counted, one in 4 of these followed until it died; inuse_* are estimates\n")
    end

    it "does with another program's profile" do
      expect(head(Profiles.build(["main /main.go:3"] => [1, 40, 1, 40]))).to eq("a profile of another program\nsizes: 1 kB = 1000 bytes\n")
    end
  end

  describe "table" do
    it "aligns its columns, and marks rows on few samples" do
      expect(table(sampled)).to eq(<<~TEXT)
        Top by line: alloc_objects, 56.3 k
            flat  flat%     cum   cum%    +/-  samples  line
          51.2 k  90.9%  51.2 k  90.9%  19.6%      100  /a.rb:1
            5120   9.1%    5120   9.1%    few       10  /b.rb:2
        few: the row rests on less than 20 samples, take it as a hint
      TEXT
    end

    it "shows negative values of a difference" do
      later = Profiles.build(["a /a.rb:1"] => [1, 40, 1, 40])
      earlier = Profiles.build(["a /a.rb:1"] => [1, 40, 1, 1040])
      expect(table(later - earlier, :inuse_space)).to include("-1.0 kB  -100.0%  -1.0 kB  -100.0%  /a.rb:1")
    end

    it "says that there's nothing" do
      expect(table(Profiles.build)).to eq("Top by line: alloc_objects, 0\n(none)\n")
    end

    it "shows files below the current folder relative to it" do
      profile = Profiles.build(["a /home/me/shop/a.rb:1"] => [1, 40, 0, 0], ["b /home/me/shopping/b.rb:1"] => [1, 40, 0, 0])
      expect(table(profile, directory: "/home/me/shop").scan(/\S+:1$/)).to eq(%w[a.rb:1 /home/me/shopping/b.rb:1])
    end

    it "makes names harmless" do
      text = table(Profiles.build(["evil\e]0;title\a\u009B31m\u202Etxt\r\n"] => [1, 40, 0, 0]), by: :function)
      expect(text.lines.last).to end_with("  evil\\e]0;title\\a\\u009B31m\\u202Etxt\\r\\n\n")
      expect(described_class::Text.new(nil, "/").printable("\xFFoo")).to eq("\uFFFDoo")
    end

    it "cuts to the terminal: the end of a path stays, and the start of a name" do
      profile = Profiles.build(["Shop#a#{"b" * 90} /app/#{"d" * 90}/shop.rb:12"] => [1, 40, 0, 0])
      path, name = %i[line function].map { |by| table(profile, by: by, width: 60).lines.last.chomp }
      expect(path).to match(%r{  \.\.\.d+/shop\.rb:12\z})
      expect(name).to match(/  Shop#ab+\.\.\.\z/)
      expect([path.size, name.size]).to eq([60, 60])
    end

    it "counts wide characters as two columns" do
      profile = Profiles.build(["店#{"舗" * 60}"] => [1, 40, 0, 0])
      line = table(profile, by: :function, width: 60).lines.last.chomp
      numbers, name = line.match(/\A(.*  )(店舗+)\.\.\.\z/).captures
      expect(numbers.size + (2 * name.size) + 3).to be_between(59, 60)
    end
  end

  describe Memprofiler::Report::Units do
    {
      [0, "bytes"] => "0 B", [999, "bytes"] => "999 B", [1000, "bytes"] => "1.0 kB", [999_949, "bytes"] => "999.9 kB",
      [999_950, "bytes"] => "1.0 MB", [-2_500_000_000, "bytes"] => "-2.5 GB", [9999, "count"] => "9999",
      [10_000, "count"] => "10.0 k", [1_234_567, "count"] => "1.2 M", [5, "nanoseconds"] => "5 nanoseconds"
    }.each do |(value, unit), text|
      it("writes #{value} #{unit} as #{text}") { expect(described_class.value(value, unit)).to eq(text) }
    end
  end
end
