# frozen_string_literal: true

require_relative "support/command"
require_relative "support/go"
require_relative "support/profiles"

RSpec.describe "memprofiler merge", :command do
  def file(name, stacks, **comments)
    File.join(@dir, name).tap { |path| Profiles.build(stacks, comments: comments).write(path) }
  end

  # Of three workers; the first line is in all of them.
  let(:workers) do
    (1..3).map do |pid|
      file("app.#{pid}.pb.gz", { ["a /a.rb:1"] => [10 * pid, 400 * pid, pid, 40 * pid], ["b /b.rb:#{pid}"] => [1, 100, 1, 100] },
           pid: pid, samples: 2, run: "a#{pid}-0")
    end
  end
  let(:out) { "#{@dir}/all.pb.gz" }

  def load(path = out) = Memprofiler::Profile.load(path)

  it "writes the sum of files to a new file of their owner's, and says what was summed" do
    expect(main("merge", out, *workers).to_a).to eq([0, "", "memprofiler merge: #{out}: the sum of 3 profiles, of 3 processes\n"])
    Profiles::METRICS.map(&:to_sym).each do |metric|
      expect(load.total(metric)).to eq(workers.sum { |path| load(path).total(metric) })
    end
    expect(Profiles.rows(load)).to contain_exactly(["/a.rb:1", 60, 60], ["/b.rb:1", 1, 1], ["/b.rb:2", 1, 1], ["/b.rb:3", 1, 1])
    expect(load.metadata).to include(processes: 3, pid: "1, 2, 3", samples: 6)
    expect(File.stat(out).mode & 0o777).to eq(0o600)
    expect(main("top", out).status).to eq(0)
  end

  it "is opened by Go's pprof", :go do
    main("merge", out, *workers)
    expect(Go.pprof("-sample_index=alloc_objects", "-top", out)).to match(/\b63 total\b/)
  end

  it "counts a folder's profiles, and what is given twice once" do
    workers
    expect(main("merge", "#{@dir}/first", @dir).err).to match(/note: .*3 profiles counted.*\n.*the sum of 3 profiles, of 3 processes\n\z/)
    main("merge", out, workers[0], "#{@dir}/./app.1.pb.gz").then do |result|
      expect(result.err).to match(/note: .* counts once.*\n.*the sum of 1 profile, of 1 process\n\z/)
    end
    expect(load.total(:alloc_objects)).to eq(11)
    File.unlink(out)
    File.rename("#{@dir}/first", "#{@dir}/first.pb.gz")
    other = main("merge", "#{@dir}/all", @dir) # with a sum among its parts
    expect(other.err).to include("left out")
    expect(load("#{@dir}/all").total(:alloc_objects)).to eq(63)
  end

  describe "of differences" do
    # Of one process, each from a state to the next.
    let(:deltas) do
      states = (1..4).map { |n| Profiles.build({ ["a /a.rb:1"] => [n * n, n * n * 40, 0, 0] }, comments: { pid: 7, samples: n * n, run: "a7-0" }, time: n) }
      states.each_cons(2).with_index.map { |(earlier, later), i| File.join(@dir, "d#{i}.pb.gz").tap { |path| (later - earlier).write(path) } }
    end

    it "adds adjacent ones up, and those of one process are of one" do
      expect(main("merge", out, *deltas).err).to eq("memprofiler merge: #{out}: the sum of 3 profiles, of 1 process\n")
      expect(load.total(:alloc_objects)).to eq(15)
      expect(main("top", out).out.lines.grep(/memprofiler|profile of/).join).to match(/pid 7, difference of two profiles/)
      expect(main("top", *deltas).out).to eq(main("top", out).out)
    end

    it "refuses a copy" do
      FileUtils.cp(deltas[0], copy = "#{@dir}/copy")
      expect(main("top", deltas[0], copy).to_a).to match([1, "", /\Amemprofiler top: these files can't be summed: #{copy}, after .*: two of the differences are of one run/])
    end

    it "leaves out of a folder what is there twice, and only that" do
      main("merge", "#{@dir}/all.pb.gz", *deltas.first(2))
      expect(main("merge", "#{@dir}/sum", @dir).err).to match(/all\.pb\.gz left out: the sum of .*d0\.pb\.gz, .*d1\.pb\.gz$/)
      File.unlink(deltas[1])
      expect(main("merge", "#{@dir}/again", @dir).err).to match(/d0\.pb\.gz left out: part of .*all\.pb\.gz$/)
      File.unlink(deltas[0])
      expect(main("merge", "#{@dir}/third", @dir).err).not_to include("left out")
      expect(%w[sum again third].map { |name| load("#{@dir}/#{name}").total(:alloc_objects) }).to eq([15, 15, 15])
    end
  end

  it "says of which processes it has something more than once" do
    forked = [2, 3].map { |pid| file("worker.#{pid}.pb.gz", { ["a /a.rb:1"] => [10, 400, 10, 400] }, pid: pid, run: "a#{pid}-0", forked_from: "a1-0") }
    master = file("master.pb.gz", { ["a /a.rb:1"] => [10, 400, 10, 400] }, pid: 1, run: "a1-0")
    expect(main("merge", out, master, *forked).err.lines.last)
      .to eq("memprofiler merge: note: processes that were forked with a running collector (1, 2, 3): what it had before counts in each\n")
    main("merge", "#{out}2", file("alone.pb.gz", { ["a /a.rb:1"] => [1, 40, 1, 40] }, pid: 9, run: "a9-0"), master, forked[0])
    expect(load("#{out}2").metadata[:forked_pids]).to eq("1, 2")
    heads = [master, forked[0], out].map { |path| main("top", path).out.lines.grep(/forked/) }
    expect(heads).to match([[], [/\Anote: the process was forked .*: what it had before the fork counts here too$/], [/\Anote: processes that were forked/]])
  end

  it "never replaces anything" do
    before = File.binread(workers[0])
    File.symlink("#{@dir}/nowhere", link = "#{@dir}/link")
    [workers[0], @dir, link].each do |there|
      expect(main("merge", there, *workers).to_a).to eq([1, "", "memprofiler merge: #{there}: there is something already, and it's never replaced\n"])
    end
    expect([File.binread(workers[0]), File.exist?("#{@dir}/nowhere")]).to eq([before, false])
  end

  it "leaves nothing where it fails, and says which file and why" do
    File.write(bad = "#{@dir}/bad.pb.gz", "text")
    same = file("same.pb.gz", { ["a /a.rb:1"] => [1, 40, 1, 40] }, pid: 1, run: "a1-0")
    {
      [bad] => /\Amemprofiler merge: #{bad}: /,
      ["#{@dir}/none"] => /\Amemprofiler merge: .*none: No such file or directory\n\z/,
      [workers[0], same] => /\Amemprofiler merge: these files can't be summed: #{same}, after .*one run of a collector \(pid 1\)/
    }.each do |files, error|
      expect(main("merge", out, *files).to_a).to match([1, "", error])
    end
    expect(File.exist?(out)).to be(false)
    expect(main("merge", "#{@dir}/no/all", *workers).to_a).to eq([1, "", "memprofiler merge: #{@dir}/no/all: No such file or directory\n"])
  end

  it "is a command" do
    expect(memprofiler("merge", "all.pb.gz", *workers).to_a.map(&:to_s)).to match([/exit 0/, "", "memprofiler merge: all.pb.gz: the sum of 3 profiles, of 3 processes\n"])
  end
end
