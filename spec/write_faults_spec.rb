# frozen_string_literal: true

require_relative "support/command"
require_relative "support/profiles"

# A full disk, a pipe that nobody reads, a process killed as it writes: one line that says so, the
# right exit status, and under a file's name there is a whole profile, or what was there before.
# (FileFlusher on a full disk: file_flusher_spec.rb.)
RSpec.describe "Writing that fails", :command do
  ONE_LINE = /\A[^\n]+: No space left on device\n\z/

  def profile
    @profile ||= Profiles.build(Array.new(800) { |i| [["f#{i} /app/#{i}.rb:#{i}"], [i + 1, i * 40, 1, 40]] }.to_h)
  end

  # How many there are: all can be loaded, and what else is there has a name that says so.
  def check_files(dir = @dir)
    names = Dir.children(dir)
    whole, rest = names.partition { |name| name.end_with?(".pb.gz") }
    expect(rest.grep_v(/\A\.memprofiler\.\d+\.\d+\z/)).to eq([])
    whole.each { |name| Memprofiler::Profile.load("#{dir}/#{name}") }
    whole.size
  end

  describe "on a full disk" do
    around do |example|
      mounted = Process.uid.zero? && system("mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", @dir, %i[out err] => File::NULL)
      skip_or_fail("needs root, who may mount a tmpfs") unless mounted
      begin
        example.run
      ensure
        system("umount", "-l", @dir)
      end
    end

    # So many pages stay: for an empty file, say, or the list of a run.
    def fill(pages_left)
      Dir.mkdir("#{@dir}/out")
      File.write("#{@dir}/small", "x" * 4096 * pages_left)
      begin
        File.open("#{@dir}/ballast", "w") { |file| loop { file.syswrite("x" * 4096) } }
      rescue Errno::ENOSPC
        File.unlink("#{@dir}/small")
      end
    end

    it "raises what names the file, and leaves none" do
      fill(1)
      path = "#{@dir}/heap.pb.gz"
      expect { profile.write(path) }.to raise_error(Memprofiler::WriteError, "#{path}: No space left on device")
      expect(Dir.children(@dir)).to contain_exactly("ballast", "out")
    end

    it "fails merge in a line, and leaves no file" do
      Dir.mktmpdir do |from|
        profile.write("#{from}/a.pb.gz")
        fill(1)
        result = memprofiler("merge", "sum.pb.gz", from)
        expect([result.status.exitstatus, result.out]).to eq([1, ""])
        expect(result.err).to eq("memprofiler merge: sum.pb.gz: No space left on device\n")
        expect(Dir.children(@dir)).to contain_exactly("ballast", "out")
      end
    end

    it "keeps run from beginning when there is no room for its list" do
      fill(0)
      result = run_ruby("-e", "puts 1")
      expect([result.status.exitstatus, result.out]).to eq([1, ""])
      expect(result.err).to match(ONE_LINE)
      expect(Dir.children("#{@dir}/out")).to eq([])
    end

    it "costs run the profile, not the program, and its status is the program's" do
      fill(2)
      result = run_ruby("-e", "300.times { |i| eval('Object.new', nil, \"f\#{i}.rb\") }; puts 'done'; exit 3", options: %w[--interval 1])
      expect([result.status.exitstatus, result.out]).to eq([3, "done\n"])
      expect(result.err).to match(/\Amemprofiler run: no profile was written\nnote: 1 process could not save a profile: Errno::ENOSPC: No space left on device \(ruby \d+\)\n\z/)
      expect(check_files("#{@dir}/out")).to eq(0)
    end

    it "costs the rake task the profile, not the script" do
      fill(3)
      File.write("#{rake = Dir.mktmpdir}/Rakefile", <<~RUBY)
        $LOAD_PATH.unshift(*#{$LOAD_PATH.grep(/memprofiler|native|core|lib\z/).inspect})
        require "memprofiler/rake_task"
        Memprofiler::RakeTask.new { |t| t.script = "s.rb"; t.output = "#{@dir}/out"; t.interval = 1 }
      RUBY
      File.write("#{rake}/s.rb", "300.times { |i| eval('Object.new', nil, \"f\#{i}.rb\") }; puts 'done'")
      out, err, status = Open3.capture3(Command::RUBY, Gem.bin_path("rake", "rake"), "memprofile", chdir: rake)
      expect([status.exitstatus, out]).to eq([0, "done\n"])
      expect(err).to match(/1 process could not save a profile: Errno::ENOSPC: No space left on device \(s\.rb \d+\)$/)
      expect(check_files("#{@dir}/out")).to eq(0)
    ensure
      FileUtils.rm_rf(rake)
    end
  end

  # The system's answer to more than that is a signal which ends whoever has no handler for it.
  describe "where files may only be so large" do
    def limited(bytes, program, env: {})
      File.write("#{@dir}/limited.rb", "Process.setrlimit('FSIZE', #{bytes})\n#{program}\nexit 3\n")
      command = [Command::CLEAN.merge(env), Command::RUBY, "-I", File.expand_path("../lib", __dir__), "limited.rb"]
      _, status = Process.wait2(Process.spawn(*command, err: "#{@dir}/err", chdir: @dir))
      expect(status.exitstatus).to eq(3)
      expect(Dir.glob(["#{@dir}/**/*.pb.gz", "#{@dir}/**/.memprofiler.*"])).to eq([])
      File.read("#{@dir}/err")
    end

    it "is an error as others are, and the signal's handler stays the program's" do
      limited(200, <<~RUBY)
        require "memprofiler"
        trap("XFSZ") { File.write("handled", "") }
        begin
          Memprofiler.profile { nil }.write("heap.pb.gz")
        rescue Memprofiler::WriteError => e
          File.write("message", e.message)
        end
        exit 4 if File.exist?("handled")
        Process.kill("XFSZ", $$)
        sleep 0.01 until File.exist?("handled")
      RUBY
      expect(File.read("#{@dir}/message")).to eq("heap.pb.gz: File too large")
    end

    it "costs the flusher and memprofiler/auto their files, not the program" do
      env = { "RUBYOPT" => "-rmemprofiler/auto", "MEMPROFILER" => "1" }
      expect(limited(200, "", env: env)).to start_with("memprofiler: no profile could be written: File too large")
      expect(limited(200, "sleep 0.3", env: env.merge("MEMPROFILER_EVERY" => "0.05"))).to match(/\Amemprofiler: memprofiler files: .*: File too large/)
    end

    it "costs the program nothing either where what is to be said of that finds no room" do
      [0, 30].each do |bytes|
        expect(limited(bytes, "", env: { "RUBYOPT" => "-rmemprofiler/auto", "MEMPROFILER" => "1" }).size).to eq(bytes)
        expect(run_ruby("-e", "Process.setrlimit('FSIZE', #{bytes}); exit 3").status.exitstatus).to eq(3)
      end
    end
  end

  # Command-line programs have it back, so as to end quietly below `head`.
  describe "where SIGPIPE ends the program" do
    def unheard(program, env = {})
      File.write("#{@dir}/unheard.rb", "trap('PIPE', 'SYSTEM_DEFAULT')\n#{program}\nexit 3\n")
      reader, writer = IO.pipe
      reader.close
      command = [Command::CLEAN.merge(env), Command::RUBY, "-I", File.expand_path("../lib", __dir__), "unheard.rb"]
      Process.wait2(Process.spawn(*command, err: writer, chdir: @dir)).last
    ensure
      writer.close
    end

    it "doesn't when nobody reads what is said of a profile" do
      status = unheard("Process.setrlimit('FSIZE', 0)", { "RUBYOPT" => "-rmemprofiler/auto", "MEMPROFILER" => "1" })
      expect(status.exitstatus).to eq(3)
    end

    it "doesn't when the server that profiles are pushed to hangs up, and is the program's own again afterwards" do
      program = <<~RUBY
        require "memprofiler"
        require "socket"
        server = TCPServer.new("127.0.0.1", 0)
        Thread.new { loop { server.accept.close } }
        Memprofiler.start(interval: 1)
        exporter = Memprofiler::PyroscopeExporter.new(url: "http://127.0.0.1:\#{server.local_address.ip_port}", app_name: "app").start
        kept = Array.new(5_000) { |i| eval("Object.new", nil, "file\#{i}.rb") }
        20.times do
          exporter.push
        rescue Memprofiler::PushError
          nil
        end
      RUBY
      expect(unheard(program).exitstatus).to eq(3)
      expect(unheard("#{program}$stderr.syswrite('x')").termsig).to eq(Signal.list["PIPE"])
    end
  end

  describe "to a stream" do
    before { profile.write("#{@dir}/heap.pb.gz") }

    def shell(script)
      out, err, status = Open3.capture3(Command::CLEAN, "bash", "-c", script, "bash", Command::RUBY, Command::EXECUTABLE, chdir: @dir)
      [status.exitstatus, out.lines.size, err]
    end

    it "says in a line that top's JSON found no room", if: File.exist?("/dev/full") do
      expect(shell('"$@" top --json heap.pb.gz > /dev/full')).to eq([1, 0, "memprofiler top: cannot write the output: No space left on device\n"])
    end

    it "ends quietly when head has seen enough" do
      expect(shell('"$@" top -n 800 heap.pb.gz | head -3; exit "${PIPESTATUS[0]}"')).to eq([0, 3, ""])
      expect(shell('"$@" top --json heap.pb.gz | head -1; exit "${PIPESTATUS[0]}"')).to eq([0, 1, ""])
    end
  end

  describe "by a process that is killed" do
    before { profile.pprof_data } # the children have it

    def kill_while(random, upto)
      reader, writer = IO.pipe
      pid = fork do
        writer.write("begun")
        $stdout.reopen(File::NULL)
        $stderr.reopen(File::NULL)
        yield
      ensure
        exit!(0)
      end
      reader.readpartial(5)
      sleep(random.rand(upto))
      Process.kill(:KILL, pid)
    ensure
      Process.wait(pid)
      [reader, writer].each(&:close)
    end

    it "leaves whole files, whenever it is" do
      random = Random.new(1)
      profile.write("#{@dir}/first.pb.gz")
      before = File.binread("#{@dir}/first.pb.gz")
      30.times do |round|
        kill_while(random, 0.05) do
          (1..).each { |n| profile.write("#{@dir}/#{round}.#{n}.pb.gz") }
        end
      end
      expect(check_files).to be_positive
      expect(File.binread("#{@dir}/first.pb.gz")).to eq(before)
      expect(main("top", @dir).status).to eq(0) # what was left over is no profile to it
    end

    it "leaves whole files where there are no links, but for an empty one with the name it was killed at" do
      random = Random.new(2)
      allow(File).to receive(:link).and_raise(Errno::EPERM)
      30.times do |round|
        kill_while(random, 0.05) { (1..).each { |n| profile.write("#{@dir}/#{round}.#{n}.pb.gz") } }
      end
      Dir.glob("#{@dir}/*.pb.gz").select { |path| File.empty?(path) }.each { |path| File.unlink(path) }
      expect(check_files).to be_positive
    end

    it "leaves whole files of a FileFlusher's, and the next process' goes on beside them" do
      random = Random.new(3)
      flush = lambda do
        collector = Memprofiler::Collector.new(interval: 1)
        collector.start
        flusher = Memprofiler::FileFlusher.new(dir: @dir, every: 60, keep: 3, collector: collector)
        loop { flusher.flush }
      end
      15.times { kill_while(random, 0.3) { flush.call } }
      expect(check_files).to be_positive
    end

    it "leaves merge's OUT as a whole file or not at all" do
      random = Random.new(4)
      profile.write("#{@dir}/a.pb.gz")
      10.times do |round|
        kill_while(random, 0.3) { loop { |n| Memprofiler::CLI.main(["merge", "#{@dir}/sum.#{round}.#{n}.pb.gz", "#{@dir}/a.pb.gz"]) } }
      end
      check_files
    end

    it "is told by run, whose own folder has whole files" do
      result = run_ruby("-e", "Array.new(1000) { Object.new }; Process.kill(:KILL, $$)", options: %w[--interval 1])
      expect(result.status.termsig).to eq(9)
      expect(result.err).to include("1 process left no profile")
      expect(check_files("#{@dir}/out")).to eq(0)
    end
  end
end
