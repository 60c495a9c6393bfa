# frozen_string_literal: true

require "tmpdir"

require "memprofiler/report"
require_relative "support/profiles"

RSpec.describe Memprofiler::Report do
  def head(profile) = described_class.new(profile).head
  def table(profile, metric = :alloc_objects, by: :line, **options) = described_class.new(profile, **options).table(metric, by: by)

  let(:sampled) do
    Profiles.build({ ["a /a.rb:1"] => [51_200, 2_048_000, 5120, 204_800], ["b /b.rb:2"] => [5120, 204_800, 0, 0] },
                   period: 512, comments: { memprofiler: "0.1.0", ruby: "3.1.2 x86_64-linux", pid: 7, interval: 512,
                                            track_one_in: 1, samples: 110, live_samples: 10, heap_live_slots: 40_000 })
  end

  describe "head" do
    # 1.96 * sqrt(511/512 / 110 * (1 + 1.92 / 110)) = 18.8 %, and of 10 samples 67.6 %
    it "says how the profile was made, its error, and what of the heap it covers" do
      expect(head(sampled)).to eq(<<~TEXT)
        memprofiler 0.1.0, ruby 3.1.2 x86_64-linux, pid 7
        interval: one object in 512 sampled; values are estimates
        samples: 110 of allocations, 10 of objects in use
        error (95 %): alloc_objects +/- 18.8%, alloc_space +/- 18.8%, inuse_objects +/- 67.6%, inuse_space +/- 67.6%
        in use: 5120 objects of the heap's 40.0 k live slots (12.8%); objects from before the start are not tracked
        sizes: 1 kB = 1000 bytes
      TEXT
    end

    describe "with the bytes of the whole heap" do
      # 100 k objects of 200 k: their share of the bytes would be half, if all were alike.
      def noted(inuse_space, heap_bytes, period: 512, **more)
        comments = { interval: period, track_one_in: 1, samples: 1000, live_samples: 200, heap_live_slots: 200_000, heap_bytes: heap_bytes, **more }
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

      it "warns of each 2 MB, and quarter, that are missing of what came since the start" do
        before = { heap_bytes_before: 90_000_000 }
        expect(noted(8_000_000, 100_000_000, **before)).not_to include("large objects")
        expect(noted(7_000_000, 100_000_000, **before))
          .to include("note: 3.0 MB of what is in use are in large objects that were not sampled; use a smaller interval")
        expect(noted(75_100_000, 190_000_000, **before)).not_to include("large objects")
        expect(noted(74_900_000, 190_000_000, **before)).to include("note: 25.1 MB of what is in use")
        expect(noted(100, 80_000_000, **before)).not_to include("large objects") # more went than came
        none = Profiles.build({}, comments: { interval: 512, heap_bytes: 101_000_000, heap_bytes_before: 1_000_000 })
        expect(head(none)).to include("note: 100.0 MB of what is in use are in large objects")
      end
    end

    it "says that an exact profile is exact" do
      profile = Profiles.build({ ["a /a.rb:1"] => [7, 280, 0, 0] }, comments: { interval: 1, track_one_in: 1, samples: 7 })
      expect(head(profile)).to include("exact: every object was recorded (interval 1)\n")
      expect(head(profile)).not_to match(/error|estimate/)
    end

    it "says in a line that there are few samples, which is less than twenty as in tables" do
      few, enough = [19, 20].map do |samples|
        Profiles.build({ ["a /a.rb:1"] => [512 * samples, 40_960, 512, 2048] }, period: 512,
                                                                                comments: { interval: 512, samples: samples, live_samples: 1 })
      end
      expect(head(few)).to eq(<<~TEXT)
        a profile of another program
        few samples: 19 of allocations, 1 of objects in use; take the numbers as hints (one in 512 is: use a smaller interval, or run longer)
        sizes: 1 kB = 1000 bytes
      TEXT
      expect(head(enough)).to include("samples: 20 of allocations").and include("error")
      expect(head(enough)).not_to include("few")
    end

    it "says in a line that there are none" do
      none = Profiles.build({}, comments: { memprofiler: "0.1.0", interval: 512, samples: 0, live_samples: 0, heap_live_slots: 900, hooks_rearmed: 2 })
      expect(head(none)).to eq(<<~TEXT)
        memprofiler 0.1.0
        no object was sampled (one in 512 is: use a smaller interval, or run longer)
        note: times that Ruby dropped the profiler's hooks, and they were set again: 2
      TEXT
      exact = Profiles.build({}, comments: { memprofiler: "0.1.0", interval: 1, samples: 0 })
      expect(head(exact)).to end_with("no object was allocated: every one would have been recorded (interval 1)\n")
      expect(head(sampled - sampled)).to end_with(", difference of two profiles, 0.000 s apart\nno change\n")
    end

    it "says of a difference what came and what went: 512 objects are a sample" do
      later = Profiles.build({ ["a /a.rb:1"] => [52_224, 2_088_960, 3072, 122_880], ["b /b.rb:2"] => [5632, 225_280, 512, 20_480] },
                             period: 512, comments: { memprofiler: "0.1.0", interval: 512, samples: 113, live_samples: 7 })
      # 4 of /a.rb went (2048), 1 of /b.rb came
      expect(head(later - sampled)).to include("samples: 3 of allocations, 5 of what changed in use\n")
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
      stacks = { ["a /a.rb:1"] => [32_000, 1_280_000, 0, 0] }
      expect(head(Profiles.build(stacks, comments: comments)))
        .to include("interval: one object in 64 sampled, one in 4 of these followed until it died; values are estimates\n")
      expect(head(Profiles.build(stacks, comments: { **comments, interval: 1 })))
        .to include("interval: every object counted, one in 4 of these followed until it died; inuse_* are estimates\n")
    end

    it "does with another program's profile" do
      expect(head(Profiles.build(["main /main.go:3"] => [1, 40, 1, 40]))).to eq("a profile of another program\nsizes: 1 kB = 1000 bytes\n")
    end
  end

  describe "table" do
    it "aligns its columns, and keeps rows on few samples apart" do
      expect(table(sampled)).to eq(<<~TEXT)
        Top allocators by line: alloc_objects, 56.3 k
            flat  flat%     cum   cum%    +/-  samples  line
          51.2 k  90.9%  51.2 k  90.9%  19.8%      100  /a.rb:1
        on fewer than 20 samples each, so hints only:
           5.1 k   9.1%   5.1 k   9.1%    few       10  /b.rb:2
      TEXT
    end

    describe "with rows on few samples" do
      # Lines sure0, sure1, ... on 100 samples each, few0, ... on 2, which come out larger.
      def mixed(sure, few)
        stacks = Array.new(sure) { |i| [["a /sure#{i}.rb:1"], [6400, 640_000 - i, 0, 0]] } +
                 Array.new(few) { |i| [["a /few#{i}.rb:1"], [128, 9_000_000 - i, 0, 0]] }
        Profiles.build(stacks.to_h, period: 64, comments: { interval: 64, samples: (100 * sure) + (2 * few) })
      end

      def names(profile, count)
        described_class.new(profile).table(:alloc_space, by: :line, count: count).scan(%r{ /(\w+)\.rb:1$}).flatten
      end

      it "lets them lead nothing, and have a third of the rows" do
        expect(names(mixed(30, 30), 6)).to eq(%w[sure0 sure1 sure2 sure3 few0 few1])
        expect(names(mixed(30, 1), 6)).to eq(%w[sure0 sure1 sure2 sure3 sure4 few0])
        expect(names(mixed(2, 30), 6)).to eq(%w[sure0 sure1 few0 few1 few2 few3])
        expect(names(mixed(30, 30), 1)).to eq(%w[sure0])
        expect(names(mixed(2, 2), nil)).to eq(%w[sure0 sure1 few0 few1])
      end

      it "doesn't show those that are smaller than all that is shown" do
        profile = Profiles.build({ ["a /sure.rb:1"] => [6400, 640_000, 0, 0], ["b /also.rb:1"] => [6400, 64_000, 0, 0],
                                   ["a /few.rb:1"] => [128, 640, 0, 0] }, period: 64, comments: { interval: 64, samples: 202 })
        expect(names(profile, 2)).to eq(%w[sure also])
      end

      it "goes by what it shows of a row, which is cum where it has no flat" do
        profile = Profiles.build({ ["a /sure.rb:1", "<main> /caller.rb:1"] => [6400, 640_000, 0, 0],
                                   ["b /few.rb:1", "b /few_caller.rb:1"] => [128, 9_000_000, 0, 0] },
                                 period: 64, comments: { interval: 64, samples: 102 })
        text = described_class.new(profile).table(:alloc_space, by: :line, count: nil)
        expect(text.lines.drop(2).map { |line| line[%r{few *2  /\w+|/\w+|^on fewer}].squeeze(" ") })
          .to eq(["/sure", "/caller", "on fewer", "few 2 /few", "few 2 /few_caller"])
        text = described_class.new(profile).table(:alloc_space, by: :line, count: 3)
        expect(text.scan(%r{/\w+})).to eq(["/sure", "/caller", "/few"])
      end

      it "marks them where there are no others" do
        text = described_class.new(mixed(0, 3)).table(:alloc_space, by: :line, count: 2)
        expect(text.lines.drop(2).join).to match(%r{\A .* few +2  /few0.rb:1\n .* few +2  /few1.rb:1\nfew: the row rests on fewer than 20 samples, })
      end
    end

    it "says what retainers are" do
      profile = Profiles.build(["a /a.rb:1", { "class" => "String" }] => [9, 360, 1, 40])
      expect(table(profile, :inuse_space).lines.first)
        .to eq("Top retainers by line: inuse_space, 40 B in 1 object still in use, by the line that made them\n")
      expect(table(profile, :inuse_objects, by: :class).lines.first).to eq("Top retainers by class: inuse_objects, 1 still in use\n")
    end

    it "writes a column's counts in one style" do
      profile = Profiles.build(["a /a.rb:1"] => [12_345, 0, 0, 0], ["b /b.rb:1"] => [2560, 0, 0, 0], ["c /c.rb:1"] => [60, 0, 0, 0])
      expect(table(profile).scan(/^ +(\S+(?: k)?) /).flatten).to eq(["flat", "12.3 k", "2.6 k", "60"])
      expect(table(Profiles.build(["b /b.rb:1"] => [2560, 0, 0, 0]))).to match(/^  2560  100\.0%  2560/)
    end

    it "has no cumulative columns by class" do
      profile = Profiles.build(["a /a.rb:1", { "class" => "String" }] => [3, 120, 0, 0])
      expect(table(profile, by: :class)).to eq("Top allocators by class: alloc_objects, 3\n  flat   flat%  class\n     3  100.0%  String\n")
    end

    describe "by line" do
      let(:main) { "<main> /app/main.rb:9" }
      let(:json) { "JSON.parse /usr/lib/ruby/3.1.0/json/common.rb:2" }

      def by_line(profile, directory: "/", **options)
        described_class.new(profile, directory: directory).table(:alloc_space, by: :line, count: 1, **options)
      end

      it "has lines of the program itself below, whose work is done elsewhere" do
        profile = Profiles.build([json, "Shop#load /app/shop.rb:4", main] => [90, 3600, 0, 0],
                                 [json, "Rack.run /gems/rack-2.2.4/lib/rack.rb:3", main] => [10, 400, 0, 0])
        expect(by_line(profile, directory: "/app")).to eq(<<~TEXT)
          Top allocators by line: alloc_space, 4.0 kB in 100 objects
              flat   flat%     cum    cum%  line
            4.0 kB  100.0%  4.0 kB  100.0%  /usr/lib/ruby/3.1.0/json/common.rb:2

          Other lines of the program itself, by cum:
               cum    cum%  line
            4.0 kB  100.0%  main.rb:9
            3.6 kB   90.0%  shop.rb:4
        TEXT
      end

      it "has no line of a file by which RubyGems starts a program" do
        Dir.mktmpdir do |dir|
          stub, script = %w[stub script].map { |name| File.join(dir, name) }
          File.write(stub, "#!/usr/bin/ruby\n#\n# This file was generated by RubyGems.\n#\nload 'rake'\n")
          File.write(script, "#!/usr/bin/ruby\nload 'rake'\n")
          profile = Profiles.build([json, "<main> #{stub}:5"] => [90, 3600, 0, 0], [json, "<main> #{script}:2"] => [90, 3600, 0, 0])
          expect(by_line(profile, directory: dir).lines(chomp: true).drop(5)).to eq(["     cum   cum%  line", "  3.6 kB  50.0%  script:2"])
        end
      end

      it "has five of them at most, none that is above, and none of little" do
        deep = Array.new(8) { |i| "a /app/deep.rb:#{i + 1}" }
        profile = Profiles.build([json, *deep, main] => [900, 3600, 0, 0], ["b /app/small.rb:1", main] => [5, 20, 0, 0])
        own = by_line(profile).lines(chomp: true).drop(6).map { |line| line[/\S+$/] }
        expect(own).to eq(%w[app/main.rb:9 app/deep.rb:1 app/deep.rb:2 app/deep.rb:3 app/deep.rb:4])
        expect(described_class.new(profile).table(:alloc_space, by: :line)).not_to include("of the program itself")
      end

      it "says on how many samples they rest, and how far they may be off, as rows that have only what they called" do
        profile = Profiles.build({ [json] => [64_000, 2_560_000, 0, 0], [json, main] => [6400, 256_000, 0, 0] },
                                 period: 64, comments: { interval: 64, samples: 1100 })
        expect(by_line(profile).lines.drop(4)).to eq(["Other lines of the program itself, by cum:\n", "       cum  cum%    +/-  samples  line\n",
                                                      "  256.0 kB  9.1%  19.6%      100  app/main.rb:9\n"])
        expect(table(profile).lines.last).to eq("       0    0.0%   6.4 k    9.1%  19.6%      100  /app/main.rb:9\n")
        expect(by_line(profile, sort: :cumulative).lines.last).to match(%r{ 5\.9% +1100  usr})
      end

      it "has none of them on few samples" do
        profile = Profiles.build({ [json] => [64_000, 2_560_000, 0, 0], [json, main] => [640, 9_000_000, 0, 0] },
                                 period: 64, comments: { interval: 64, samples: 1010 })
        expect(by_line(profile)).not_to include("main.rb")
      end

      it "has none of them in other tables" do
        profile = Profiles.build([json, "Shop#load /app/shop.rb:4", main] => [90, 3600, 0, 0], ["a /app/a.rb:1", main] => [1, 40, 0, 0])
        %i[file function gem].each do |by|
          expect(described_class.new(profile).table(:alloc_space, by: by, count: 1).lines.size).to eq(3)
        end
        expect(by_line(profile, sort: :cumulative).lines.drop(2).join).to match(%r{\A +0 B +0\.0% +3\.6 kB +100\.0%  app/main\.rb:9\n\z})
      end
    end

    describe "of a difference" do
      let(:later) { Profiles.build({ ["a /a.rb:1"] => [9, 360, 5, 200], ["b /b.rb:2"] => [5, 200, 1, 40] }, time: 2) }
      let(:earlier) { Profiles.build({ ["a /a.rb:1"] => [1, 40, 1, 40], ["b /b.rb:2"] => [5, 200, 5, 1040] }, time: 1) }

      it "has what shrank among what grew, and says what shares are of" do
        expect(table(later - earlier, :inuse_space)).to eq(<<~TEXT)
          Most changed by line, between the two profiles: inuse_space, -840 B in 0 objects
          160 B more and 1.0 kB less; flat% and cum% are of both together, 1.2 kB
               flat   flat%      cum    cum%  line
            -1.0 kB  -86.2%  -1.0 kB  -86.2%  /b.rb:2
              160 B   13.8%    160 B   13.8%  /a.rb:1
        TEXT
      end

      it "is told by its negative values, too, as pprof makes it" do
        theirs = Memprofiler::Profile.from_model((later - earlier).model.merge(comments: []))
        expect(table(theirs, :inuse_objects)).to start_with("Most changed by line, between the two profiles: inuse_objects, 0\n4 more and 4 less;")
        expect(table(later, :inuse_objects)).to start_with("Top retainers")
      end

      it "shows what was allocated in between as ever" do
        expect(table(later - earlier).lines.first).to eq("Top allocators by line, between the two profiles: alloc_objects, 8\n")
      end
    end

    it "says that there's nothing" do
      expect(table(Profiles.build)).to eq("Top allocators by line: alloc_objects, 0\n(none)\n")
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
