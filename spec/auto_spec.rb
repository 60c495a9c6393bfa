# frozen_string_literal: true

require_relative "support/command"

# RUBYOPT=-rmemprofiler/auto, in children of this process
RSpec.describe "memprofiler/auto", :command do
  let(:library) { File.expand_path("../lib", __dir__) }

  def ruby(program, *options, env: {}, auto: "#{library}/memprofiler/auto", run: [Command::RUBY])
    File.write("#{@dir}/app.rb", program)
    env = Command::CLEAN.merge("RUBYOPT" => "-r#{auto}", "MEMPROFILER" => "1", **env)
    out, err, status = Open3.capture3(env, *run, *options, "app.rb", chdir: @dir)
    Command::Result.new(status, out, err)
  end

  def written(folder = @dir)
    Dir.glob("#{folder}/*.pb.gz")
  end

  def allocated(path, line = "app.rb:1")
    row = Memprofiler::Profile.load(path).top(:alloc_objects).find { |candidate| candidate.name.end_with?(line) }
    row ? row.flat : 0
  end

  # Waits for files in the child
  let(:patience) { <<~RUBY }
    def await(count = 1)
      deadline = Process.clock_gettime(Process::CLOCK_MONOTONIC) + 60
      sleep 0.01 until (found = Dir.glob("*.\#{$$}.*.pb.gz")).size >= count || Process.clock_gettime(Process::CLOCK_MONOTONIC) > deadline
      found
    end
  RUBY

  it "does nothing unless it's asked to" do
    [nil, "", "0", "false", "FALSE", "off", "no"].each do |value|
      result = ruby("p defined?(Memprofiler)", env: { "MEMPROFILER" => value })
      expect([result.status.exitstatus, result.out, result.err]).to eq([0, "nil\n", ""])
    end
    expect(written).to be_empty
    expect(ruby("puts 1", env: { "MEMPROFILER" => "\xff" }).to_h).to include(out: "1\n")
  end

  it "writes a profile at the end, and the program's streams and status are its own" do
    result = ruby("3000.times { Object.new }; puts Memprofiler.status[:running]; exit 3", "-w", env: { "MEMPROFILER_INTERVAL" => "1" })
    expect([result.status.exitstatus, result.out, result.err]).to eq([3, "true\n", ""])
    expect(File.basename(written.first)).to match(/\Aapp\.rb\.\d+\.\d{8}T\d{6}Z\.pb\.gz\z/)
    expect(File.stat(written.first).mode & 0o777).to eq(0o600)
    expect(allocated(written.first)).to be_between(3000, 3100)
    expect(Memprofiler::Profile.load(written.first).labels).to include(:class, :pid)
  end

  it "writes one where an exception or TERM ends the program, and of what exit handlers do" do
    expect(ruby("at_exit { 700.times { Object.new } }; raise 'mine'", env: { "MEMPROFILER_INTERVAL" => "1" }).err).to include("mine (RuntimeError)")
    expect(allocated(written.first)).to be >= 700
    expect(ruby("Process.kill(:TERM, $$); sleep").status.termsig).to eq(Signal.list["TERM"])
    expect(written.size).to eq(2)
  end

  it "has all options of the collector" do
    env = { "MEMPROFILER_INTERVAL" => "7", "MEMPROFILER_MAX_DEPTH" => "9", "MEMPROFILER_MAX_SAMPLES" => "nil",
            "MEMPROFILER_TRACK_ONE_IN" => "2", "MEMPROFILER_LIVENESS" => "free" }
    options = ruby("p Memprofiler.instance_variable_get(:@current_options)", env: env)
    expect([eval(options.out), options.err]).to eq([{ interval: 7, max_depth: 9, max_samples: nil, track_one_in: 2, liveness: :free }, ""])
  end

  {
    "INTERVAL" => ["x", 'MEMPROFILER_INTERVAL must be an Integer from 1 to 1000000000, not "x": it has its default'],
    "MAX_DEPTH" => ["0", 'MEMPROFILER_MAX_DEPTH must be an Integer from 1 to 10000, not "0": it has its default'],
    "MAX_SAMPLES" => ["-1", 'MEMPROFILER_MAX_SAMPLES must be an Integer from 1 to 1000000000, or nil, not "-1": it has its default'],
    "TRACK_ONE_IN" => ["1.5", 'MEMPROFILER_TRACK_ONE_IN must be an Integer from 1 to 1000000, not "1.5": it has its default'],
    "LIVENESS" => ["\xFF", 'MEMPROFILER_LIVENESS must be auto, mark or free, not "\xFF": it has its default'],
    "EVERY" => ["soon", 'MEMPROFILER_EVERY must be a number of seconds above 0, not "soon": profiles are written at the end only'],
    "KEEP" => ["0", 'MEMPROFILER_KEEP must be a whole number of at least 1, not "0": it has its default'],
    "DIR" => ["app.rb/below", 'MEMPROFILER_DIR must be a folder that can be written, not "app.rb/below": the current folder is used'],
    "SIGNAL" => ["KILL", /\AMEMPROFILER_SIGNAL must be one of USR1, USR2, HUP, .*, not "KILL": no signal is trapped\z/]
  }.each do |name, (value, complaint)|
    it "says what MEMPROFILER_#{name} may be, and goes on" do
      result = ruby("puts 'unharmed'", env: { "MEMPROFILER_#{name}" => value })
      expect([result.status.exitstatus, result.out, result.err.lines.size]).to eq([0, "unharmed\n", 1])
      expect(result.err.chomp.delete_prefix("memprofiler: ")).to match(complaint)
      expect(written.size).to eq(1)
    end
  end

  it "names variables that there are not, once, with those that there are, and goes on" do
    env = { "MEMPROFILER_INTERVALL" => "1", "memprofiler_dir" => "d", "MEMPROFILER_a\nb" => "", "MEMPROFILER_RUN_QUIET" => "1", "MEMPROFILER_NO_SKIP" => "1" }
    result = ruby("Process.wait(fork { }); puts 'unharmed'", env: env)
    expect([result.status.exitstatus, result.out, result.err.lines.size]).to eq([0, "unharmed\n", 1])
    unknown, known = result.err.match(/\Amemprofiler: there is no (.*): there are (.*)\n\z/).captures
    expect(unknown.split(", ")).to contain_exactly("MEMPROFILER_INTERVALL", "memprofiler_dir", '"MEMPROFILER_a\nb"')
    expect(known.split(", ")).to match_array(%w[DIR EVERY INTERVAL KEEP LIVENESS MAX_DEPTH MAX_SAMPLES SIGNAL TRACK_ONE_IN].map { |name| "MEMPROFILER_#{name}" })
    expect(written.size).to eq(2)
  end

  it "makes the folder when the first profile comes, relative to where the program began" do
    ruby("Dir.chdir('/')", env: { "MEMPROFILER_DIR" => "a/b c" })
    expect(written("#{@dir}/a/b c").size).to eq(1)
  end

  it "says when a profile can't be written, and the status stays" do
    result = ruby("require 'fileutils'; FileUtils.rm_rf('d'); File.write('d', ''); exit 3", env: { "MEMPROFILER_DIR" => "d" })
    expect([result.status.exitstatus, result.err]).to match([3, /\Amemprofiler: no profile could be written: .+\n\z/])
  end

  it "never replaces a file" do
    ruby("at_exit { trap('EXIT') { } }; def Time.now = Time.at(0); ENV['x'] = Process.pid.to_s; File.write(\"app.rb.\#{$$}.19700101T000000Z.pb.gz\", 'mine')")
    mine, ours = written.partition { |path| File.read(path) == "mine" }
    expect([mine.size, ours.map { |path| File.basename(path) }]).to match([1, [/Z\.2\.pb\.gz\z/]])
  end

  describe "a signal" do
    let(:env) { { "MEMPROFILER_SIGNAL" => "USR2" } }

    it "has a profile written soon after, in each process, and the status says so" do
      result = ruby(<<~RUBY, "-w", env: env)
        #{patience}
        ask = lambda do
          before = Memprofiler.status[:services]
          Process.kill(:USR2, $$)
          await
          sleep 0.05 while Memprofiler.status[:services].first[:last].nil?
          p [before, Memprofiler.status[:services]].map { |services| services.map { |service| service.slice(:service, :signal, :written, :error) } }
          exit!(0)
        end
        Process.wait(fork(&ask))
        ask.call
      RUBY
      told = [0, 1].map { |count| [{ service: "signal", signal: "USR2", written: count, error: nil }] }
      expect([result.err, result.out.lines.map { |line| eval(line) }]).to eq(["", [told, told]])
      expect(written.map { |path| path[/\.(\d+)\./, 1] }.uniq.size).to eq(2)
    end

    it "may come at any time: in a handler, with a lock held, and often" do
      result = ruby(<<~RUBY, env: env)
        #{patience}
        trap("USR1") { Process.kill(:USR2, $$) }
        lock = Mutex.new
        lock.synchronize { 200.times { Process.kill(:USR1, $$); Process.kill(:USR2, $$) } }
        await
        $stdout.syswrite("unharmed\n")
        exit!(0)
      RUBY
      expect([result.err, result.out, result.status.exitstatus]).to eq(["", "unharmed\n", 0])
      expect(written.size).to be_between(1, 400)
    end

    # The first thread writes, the second one waits for that when it gets its end.
    {
      "killed" => "kill",
      "sent an exception, where one in any thread is the program's" => "raise(Exception, 'to all')"
    }.each do |what, deed|
      it "comes the next time when all threads are #{what}" do
        result = ruby(<<~RUBY, env: { "MEMPROFILER_INTERVAL" => "1", **env })
          #{patience}
          Thread.abort_on_exception = true
          KEPT = Array.new(100_000) { Object.new }
          20.times do
            2.times { Process.kill(:USR2, $$); sleep 0.002 }
            (Thread.list - [Thread.current]).reverse_each { |thread| thread.#{deed} }.each(&:join)
          end
          before = Dir.glob("*.gz").size
          Process.kill(:USR2, $$)
          exit!(await(before + 1).size - before)
        RUBY
        expect([result.err, result.status.exitstatus]).to eq(["", 1])
      end
    end

    # (A child in which the lock of its parent's thread stayed would write nothing.)
    it "may come as the program forks, in the middle of the parent's profile" do
      result = ruby(<<~RUBY, env: { "MEMPROFILER_INTERVAL" => "1", **env })
        #{patience}
        KEPT = Array.new(100_000) { Object.new }
        children = Array.new(6) do |i|
          Process.kill(:USR2, $$)
          sleep(0.004 * i)
          fork { Process.kill(:USR2, $$); exit!(await.size) }
        end
        $stdout.syswrite(children.map { |pid| Process.wait2(pid).last.exitstatus }.inspect)
        exit!(0)
      RUBY
      expect([result.err, result.out]).to eq(["", ([1] * 6).inspect])
    end

    it "comes to the handler that was there, too" do
      File.write("#{@dir}/early.rb", "trap('USR2') { |number| $stdout.syswrite(\"early \#{number}\\n\") }\n")
      result = ruby("#{patience}; Process.kill(:USR2, $$); await; exit!(0)", "-r./early.rb", env: env)
      expect([result.out, result.err]).to eq(["early #{Signal.list["USR2"]}\n", ""])
    end

    it "that the program traps is the program's" do
      result = ruby("trap('USR2') { $stdout.syswrite('mine') }; Process.kill(:USR2, $$); sleep 0.1; exit!(0)", env: env)
      expect([result.out, written]).to eq(["mine", []])
    end

    it "whose profile can't be written is told of once" do
      result = ruby(<<~RUBY, env: { "MEMPROFILER_DIR" => "d", **env })
        File.write("d", "")
        2.times { Process.kill(:USR2, $$); sleep 0.3 }
        p Memprofiler.status[:services].first[:error].class
        exit!(0)
      RUBY
      expect([result.out, result.err]).to match(["String\n", /\Amemprofiler: SIGUSR2: no profile could be written: .+\n\z/])
    end
  end

  describe "a child" do
    let(:env) { { "MEMPROFILER_INTERVAL" => "1" } }

    # What docs/puma-cluster.md says
    it "goes on with what it inherited, and has a file of its own, with its own pid" do
      ruby("1000.times { Object.new }\nProcess.wait(fork { 500.times { Object.new } })", env: env)
      counts = written.to_h do |path|
        profile = Memprofiler::Profile.load(path)
        pid = path[/rb\.(\d+)\./, 1].to_i
        expect([profile.metadata[:pid], profile.top(:alloc_objects, by: "label:pid").map(&:name)]).to eq([pid, [pid.to_s]])
        [pid, [1, 2].map { |line| allocated(path, "app.rb:#{line}").clamp(0, line == 1 ? 1000 : 500) }]
      end
      expect(counts.values.sort.map(&:first)).to eq([1000, 1000])
      expect(counts.values.map(&:last)).to include(500).and include(be < 500)
      expect(main("merge", "#{@dir}/all", *written).status).to eq(0)
      expect(allocated("#{@dir}/all")).to be_between(2000, 2020)
    end

    it "that becomes a daemon writes the file, with all there was" do
      ruby("1000.times { Object.new }\nProcess.daemon(true); File.write('pid', $$.to_s)", env: env)
      deadline = Process.clock_gettime(Process::CLOCK_MONOTONIC) + 60
      sleep 0.05 while written.empty? && Process.clock_gettime(Process::CLOCK_MONOTONIC) < deadline
      expect(written.map { |path| path[/rb\.(\d+)\./, 1] }).to eq([File.read("#{@dir}/pid")])
      expect(allocated(written.first)).to be >= 1000
    end

    it "that executes another program leaves a file if that is a Ruby" do
      expect(ruby("Process.wait(fork { exec('true') }); exit $?.exitstatus", env: env).status).to be_success
      expect(written.size).to eq(1)
      ruby("Process.wait(fork { exec('#{Command::RUBY}', '-e', '') })", env: env)
      expect(written.map { |path| File.basename(path)[/\A[a-z.]+(?=\.\d)/] }.tally).to eq("app.rb" => 2, "ruby" => 1)
    end

    it "that leaves by exit! writes nothing" do
      ruby("Process.wait(fork { exit!(0) })", env: env)
      expect(written.size).to eq(1)
    end
  end

  describe "with other ways to profile" do
    it "is not what `memprofiler run` goes by, which says so" do
      run = [Command::RUBY, Command::EXECUTABLE, "run", "--output", "out"]
      env = { "MEMPROFILER_INTERVAL" => "1", "MEMPROFILER_DIR" => "d" }
      expect(ruby("", run: [*run, "--", Command::RUBY], env: env).err.lines.first).to eq("memprofiler run: MEMPROFILER_INTERVAL not followed: here it's --interval\n")
      expect(ruby("", run: [*run, "--interval", "2", "--", Command::RUBY], env: env).err).not_to include("not followed")
      expect(ruby("", run: [*run, "--quiet", "--", Command::RUBY], env: env).err).to eq("")
    end

    it "leaves what is below `memprofiler run` to that" do
      result = ruby("p defined?(Memprofiler::Auto)", run: [Command::RUBY, Command::EXECUTABLE, "run", "--output", "out", "--quiet", "--", Command::RUBY])
      expect([result.status.exitstatus, result.out, result.err]).to eq([0, "nil\n", ""])
      expect([written, written("#{@dir}/out").size]).to eq([[], 1])
    end

    it "doesn't profile memprofiler's own commands" do
      ruby("")
      profile = written.first
      env = { "RUBYOPT" => "-r#{library}/memprofiler/auto", "MEMPROFILER" => "1", "MEMPROFILER_SIGNAL" => "USR2" }
      expect(memprofiler("top", profile, env: env).err).to eq("")
      loaded = Open3.capture2e(Command::CLEAN.merge(env), Command::RUBY, "-e", "load ARGV.shift", Command::EXECUTABLE, "top", profile, chdir: @dir)
      expect(loaded.first).to include("Top retainers")
      checkout = File.expand_path("../script/checkout.rb", __dir__)
      expect(Open3.capture2e(Command::CLEAN.merge(env), Command::RUBY, checkout, "--version", chdir: @dir).first).to eq("memprofiler #{Memprofiler::VERSION}\n")
      expect(written).to eq([profile])
    end

    it "is loaded once, whatever copies of it there are" do
      FileUtils.cp_r(library, "#{@dir}/copy")
      result = ruby('require "memprofiler"; p Memprofiler.status[:running], Memprofiler::Collector.instance_method(:stats).owner', "-W", "-I", "#{@dir}/copy",
                    auto: "#{library}/memprofiler/auto -r#{@dir}/copy/memprofiler/auto")
      expect([result.out, result.err, written.size]).to eq(["true\nMemprofiler::Collector\n", "", 1])
    end

    it "shares the collector with the program's own" do
      result = ruby('require "memprofiler"; p Memprofiler.start.equal?(Memprofiler.collector), Memprofiler.profile { Array.new(10) }.class', "-w", "-I", library)
      expect([result.out, result.err, written.size]).to eq(["true\nMemprofiler::Profile\n", "", 1])
    end
  end

  describe "where it can't be loaded" do
    it "works without RubyGems by its path" do
      expect(ruby("p defined?(Gem)", "--disable-gems").out).to eq("nil\n")
      expect(written.size).to eq(1)
    end

    # What docs/zero-code.md says
    it "ends the Ruby that doesn't find it" do
      result = ruby("puts 1", "--disable-gems", auto: "memprofiler/auto")
      expect([result.status.success?, result.out, result.err]).to match([false, "", %r{cannot load such file -- memprofiler/auto}])
    end

    it "leaves the program unharmed where there is no extension for its Ruby" do
      FileUtils.cp_r(library, "#{@dir}/copy")
      FileUtils.rm_rf("#{@dir}/copy/memprofiler/native")
      result = ruby("puts 1; exit 3", auto: "#{@dir}/copy/memprofiler/auto", env: { "MEMPROFILER" => "1" })
      expect([result.status.exitstatus, result.out, result.err]).to match([3, "1\n", /\Amemprofiler: this process is not profiled: .+\n\z/])
    end
  end

  it "writes profiles every so often", if: File.exist?(File.expand_path("../lib/memprofiler/file_flusher.rb", __dir__)) do
    result = ruby("#{patience}; 1000.times { Object.new }; await(2); p Memprofiler.status[:services].size", env: { "MEMPROFILER_EVERY" => "0.1", "MEMPROFILER_KEEP" => "3" })
    expect([result.out, result.err]).to eq(["1\n", ""])
    expect(written.size).to be_between(1, 3)
  end
end
