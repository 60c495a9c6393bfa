# frozen_string_literal: true

require_relative "support/child"

RSpec.describe "Memprofiler::FileFlusher" do
  SETUP = <<~RUBY
    def allocate(count) = Array.new(count) { Object.new }
    def files(dir = "profiles") = Dir.glob("\#{dir}/*").sort
    def loaded(dir = "profiles") = files(dir).map { |path| Memprofiler::Profile.load(path) }
    def flusher(**options) = Memprofiler::FileFlusher.new(dir: "profiles", every: 3_600, **options)
    # Objects that `allocate` made
    def made(profile, metric = :alloc_objects)
      profile.samples.sum { |s| s.labels["class"] == "Object" && s.stack.any? { |f| f.function.end_with?("#allocate") } ? s.values[metric] : 0 }
    end
    def wait_until
      300.times { yield ? (return true) : sleep(0.02) } # 6 s
      false
    end
    allocate(1)
  RUBY

  def value(code) = Child.value(SETUP + code)

  def result(code) = Child.ruby(SETUP + code)

  it "writes what was allocated and is in use, named by program, process and time, again and again" do
    names, pid, counts, labels, modes, seen, folder = value(<<~RUBY)
      $0 = "/srv/my app.rb"
      Memprofiler.start(interval: 1)
      kept = allocate(50)
      f = flusher(gc: true)
      paths = [f.flush]
      more = allocate(30)
      paths << f.flush
      often = Memprofiler::FileFlusher.new(dir: "often", every: 0.01, keep: 3).start
      seen = wait_until { often.status[:written] >= 6 }
      often.stop
      [paths.map { |path| File.basename(path) }, $$, paths.map { |path| p = Memprofiler::Profile.load(path); [made(p), made(p, :inuse_objects)] },
       Memprofiler::Profile.load(paths[0]).samples.filter_map { |s| s.labels["pid"] }.uniq, files.map { |path| File.stat(path).mode.to_s(8) },
       [seen, files("often").size], File.stat("profiles").mode.to_s(8), kept, more].first(7)
    RUBY
    expect(names).to all(match(/\Amy_app.rb\.#{pid}\.\d{8}T\d{6}Z(?:_2)?\.pb\.gz\z/))
    expect(names).to eq(names.sort)
    expect(counts).to eq([[50, 50], [80, 80]])
    expect([labels, modes.uniq, seen, folder]).to eq([[pid.to_s], ["100600"], [true, 3], "40700"])
  end

  it "keeps the newest of its own, and removes nothing else, be it of its names" do
    expect(value(<<~RUBY)).to eq([3, true, [0, 30], true, true, ["another", "another's"]])
      Memprofiler.start(interval: 1)
      Dir.mkdir("profiles")
      File.write("profiles/another.1.20200101T000000Z.pb.gz", "another")
      File.write("victim", "another's")
      f = flusher(keep: 3)
      first = f.flush
      taken = f.flush
      File.unlink(taken)
      File.symlink("../victim", taken) # at the place of one of its files
      stays = f.flush
      replaced = f.flush
      File.unlink(replaced)
      File.write(replaced, "x")
      before = f.status[:files].size
      30.times { f.flush }
      status = f.status
      [status[:files].size, status[:files].all? { |path| File.exist?(path) }, [status[:failed], status[:written] - 4],
       [first, stays].none? { |path| File.exist?(path) }, File.symlink?(taken) && File.read(replaced) == "x",
       [File.read(files.grep(/another/)[0]), File.read("victim")]]
    RUBY
  end

  it "follows no link that waits at the file's name, and replaces none" do
    expect(value(<<~RUBY)).to eq([["another's"], true, 1])
      Memprofiler.start
      Dir.mkdir("profiles")
      File.write("victim", "another's")
      now = Time.now.utc
      names = (-2..30).map { |s| "profiles/ruby.\#{$$}.\#{(now + s).strftime("%Y%m%dT%H%M%SZ")}.pb.gz" }
      links = [*names, "profiles/.memprofiler.\#{$$}.0"].each { |path| File.symlink("../victim", path) }
      path = flusher.flush
      [[File.read("victim")], links.all? { |link| File.symlink?(link) }, (files - links).size]
    RUBY
  end

  it "writes a last file at exit, in each process, and one of a daemon in the same folder" do
    counts, own = value(<<~RUBY)
      Memprofiler.start(interval: 1)
      f = flusher.start
      allocate(10)
      pids = Array.new(2) { |i| fork { allocate(100 * (i + 1)) } }
      pids << fork { sleep 0.01; Process.daemon; allocate(1_000); sleep 0.1 }
      pids.each { |pid| Process.wait(pid) }
      wait_until { files.size == 3 }
      f.stop
      [loaded.map { |p| [p.metadata[:pid] == $$, made(p)] }.sort_by(&:last), f.status.slice(:written, :failed, :running)]
    RUBY
    expect(counts).to eq([[true, 10], [false, 110], [false, 210], [false, 1_010]])
    expect(own).to eq(written: 1, failed: 0, running: false)
  end

  # As docs/puma-cluster.md has it: what boot allocated is in the files of all, and in no difference.
  it "gives numbers of workers that add up, by the difference of two files of each" do
    whole, forked, since, in_use, told = value(<<~RUBY)
      Memprofiler.start(interval: 1)
      kept = allocate(1_000)
      f = flusher(gc: true)
      pids = Array.new(2) { fork { f.flush; more = allocate(500); f.flush; more.size } }
      pids.each { |pid| Process.wait(pid) }
      master = Memprofiler::Profile.load(f.flush)
      workers = pids.map { |pid| Dir.glob("profiles/*.\#{pid}.*").map { |path| Memprofiler::Profile.load(path) }.sort_by(&:time) }
      sum = Memprofiler::Profile.sum([master, *workers.map(&:last)])
      since = Memprofiler::Profile.sum(workers.map { |earlier, later| later - earlier })
      [made(sum), sum.metadata[:forked_pids].split(", ").map(&:to_i).sort == [$$, *pids].sort, made(since), made(since, :inuse_objects),
       since.metadata.key?(:forked_pids), kept].first(5)
    RUBY
    expect([whole, forked, since, told]).to eq([4_000, true, 1_000, false]) # 1,000 three times, and twice 500
    expect(in_use).to be_between(1_000, 1_002)
  end

  it "leaves the parent's files to the parent, though it was never started" do
    expect(value(<<~RUBY)).to eq([2, 1])
      Memprofiler.start
      f = flusher(keep: 1)
      f.flush
      Process.wait(fork { f.flush; f.flush; exit!(0) })
      [files.size, f.status[:files].size]
    RUBY
  end

  it "survives a folder that can't be written: says so once, counts, and goes on when it can" do
    answer = result(<<~RUBY)
      File.write("profiles", "a file")
      f = Memprofiler::FileFlusher.new(dir: "profiles", every: 0.01).start
      seen = wait_until { f.status[:failed] >= 3 }
      error, at = f.status.values_at(:last_error, :last_error_at)
      asked = begin f.flush rescue [$!.class, $!.message] end
      File.unlink("profiles")
      again = wait_until { f.status[:written] >= 1 }
      f.stop
      [seen, error, asked, again, files.any? && at.between?(Time.now - 100, Time.now) && !f.status[:last_error].nil?, Dir.pwd]
    RUBY
    seen, error, asked, again, any, folder = answer.value
    expect([seen, again, any]).to eq([true, true, true])
    expect(error).to match(%r{\A#{folder}/profiles/-e\.?.*: Not a directory\z|\A#{folder}/profiles/.*: Not a directory\z})
    expect(asked).to match([Memprofiler::WriteError, /Not a directory/])
    expect(answer.err.scan("memprofiler files").size).to eq(1)
    expect(answer.err).to end_with(": Not a directory (said once; it goes on)\n")
  end

  it "survives a full disk, leaves no half file there, and goes on when there is room" do
    Dir.mktmpdir do |dir|
      mounted = Process.uid.zero? && system("mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", dir, %i[out err] => File::NULL)
      skip_or_fail("needs root, who may mount a tmpfs") unless mounted
      begin
        answer = result(<<~RUBY)
          dir = #{dir.dump}
          File.write("\#{dir}/ballast", "x" * 65_536) rescue nil
          f = Memprofiler::FileFlusher.new(dir: dir, every: 0.01, keep: 2).start
          seen = wait_until { f.status[:failed] >= 3 }
          left = Dir.children(dir)
          error = f.status[:last_error]
          File.unlink("\#{dir}/ballast")
          again = wait_until { f.status[:written] >= 3 }
          f.stop
          [seen, left, error, again, loaded(dir).size]
        RUBY
        seen, left, error, again, kept = answer.value
        expect([seen, left, again, kept]).to eq([true, ["ballast"], true, 2])
        expect(error).to end_with(": No space left on device")
        expect(answer.err.lines.size).to eq(1)
      ensure
        system("umount", dir)
      end
    end
  end

  it "counts and tells what fails by the program's doing" do
    failed, error, again = value(<<~RUBY)
      Memprofiler.start
      f = flusher(every: 0.01).start
      now = Time.method(:now)
      broken = true
      Time.define_singleton_method(:now) { |*options| now.call(*options) unless broken }
      failed = wait_until { f.status[:failed] >= 2 }
      error = f.status[:last_error]
      broken = false
      before = f.status[:written]
      [failed, error, wait_until { f.status[:written] > before }]
    RUBY
    expect([failed, error, again]).to match([true, /\ANoMethodError: undefined method .utc. for nil/, true])
  end

  it "writes in a signal handler, and once only what a stopped collector has" do
    expect(value(<<~RUBY)).to eq([nil, true, 0, 1])
      Memprofiler.start
      f = flusher.start
      answer = 1
      trap(:USR1) { answer = f.flush }
      Process.kill(:USR1, $$)
      seen = wait_until { f.status[:written] == 1 }
      Memprofiler.stop
      f.flush
      before = f.status[:written]
      2.times { f.flush }
      f.stop
      [answer, seen, f.status[:written] - before, files.size - 1]
    RUBY
  end

  it "takes another collector, starts the process' own if there's none, and is among the services while it runs" do
    expect(value(<<~RUBY)).to eq([Memprofiler::NotStartedError, Memprofiler::NotStartedError, [5, false], true, ["file_flusher", true, "profiles", 3_600, 10, 0, 0, [], nil], []])
      own = Memprofiler::Collector.new(interval: 1)
      refused = begin flusher(collector: own).start rescue $!.class end
      never = begin flusher.flush rescue $!.class end
      own.start
      allocate(5)
      flusher(collector: own).start.stop
      counted = [made(loaded[0]), Memprofiler.status[:running]]
      f = flusher.start
      status = Memprofiler.status[:services].map { |s| [*s.values_at(:service, :running), File.basename(s[:dir]), *s.values_at(:every, :keep, :written, :failed, :files, :last_error)] }
      running = Memprofiler.status[:running]
      f.start.stop.stop
      [refused, never, counted, running, status[0], Memprofiler.status[:services]]
    RUBY
  end

  {
    { dir: 3 } => [TypeError, "dir must be a String or a Pathname that isn't empty and has no NUL, not 3"],
    { dir: "" } => [ArgumentError, /dir must be a String or a Pathname that isn't empty.*, not ""\z/],
    { every: 0 } => [ArgumentError, "every must be a number from 0.01 to 86400, not 0"],
    { every: Float::NAN } => [ArgumentError, "every must be a number from 0.01 to 86400, not NaN"],
    { every: "1" } => [TypeError, 'every must be a number from 0.01 to 86400, not "1"'],
    { keep: 0 } => [ArgumentError, "keep must be an Integer from 1 to 100000, not 0"],
    { keep: 1.5 } => [TypeError, "keep must be an Integer from 1 to 100000, not 1.5"],
    { collector: 1 } => [TypeError, "collector must be a Memprofiler::Collector, or nil for the process' own, not 1"],
    { labels: [:no] } => [ArgumentError, /labels must be among :class, :age, :thread and :pid, not :no/],
    { labels: nil } => [TypeError, /labels must be an Array/],
    { gc: nil } => [TypeError, "gc must be true or false, not nil"]
  }.each do |options, (error, message)|
    it "refuses #{options}" do
      expect { Memprofiler::FileFlusher.new(dir: "x", **options) }.to raise_error(error, message)
    end
  end
end
