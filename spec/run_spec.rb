# frozen_string_literal: true

require_relative "support/command"

RSpec.describe "memprofiler run", :command do
  # Allocates that many Objects on a line of its own.
  def allocating(count) = "#{count}.times { Object.new }"

  def load(path) = Memprofiler::Profile.load(path)

  # Those allocated on a line, in all profiles (Ruby itself allocates there, too:
  # caches of methods, its code)
  def allocated(line, paths = profiles)
    samples = paths.flat_map { |path| load(path).samples }.select { |sample| sample.labels["class"] == "Object" }
    samples = samples.select do |sample|
      frame = sample.stack.find { |candidate| !candidate.file.empty? }
      frame && "#{frame.file}:#{frame.line}".end_with?(line)
    end
    samples.sum { |sample| sample.values[:alloc_objects] }
  end

  def script(name, text)
    File.join(@dir, name).tap { |path| File.write(path, text) && File.chmod(0o755, path) }
  end

  let(:nothing_sampled) { "memprofiler run: no object was sampled, so there is nothing to show (--interval 1 records every object)\n" }
  def no_ruby(folder) = "no profile, as no Ruby was seen to begin a program (one that ignores RUBYOPT can't be seen; one that is still starting will write its profile to #{folder})"
  let(:ruby_ended) do
    "no profile, as this Ruby ended before its program began (a file that isn't there, -c, -v), or ignores RUBYOPT"
  end

  describe "the command" do
    it "has its streams and its exit status to itself" do
      result = run_ruby("-e", "$stdout.write $stdin.read.upcase; $stderr.puts 'to stderr'; exit 7", stdin_data: "a\0b\n")
      expect(result.status.exitstatus).to eq(7)
      expect(result.out).to eq("A\0B\n")
      expect(result.err).to start_with("to stderr\n")
    end

    it "gets its words as they are" do
      result = memprofiler("run", "--quiet", "--output", "out", "--", "printf", "%s|", "a b", "*", "$HOME", "--quiet", "--", "")
      expect(result.out).to eq("a b|*|$HOME|--quiet|--||")
    end

    it "fails as it would alone" do
      result = run_ruby("-e", "raise 'mine'")
      expect(result.status.exitstatus).to eq(1)
      expect(result.err).to start_with("-e:1:in `<main>': mine (RuntimeError)\n").or start_with("-e:1:in '<main>': mine (RuntimeError)\n")
      expect(profiles.size).to eq(1)
    end

    it "ends by a signal if it did" do
      result = memprofiler("run", "--quiet", "--", "sh", "-c", "kill -SEGV $$")
      expect(result.status).to be_signaled.and have_attributes(termsig: Signal.list["SEGV"])
      expect(result.err).to eq("")
    end

    it "keeps RUBYOPT and RUBYLIB" do
      result = run_ruby("-e", "p $VERBOSE, $:.include?('/some/where'), ENV['RUBYOPT'].end_with?(' -w')",
                        env: { "RUBYOPT" => "-w", "RUBYLIB" => "/some/where" })
      expect(result.out).to eq("true\ntrue\ntrue\n")
    end

    it "finds nothing new but Memprofiler" do
      program = "p Object.constants.sort, $LOADED_FEATURES.map { |path| File.basename(path) }.sort, $stdin.fileno, File.open('/dev/null').fileno"
      alone, = Open3.capture2(Command::CLEAN, Command::RUBY, "-e", program)
      result = run_ruby("-e", program)
      constants, features, *numbers = result.out.lines
      expect(numbers).to eq(alone.lines.drop(2))
      expect(eval(constants) - eval(alone.lines[0])).to eq(%i[Memprofiler])
      expect(eval(features) - eval(alone.lines[1])).to contain_exactly(
        "errors.rb", "forks.rb", "memprofiler.#{RbConfig::CONFIG["DLEXT"]}", "new_file.rb", "preload.rb", "printable.rb", "profile.rb", "session.rb", "version.rb", "vm_faults.rb"
      ).or contain_exactly(
        "forks.rb", "memprofiler.#{RbConfig::CONFIG["DLEXT"]}", "new_file.rb", "preload.rb", "printable.rb", "profile.rb", "session.rb", "vm_faults.rb"
      )
    end

    it "may be any: a script with a shebang, a shell that calls Ruby, no Ruby at all" do
      path = script("tool", "#!#{Command::RUBY}\n#{allocating(1000)}\n")
      expect(memprofiler("run", "--output", "out", "--interval", "1", "--", path).status).to be_success
      expect(allocated("tool:2")).to eq(1000)

      memprofiler("run", "--output", "out2", "--", "sh", "-c", "#{Command::RUBY} #{path}; #{Command::RUBY} #{path}")
      expect(Dir.children("#{@dir}/out2").size).to eq(3)

      result = memprofiler("run", "--", "true")
      expect(result.err).to match(/\Amemprofiler run: #{Regexp.escape(no_ruby("@")).sub("@", "memprofiler-[\\d-]+")}\n\z/)
      expect(Dir.glob("#{@dir}/memprofiler-*")).to be_empty
    end

    it "works under Bundler" do
      File.write("#{@dir}/Gemfile", "")
      result = memprofiler("run", "--output", "out", "--interval", "1", "--", Command::RUBY, "-S", "bundle", "exec", Command::RUBY, "-e", allocating(1000))
      expect(result.status).to be_success
      expect(allocated("-e:1")).to eq(1000)
    end
  end

  describe "a command that can't be run" do
    it "is told by its status, and leaves nothing" do
      File.write(plain = "#{@dir}/plain", "no program")
      script("badint", "#!/no/such/interpreter\n")
      {
        "nonesuch-#{$$}" => [127, "command not found"], "./nonesuch" => [127, "command not found"],
        plain => [126, "Permission denied"], @dir => [126, "Permission denied"], "./badint" => [126, "cannot be executed"]
      }.each do |command, (status, why)|
        result = memprofiler("run", "--", command)
        expect([result.status.exitstatus, result.out, result.err]).to eq([status, "", "memprofiler run: #{command}: #{why}\n"])
      end
      expect(Dir.glob("#{@dir}/memprofiler-*")).to be_empty
    end

    it "is told of where no descriptors are left for it, and leaves nothing" do
      few = 5.upto(14).map do |limit|
        run = ["sh", "-c", "ulimit -n #{limit}; exec \"$@\"", "sh", Command::RUBY, "--disable-gems", Command::EXECUTABLE, "run", "--output", "out"]
        out, err, status = Open3.capture3(Command::CLEAN, *run, "--", "echo", "1", chdir: @dir)
        next if out == "1\n" || !err.start_with?("memprofiler") # enough; or even Ruby couldn't start

        [err, status.success?, Dir.children(@dir)]
      end
      expect(few.compact).to all match([/\Amemprofiler run: .+: Too many open files.*\n\z/, false, []])
      expect(few.compact).not_to be_empty
    end

    it "is refused when the folder can't be written" do
      File.write("#{@dir}/file", "")
      %w[file file/below /proc/none].each do |folder|
        result = memprofiler("run", "--output", folder, "--", "touch", "ran")
        expect(result.status.exitstatus).to eq(1)
        expect(result.err).to match(/\Amemprofiler run: cannot write to #{File.expand_path(folder, @dir)}: .+\n\z/)
      end
      expect(Dir.children(@dir)).to eq(["file"])
    end
  end

  describe "a folder" do
    it "that is gone by the command's end has no report, and a reason" do
      {
        "FileUtils.rm_rf('out'); exit!(3)" => %r{#{@dir}/out was removed or renamed while the command ran},
        "File.rename('out', 'moved'); exit!(3)" => %r{#{@dir}/out was removed or renamed while the command ran},
        "FileUtils.rm_rf('out')" => %r{the list of its processes was removed from #{@dir}/out .* \(what profiles there are: memprofiler top },
        "FileUtils.rm(Dir.glob('out/.run.*'))" => %r{the list of its processes was removed from #{@dir}/out .* \(what profiles there are: memprofiler top }
      }.each do |program, reason|
        result = run_ruby("-rfileutils", "-e", "#{program}; exit 3")
        expect([result.status.exitstatus, result.out]).to eq([3, ""])
        expect(result.err).to match(/\Amemprofiler run: no report: #{reason}.*\n\z/)
        FileUtils.rm_rf("#{@dir}/out")
      end
    end

    it "that has no room for the list of processes is refused" do
      limited = ["sh", "-c", 'ulimit -f 0; exec "$@"', "sh", Command::RUBY, Command::EXECUTABLE]
      out, err, status = Open3.capture3(Command::CLEAN, *limited, "run", "--output", "out", "--", "touch", "ran", chdir: @dir)
      expect([out, err, status.exitstatus]).to eq(["", "memprofiler run: cannot write to #{@dir}/out: File too large\n", 1])
      expect(Dir.children(@dir)).to be_empty
    end

    it "may be any, and the current one gone" do
      Dir.mkdir(gone = "#{@dir}/gone")
      in_gone = ["sh", "-c", 'cd "$0" && rmdir "$0" && exec "$@"', gone, Command::RUBY, Command::EXECUTABLE]
      call = ->(*words) { Open3.capture3(Command::CLEAN, *in_gone, *words).tap { Dir.mkdir(gone) } }
      _, err, status = call.call("run", "--interval", "1", "--output", "#{@dir}/out", "--", Command::RUBY, "-e", allocating(1000))
      expect([err, status.exitstatus]).to match([/-e:1.*memprofiler top #{profiles.first}\n\z/m, 0])
      expect(call.call("top", profiles.first)).to match([/-e:1/, "", be_success])
      expect(call.call("run", "--", "true")[1]).to eq("memprofiler run: cannot write to a new folder: the current folder is gone\n")
    end
  end

  describe "the report" do
    it "names the lines that allocated most and made most of what is in use, and what opens the profile" do
      script("leak.rb", "KEPT = []\n2000.times { KEPT << 'x' * 1000 }\n")
      result = run_ruby("leak.rb", options: %w[--interval 1])
      path = profiles.first.delete_prefix("#{@dir}/")
      expect(path).to match(%r{\Aout/leak\.rb\.\d+\.pb\.gz\z})
      expect(result.err).to include("exact: every object was recorded (interval 1)")
      expect(result.err).to match(/^Top allocators by line: alloc_space, .*\n.*flat.*\n +\d.* leak\.rb:2\n/)
      expect(result.err).to match(/^Top retainers by line: inuse_space, .*\n.*flat.*\n +\d.* leak\.rb:2\n/)
      expect(result.err).to end_with("Open it next:\n  go tool pprof -http=: #{path}\n  memprofiler top #{path}\n")
      expect(result.out).to eq("")
      expect(memprofiler("top", "--by", "class", path).out).to include("String")
    end

    it "says on how many samples figures rest, and how far they may be off" do
      script("leak.rb", "KEPT = []\n20_000.times { KEPT << 'x' * 1000 }\n")
      report = run_ruby("leak.rb", options: %w[--interval 20]).err
      expect(report).to match(%r{^samples: \d{3,4} of allocations, \d{3,4} of objects in use\nerror \(95 %\): alloc_objects \+/- \d\.\d%, })
      expect(report.scan(%r{^ +flat +flat% +cum +cum% +\+/- +samples  line\n +.* +\d\.\d% +\d{3,4}  leak\.rb:2\n}).size).to eq(2)
    end

    it "is left out by --quiet" do
      expect(run_ruby("-e", allocating(10), options: %w[--quiet]).err).to eq("")
      expect(profiles.size).to eq(1)
    end

    it "is short when there's nothing in it" do
      result = run_ruby("-e", "", options: %w[--interval 1000000000])
      expect(result.err).to eq(nothing_sampled)
      result = run_ruby("-e", "fork { exit!(0) }; Process.wait", options: %w[--interval 1000000000])
      expect(result.err).to match(/\A#{Regexp.escape(nothing_sampled)}note: 1 process left no profile .*\n\z/)
    end

    it "finds its files below a folder of any name" do
      program = "2.times { fork { #{allocating(1000)} } }; Process.waitall"
      result = memprofiler("run", "--output", "a\tb\nc", "--interval", "1", "--", Command::RUBY, "-e", program)
      expect(Dir.children("#{@dir}/a\tb\nc").size).to eq(4)
      expect(result.err).to include("Open it next").and include("3 processes")
    end

    it "goes nowhere where stderr is closed, and the status stays" do
      run = [Command::RUBY, Command::EXECUTABLE, "run", "--output", "out", "--", Command::RUBY, "-e", "exit 5"]
      _, status = Open3.capture2(Command::CLEAN, "sh", "-c", 'exec "$@" 2>&-', "sh", *run, chdir: @dir)
      expect(status.exitstatus).to eq(5)
      expect(profiles.size).to eq(1)
    end
  end

  describe "the files" do
    it "go to a new folder by default" do
      2.times { memprofiler("run", "--quiet", "--", Command::RUBY, "-e", "") }
      folders = Dir.glob("#{@dir}/memprofiler-*")
      expect(folders.map { |folder| File.basename(folder) }).to all match(/\Amemprofiler-\d{8}-\d{6}(\.\d)?\z/)
      expect(folders.map { |folder| Dir.children(folder).size }).to eq([1, 1])
    end

    it "are their owner's, and never replace one that is there" do
      program = "File.write(\"#{@dir}/out/ruby.\#{$$}.pb.gz\", 'mine'); File.umask(0)"
      run_ruby("-e", program)
      mine, ours = profiles.partition { |path| File.read(path) == "mine" }
      expect(mine.size).to eq(1)
      expect(ours.map { |path| [File.basename(path), File.stat(path).mode & 0o777] })
        .to match([[/\Aruby\.\d+\.2\.pb\.gz\z/, 0o600]])
      expect(Dir.children("#{@dir}/out").size).to eq(2)
    end

    it "may have any bytes in their paths, in any locale" do
      Dir.mkdir("#{@dir}/tést")
      path = script("tést/\xFFé.rb", "p 1; exit 3")
      %w[C C.UTF-8].each do |locale|
        result = memprofiler("run", "--output", "o\xFFé-#{locale}", "--interval", "1", "--", Command::RUBY, path,
                             env: { "LC_ALL" => locale }, dir: "#{@dir}/tést")
        expect([result.status.exitstatus, result.out]).to eq([3, "1\n"])
        expect(Dir.children("#{@dir}/tést/o\xFFé-#{locale}")).to match([/\A_\.rb\.\d+\.pb\.gz\z/])
        expect(result.err.b).to include("Top allocators").and include("memprofiler top $'o\\xff\\xc3")
      end
    end

    it "are made below folders that aren't there" do
      memprofiler("run", "--output", "a/b c/d", "--", Command::RUBY, "-e", "")
      expect(Dir.children("#{@dir}/a/b c/d").size).to eq(1)
    end
  end

  describe "child processes" do
    it "write a file each, and their sum is the truth" do
      path = script("family.rb", <<~RUBY)
        3000.times { Object.new }
        2.times do
          fork do
            2000.times { Object.new }
          end
        end
        popen = IO.popen("-") or (1000.times { Object.new }; exit)
        popen.read
        system(#{Command::RUBY.inspect}, "-e", "500.times { Object.new }")
        Process.waitall
      RUBY
      result = run_ruby(path, options: %w[--interval 1])
      expect(result.status).to be_success
      expect(profiles.size).to eq(6) # the parent, its four children, and the sum
      merged, single = profiles.partition { |file| file.end_with?("/merged.pb.gz") }
      [merged, single].each do |files|
        expect(%w[family.rb:1 family.rb:4 family.rb:7 -e:1].map { |line| allocated(line, files) }).to eq([3000, 4000, 1000, 500])
      end
      expect(result.err).to include("5 processes").and end_with("memprofiler top out/merged.pb.gz\n")
    end

    it "may replace themselves" do
      run_ruby("-e", "exec(#{Command::RUBY.inspect}, '-e', #{allocating(1000).inspect})", options: %w[--interval 1])
      expect(profiles.size).to eq(1)
      expect(allocated("-e:1")).to eq(1000)
    end

    it "may become daemons" do
      reader, writer = IO.pipe
      program = "#{allocating(1000)}; Process.daemon(true, true); 500.times { Object.new }"
      memprofiler("run", "--output", "out", "--interval", "1", "--", Command::RUBY, "-e", program, writer.fileno => writer)
      writer.close
      reader.read # until the daemon has ended
      expect(allocated("-e:1")).to eq(1500)
    end

    it "are told of when they live on, under the number that their profile will have" do
      wait = "[$stdout, $stderr].each { |io| io.reopen(File::NULL) }; IO.for_fd(ARGV[0].to_i).read"
      {
        "fork { #{allocating(1000)}; READ }" => 1, # a profile of the parent's
        "exit!(0) if fork; READ" => 0,
        "Process.daemon(true, true); READ" => 0
      }.each do |program, written|
        FileUtils.rm_rf("#{@dir}/out")
        reader, writer = IO.pipe
        result = memprofiler("run", "--output", "out", "--interval", "1", "--", Command::RUBY, "-e", program.sub("READ", wait),
                             reader.fileno.to_s, reader.fileno => reader)
        reader.close
        number = result.err[/^note: 1 process still running: its profile comes later \(ruby (\d+)\)$/, 1]
        expect([result.status.exitstatus, profiles.size, number]).to match([0, written, String])
        expect(result.err.include?("memprofiler run: no profile was written yet\n")).to be(written.zero?)
        expect(File.exist?(path = "#{@dir}/out/ruby.#{number}.pb.gz")).to be(false)
        writer.close
        sleep(0.01) until File.exist?(path)
      end
    end

    it "are told of when they leave no profile" do
      result = run_ruby("-e", "fork { exit!(0) }; Process.wait")
      expect(result.err).to match(/^note: 1 process left no profile \(exit!, exec, killed, or it could not write at its end\) \(ruby \d+\)$/)
      expect(profiles.size).to eq(1)
    end

    it "are told of when another program takes their place" do
      ruby = Command::RUBY.inspect
      result = run_ruby("-e", "exec(#{ruby}, '-e', 'exec(#{ruby}, \"-e\", \"1\")')", options: %w[--interval 1])
      expect(result.err).to match(/^note: 2 programs left no profile: another program took their place, by exec \(ruby (\d+), ruby \1\)$/)
      expect(profiles.size).to eq(1)

      result = run_ruby("-e", "exec('env', 'MEMPROFILER_RUN_RUBY=truffleruby', #{ruby}, '-e', '')")
      expect(result.err).to match(/\Amemprofiler run: no profile was written\nnote: 1 program left no .* by exec .*\nnote: 1 process could not be profiled/)

      # (cat ends when nobody has the pipe any more.)
      program = "Process.daemon(true, true); exec(#{ruby}, '-e', '1')"
      result = memprofiler("run", "--output", "out2", "--interval", "1", "--", "sh", "-c", "#{ruby} -e \"$0\" | cat", program)
      expect(result.err.scan(/^note: .*/)).to match([/\Anote: 1 program left no profile: another program took its place, by exec \(ruby \d+\)\z/])

      result = run_ruby("-e", "exec('true')")
      expect(result.err).to match(/\Amemprofiler run: no profile was written\nnote: 1 process left no profile \(exit!, exec, /)
    end

    it "are no others where they can't become any" do
      program = <<~RUBY
        [-> { Process.daemon(1, 2, 3) }, -> { Process.fork(1) }].each { |wrong| wrong.call rescue nil }
        Process.singleton_class.prepend(Module.new { def _fork = raise(Errno::EAGAIN) })
        fork rescue exit!(0)
      RUBY
      expect(run_ruby("-e", program).err).to match(/\Amemprofiler run: no profile was written\nnote: 1 process left no profile \(exit!/)
    end
  end

  describe "a process that can't be profiled" do
    def unharmed(ruby = [Command::RUBY], env: {}, command: [])
      result = memprofiler("run", "--output", "out", "--", *command, *ruby, "-e", "puts 1 + 1; exit 3", env: env)
      expect([result.status.exitstatus, result.out]).to eq([3, "2\n"])
      result.err
    end

    it "runs unharmed on another Ruby, and the report says so" do
      err = unharmed(command: %w[env MEMPROFILER_RUN_RUBY=truffleruby])
      expect(err).to match(/\Amemprofiler run: no profile was written\nnote: 1 process could not be profiled: it is ruby #{RUBY_VERSION} on .*, and memprofiler was built for another Ruby/)
      expect(Dir.exist?("#{@dir}/out")).to be(false)
    end

    it "runs unharmed where the extension doesn't load" do
      expect(unharmed(command: ["env", "MEMPROFILER_RUN_EXTENSION=#{@dir}/none.so"])).to include("could not be profiled: LoadError")
    end

    it "runs unharmed with RUBYOPT cleared, or ignored" do
      expect(unharmed(command: %w[env -u RUBYOPT])).to include(no_ruby("out"))
      expect(unharmed([Command::RUBY, "--disable=rubyopt"])).to include(ruby_ended)
    end

    it "is told from one that has no program" do
      File.symlink(Command::RUBY, "#{@dir}/myruby")
      path = script("tool", "#!/usr/bin/env -S ruby -c\n")
      [[Command::RUBY, "nosuch.rb"], [Command::RUBY, "-c", "tool"], [Command::RUBY, "-v"], ["./myruby", "-v"], [path]].each do |command|
        result = memprofiler("run", "--", *command, env: { "PATH" => "#{File.dirname(Command::RUBY)}:#{ENV["PATH"]}" })
        expect(result.err.lines.last).to eq("memprofiler run: #{ruby_ended}\n")
      end
      expect(Dir.glob("#{@dir}/memprofiler-*")).to be_empty
    end

    it "runs unharmed after the run is over, or without its variables" do
      expect(unharmed(command: %w[env -u MEMPROFILER_RUN_MANIFEST])).to include(no_ruby("out"))
    end

    it "is no process without gems, which can be" do
      unharmed([Command::RUBY, "--disable-gems"])
      expect(profiles.size).to eq(1)
    end

    it "is none below a path with blanks, and all below one with blanks and colons" do
      library = File.expand_path("../lib", __dir__)
      { "with blanks" => 1, "blanks : colons" => 0 }.each do |name, count|
        Dir.mkdir(folder = "#{@dir}/#{name}")
        FileUtils.cp_r([library, File.dirname(Command::EXECUTABLE)], folder)
        out, err, status = Open3.capture3(Command::CLEAN, Command::RUBY, "#{folder}/exe/memprofiler", "run", "--output", "#{folder}/out",
                                          "--", Command::RUBY, "-e", "puts 1 + 1; exit 3")
        expect([status.exitstatus, out]).to eq([3, "2\n"])
        expect(Dir.glob("#{folder}/out/*").size).to eq(count)
        expect(err.start_with?("memprofiler run: nothing will be profiled")).to be(count.zero?)
      end
    end
  end

  describe "a program that has changed its surroundings" do
    {
      "changed its folder" => "Dir.chdir('/')",
      "closed its streams" => "$stdin.close; $stdout.close; $stderr.close",
      "set a umask" => "File.umask(0777)",
      "lost its variables" => "ENV.clear",
      "replaced File and Process" => "$VERBOSE = nil; Object.const_set(:File, Class.new); Object.const_set(:Process, Module.new)",
      "replaced require" => "module Kernel; def require(*) = raise(LoadError, 'no'); end",
      "turned the collector off" => "GC.disable",
      "is in a handler that exits" => "at_exit { exit 0 }",
      "has threads at work" => "4.times { Thread.new { loop { 'x' * 10 } } }"
    }.each do |what, program|
      it "is profiled all the same when it #{what}" do
        result = run_ruby("-e", "#{allocating(1000)}; #{program}", options: %w[--interval 1 --quiet])
        expect([result.status.exitstatus, result.out, result.err]).to eq([0, "", ""])
        expect(allocated("-e:1")).to be >= 1000
      end
    end

    it "is unharmed when it may not write any more", if: Process.uid.zero? do
      result = run_ruby("-e", "Process::UID.change_privilege(65_534); puts 'unharmed'; exit 3")
      expect([result.status.exitstatus, result.out]).to eq([3, "unharmed\n"])
      expect(result.err).to match(/^memprofiler run: ruby \d+: no profile could be saved: Errno::EACCES: Permission denied .*\.memprofiler/)
      expect(result.err).to include("1 process left no profile")
      expect(run_ruby("-e", "Process::UID.change_privilege(65_534)", options: %w[--quiet]).err).to eq("")
    end

    # The run had nothing, and took its folder along.
    it "is profiled when it begins in the background as the command ends" do
      result = memprofiler("run", "--output", "out", "--", "sh", "-c", "(sleep 0.5; #{Command::RUBY} -e '#{allocating(1000)}') >/dev/null 2>&1 &")
      expect(result.err).to include(no_ruby("out"))
      deadline = Process.clock_gettime(Process::CLOCK_MONOTONIC) + 60
      sleep 0.05 while profiles.empty? && Process.clock_gettime(Process::CLOCK_MONOTONIC) < deadline
      expect(profiles.size).to eq(1)
    end

    it "is profiled when it has a copy of this library itself, and profiles itself" do
      FileUtils.cp_r(File.expand_path("../lib", __dir__), copy = "#{@dir}/copy")
      result = run_ruby("-w", "-I", copy, "-e", <<~RUBY, options: %w[--interval 1])
        require "memprofiler"
        #{allocating(700)}
        puts Memprofiler.profile(interval: 1) { 300.times { Object.new } }.top(:alloc_objects, by: :line).sum(&:flat).between?(300, 310)
      RUBY
      expect([result.status.exitstatus, result.out]).to eq([0, "true\n"])
      expect(result.err).not_to include("warning")
      expect([allocated("-e:2"), allocated("-e:3")]).to eq([700, 300])
    end

    it "is profiled with what its own exit handlers do" do
      run_ruby("-e", "at_exit { 700.times { Object.new } }", options: %w[--interval 1])
      expect(allocated("-e:1")).to eq(700)
    end

    # minitest/autorun and its like, loaded by -r before RUBYOPT's
    it "is profiled with what handlers do that come after ours" do
      script("early.rb", "at_exit { 70_000.times { Object.new } }\n")
      run_ruby("-r./early.rb", "-e", "", options: %w[--interval 1])
      expect(profiles.size).to eq(1)
      expect(allocated("early.rb:1")).to eq(70_000)
    end

    # By then Ruby has taken off all hooks: the collection of the second profile must be seen all the same,
    # or, where there was one before it, the first profile stays.
    {
      "it allocates" => ["$late = Array.new(30_000) { Object.new }", "$held = Array.new(5_000) { Object.new }"],
      "it collects" => ["$late = Array.new(30_000) { Object.new }; GC.start", "$held = Array.new(5_000) { Object.new }"],
      "Ruby says what was meant" => ["", "$held = Array.new(5_000) { Object.new }; no_such_name"]
    }.each do |name, (late, program)|
      it "is known for what it holds, whatever comes after our handler (#{name})" do
        script("early.rb", "at_exit { #{late} }\n")
        run_ruby("-r./early.rb", "-e", program, options: %w[--interval 1])
        held = load(profiles.first).top(:inuse_objects).find { |row| row.name == "-e:1" }
        expect(held.flat).to be_between(5_000, 5_020)
      end
    end
  end

  describe "a program that does what it likes" do
    # What ended well has its own status and output, and one profile; nothing else is left.
    def profiled(*arguments, out: "", status: 3, **options)
      result = run_ruby("-W0", *arguments, **options)
      expect([result.status.exitstatus, result.out]).to eq([status, out])
      expect(Dir.children("#{@dir}/out")).to match([/\.pb\.gz\z/])
      result.err
    end

    it "may transcode all it writes" do
      profiled("-e", "Encoding.default_external = Encoding.default_internal = 'UTF-8'; #{allocating(1000)}; exit 3", options: %w[--interval 1])
      expect(allocated("-e:1")).to eq(1000)
    end

    it "may be run with all names transcoded" do
      script("pr\u00f6g.rb", "#{allocating(1000)}; exit 3")
      %w[C C.UTF-8].each do |locale|
        result = memprofiler("run", "--interval", "1", "--output", locale, "--", Command::RUBY, "pr\u00f6g.rb", env: { "LC_ALL" => locale, "RUBYOPT" => "-U" })
        expect(result.status.exitstatus).to eq(3)
        expect(result.err).to include("Top allocators").and end_with(".pb.gz\n")
      end
    end

    ["pr\u00f6g.rb", "b\xFF.rb"].each do |name|
      it "may have a name that no locale has: #{name.dump}" do
        script(name, "p 1; exit 3")
        expect(profiled(name, out: "1\n", env: { "LC_ALL" => "C" }, options: %w[--interval 1])).to include("Top allocators")
      end
    end

    it "may be in a folder that no locale has" do
      dir = "#{@dir}/t\u00e9st\xFF"
      Dir.mkdir(dir)
      File.write("#{dir}/prog.rb", "#{allocating(1000)}; exit 3\n")
      result = memprofiler("run", "--output", "o\u00e9", "--interval", "1", "--", Command::RUBY, "prog.rb", env: { "LC_ALL" => "C" }, dir: dir)
      expect(result.status.exitstatus).to eq(3)
      expect(result.err).to include("Top allocators").and end_with(".pb.gz'\n")
      path = Dir.glob("#{dir}/o*/*").first
      expect(memprofiler("top", path, env: { "LC_ALL" => "C" }, dir: dir).out).to include("Top retainers")
    end

    # Ruby asks an argument that isn't what a method takes for to_str, to_hash, to_int, ...
    it "isn't asked anything, whatever it answers" do
      script("asked.rb", <<~RUBY)
        class Object
          def method_missing(name, *)
            $stdout.syswrite("\#{self.class}#\#{name} ")
            exit! 9
          end
        end
        trap("INT") { nil }
        #{allocating(1000)}
        exit 3
      RUBY
      script("early.rb", "at_exit { 70_000.times { Object.new } }\n") # profiled again, after this
      profiled("-r./early.rb", "asked.rb", options: %w[--interval 1])
      expect([allocated("asked.rb:8"), allocated("early.rb:1")]).to eq([1000, 70_000])
    end

    # (But by Ruby's own `require`, and what 3.4 looks up there under Bundler, whoever calls it.)
    it "isn't asked anything at its start either" do
      script("early.rb", "class Object; def method_missing(*) = caller(1, 1).first.match?(/bundled_gems\\.rb:|\\b(?:require|require_relative|set_encoding)'\\z/) ? super : exit!(9); end\n")
      profiled("-r./early.rb", "-e", "#{allocating(1000)}; exit 3", options: %w[--interval 1])
      expect(allocated("-e:1")).to eq(1000)
    end

    it "isn't converted, whatever it can be converted to" do
      script("converts.rb", <<~RUBY)
        %i[to_str to_hash to_ary to_path to_int to_io to_proc to_a to_open].each do |name|
          [Object, String].each { |owner| owner.define_method(name) { $stdout.syswrite(name) } unless owner.method_defined?(name) }
        end
        exit 3
      RUBY
      profiled("converts.rb")
    end

    {
      "joins nothing" => "class Array; def join(*) = raise(Exception, 'no'); end",
      "writes nothing" => "class IO; def write(*) = raise(Exception, 'no'); def syswrite(*) = raise(Exception, 'no'); end",
      "has no clock" => "def Process.clock_gettime(*) = raise(Exception, 'no')",
      "opens nothing" => "def File.open(*) = raise(Exception, 'no')",
      "makes nothing" => "class Class; undef new; end",
      "has errors without messages" => "class IO; def write(*) = raise(TypeError, 'no'); end; class Exception; def message = raise('no'); end",
      "closes nothing" => "class IO; def close = raise(Exception, 'no'); end",
      "traps nothing" => "def Signal.trap(*) = raise(Exception, 'no')"
    }.each do |what, program|
      it "is unharmed when it #{what}" do
        result = run_ruby("-W0", "-e", "at_exit { exit 3 }; #{program}")
        expect([result.status.exitstatus, result.out]).to eq([3, ""])
        expect(result.err).not_to match(/^(?!note: ).*\bno \(/) # an error that got out
        left = Dir.exist?("#{@dir}/out") ? Dir.children("#{@dir}/out") : []
        expect(left).to be_empty.or match([/\Aruby\.\d+\.pb\.gz\z/])
      end
    end

    # Ruby asks whatever is to be a finalizer, and warns of what that raises.
    it "is told nothing of the profiler's finalizer when it responds to nothing" do
      result = run_ruby("-e", "module Kernel; def respond_to?(*) = raise(Exception, 'no'); end; exit 3", options: %w[--quiet])
      expect([result.status.exitstatus, result.err]).to eq([3, ""])
    end

    it "may make Ractors: where none can be profiled its profile ends there" do
      err = profiled("-e", "#{allocating(1000)}\nprint Ractor.new { 1 }.then { |r| r.respond_to?(:value) ? r.value : r.take }; exit 3",
                     out: "1", options: %w[--interval 1])
      expect(allocated("-e:1")).to eq(1000)
      expect(err.include?("note: profiling stopped early: a Ractor")).to be(Memprofiler::VMFaults::RACTORS_CRASH)
    end

    it "may use up its descriptors" do
      profiled("-e", <<~RUBY, options: %w[--interval 1])
        #{allocating(1000)}
        Process.setrlimit("NOFILE", 50, Process.getrlimit("NOFILE").last)
        files = []
        loop { files << File.open(File::NULL) } rescue exit 3
      RUBY
      expect(allocated("-e:1")).to eq(1000)
    end

    it "may be one that must not write any more" do
      [0, 100].each do |bytes|
        result = run_ruby("-e", "Process.setrlimit('FSIZE', #{bytes}); #{allocating(10_000)}; exit 3")
        expect(result.status.exitstatus).to eq(3)
        expect(result.err).to include("no profile was written")
        expect(Dir.exist?("#{@dir}/out") ? Dir.children("#{@dir}/out") : []).to be_empty
      end
    end
  end

  describe "in short" do
    it "shows the example's leak" do
      result = run_ruby(File.expand_path("../examples/leak.rb", __dir__))
      expect(result.out).to eq("40000 visits, 40000 pages kept\n")
      expect(result.err[/^Top retainers.*\n.*\n(.*)$/, 1]).to end_with("examples/leak.rb:41")
    end
  end
end
