# frozen_string_literal: true

require_relative "support/profiles"

# What sums and differences tell of the runs of collectors that their parts are of.
RSpec.describe "Memprofiler::Profile::Spans" do
  def of_run(run, pid, objects = 1, time: 0, **comments)
    Profiles.build({ ["a /a.rb:1"] => [objects, objects * 40, 0, 0] }, comments: { run: run, pid: pid, **comments }.compact, time: time)
  end

  describe "a sum of differences" do
    let(:states) { [[1, 10], [2, 20], [5, 30], [9, 40]].map { |objects, time| of_run("a-1", 7, objects, time: time) } }

    def reread(profile) = Memprofiler::Profile.new(profile.pprof_data)

    # From one of the states to another, as a file has it.
    def between(from, to) = reread(states[to] - states[from])

    it "is not refused where nothing is in both, in any order, and is of one process" do
      [[between(0, 1), between(1, 2)], [between(2, 3), between(0, 1), between(1, 2)], [reread(between(2, 3) + between(0, 1)), between(1, 2)]].each do |parts|
        sum = reread(Memprofiler::Profile.sum(parts))
        expect(sum.metadata).to include(processes: 1, pid: 7, run: "a-1", spans: "a-1@10..#{parts.size == 2 && sum.total(:alloc_objects) == 4 ? 30 : 40}")
        expect(sum.metadata).not_to include(:same_pid, :forked_pids)
      end
      expect(reread(between(0, 1) + between(2, 3)).metadata).to include(spans: "a-1@10..20, a-1@30..40")
      expect((between(0, 0) + between(0, 1) + between(0, 0)).total(:alloc_objects)).to eq(1)
    end

    it "is refused where they overlap, or are one" do
      sum = reread(between(0, 1) + between(2, 3))
      [[between(0, 1)] * 2, [between(0, 1), between(0, 2)], [between(0, 3), between(1, 2)], [between(1, 3), between(0, 2)], [sum, between(1, 3)], [between(2, 3), sum]].each do |parts|
        expect { Memprofiler::Profile.sum(parts) }.to raise_error(ArgumentError, "two of the differences are of one run of a collector (pid 7) and overlap: what both have would count twice")
      end
    end

    it "follows a clock that was set back" do
      x, y, z = [[1, 100], [2, 50], [3, 120]].map { |objects, time| of_run("a-1", 7, objects, time: time) }
      expect(((y - x) + (z - y)).total(:alloc_objects)).to eq(2)
      expect { (y - x) + (z - x) }.to raise_error(ArgumentError, /overlap/)
    end

    it "is told where files don't say since when, or of which run" do
      [["a-1", 0, 1], [nil, 10, 2]].each do |run, time, processes|
        first, second, third = [1, 2, 5].map { |objects| of_run(run, 7, objects, time: time * objects) }
        sum = reread((second - first) + (third - second))
        expect(sum.total(:alloc_objects)).to eq(4)
        expect(sum.metadata).to include(processes: processes, same_pid: 7)
      end
    end

    it "counts processes by their runs, and sums of theirs are subtracted, and added up" do
      others = [[1, 11], [2, 21], [5, 31]].map { |objects, time| of_run("b-1", 8, objects, time: time) }
      sums = states.first(3).zip(others).map { |pair| reread(Memprofiler::Profile.sum(pair)) }
      changes = sums.each_cons(2).map { |earlier, later| reread(later - earlier) }
      expect(changes.map { |change| change.metadata[:spans] }).to eq(["a-1@10..20, b-1@11..21", "a-1@20..30, b-1@21..31"])
      all = reread(changes.reduce(:+))
      expect(all.total(:alloc_objects)).to eq(8)
      expect(all.metadata).to include(processes: 2, pid: "7, 8", run: "a-1, b-1", spans: "a-1@10..30, b-1@11..31")
      expect { all + between(0, 1) }.to raise_error(ArgumentError, /overlap/)
      expect((all + between(2, 3)).metadata).to include(processes: 2)
    end

    it "has what a child's parent did before the fork in each child's, and says so" do
      children = [8, 9].map { |pid| of_run("c-#{pid}", pid, 4, time: 50, forked_from: "a-1") }
      since = children.map { |child| reread(child - states[0]) }
      expect(since.map(&:metadata)).to match([include(forked_from: "a-1", spans: "c-8@0..50"), include(forked_from: "a-1", spans: "c-9@0..50")])
      expect(since.reduce(:+).metadata).to include(forked_pids: "8, 9", processes: 2)
      expect((since[0] + between(0, 1)).metadata).to include(forked_pids: "8, 7")
      later = children.map { |child| reread(of_run(child.metadata[:run], child.metadata[:pid], 6, time: 60, forked_from: "a-1") - child) }
      expect(later.reduce(:+).metadata).not_to include(:forked_pids, :forked_from)
      expect((later[0] + since[0]).metadata).to include(processes: 1, spans: "c-8@0..60")
    end
  end

  describe "a difference, where both say of which runs they are," do
    def of(run, objects = 1, **comments) = of_run(run, nil, objects, time: objects, **comments)

    let(:not_of_one) { /\Athese are not an earlier and a later profile of one collector/ }

    it "refuses another run's, though nothing falls" do
      [[of("b-1", 2), of("a-1")], [of("b-1", 2, forked_from: "c-1"), of("a-1", forked_from: "c-1")],
       [of("a-1", 2), of("a-1", 1) + of("b-1", 1)], [of("a-1", 2, forked_from: "b-1"), of("c-1")]].each do |later, earlier|
        expect { later - earlier }.to raise_error(ArgumentError, not_of_one)
      end
    end

    it "takes one run's, its parent's, part of a sum's, and what doesn't say" do
      [[of("a-1", 3), of("a-1")], [of("b-1", 3, forked_from: "a-1"), of("a-1")], [of("c-1", 3, forked_from: "a-1, b-1"), of("b-1", forked_from: "a-1")],
       [of("a-1", 2) + of("b-1", 1), of("a-1")], [of("a-1", 3), of(nil)], [of(nil, 3), of("a-1")]].each do |later, earlier|
        expect((later - earlier).total(:alloc_objects)).to eq(2)
      end
    end

    it "refuses the wrong order, though nothing was allocated in between" do
      states = [[1, 5], [2, 5], [2, 6]].map { |collections, samples| of("a-1", collections: collections, samples: samples) }
      states.combination(2) { |earlier, later| expect { earlier - later }.to raise_error(ArgumentError, not_of_one) }
      expect((states[2] - states[0]).metadata).to include(collections: 1, samples: 1)
    end
  end
end
