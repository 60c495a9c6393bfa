# frozen_string_literal: true

require "etc"
require "json"
require "open3"
require "timeout"
require_relative "../support/child"
require_relative "../support/command"
require_relative "../support/profiles"

# Who may read what is written, and what somebody else can do who may write to the same folder.
RSpec.describe "files and their folders", :command do
  let(:profile) { Profiles.build({ ["a /a.rb:1"] => [1, 40, 1, 40] }, comments: { pid: 1 }) }

  def mode(path) = format("%o", File.lstat(path).mode & 0o7777)

  def without_umask
    before = File.umask(0)
    yield
  ensure
    File.umask(before)
  end

  # Another user of this machine
  def as_nobody(*command)
    skip_or_fail("needs root, who may be nobody") unless Process.uid.zero?
    Process.wait(fork do
      Process::Sys.setgid(Etc.getpwnam("nobody").gid)
      Process::Sys.setuid(Etc.getpwnam("nobody").uid)
      exec(*command, %i[out err] => File::NULL)
    end)
    $?.success?
  end

  describe "with no umask at all" do
    it "are their owner's: of run, its folders, its sum and its list" do
      without_umask do
        memprofiler("run", "--output", "a/b", "--", Command::RUBY, "-e", "fork {}; Process.wait; File.write('seen', Dir.glob('a/b/.run.*').map { |f| File.stat(f).mode.to_s(8) }.join)")
        memprofiler("run", "--", Command::RUBY, "-e", "exit")
      end
      expect(File.read("#{@dir}/seen")).to eq("100600")
      folders, files = Dir.glob("#{@dir}/{a,a/b,memprofiler-*}/{.,**/*}").map { |path| File.expand_path(path) }.uniq.partition { |path| File.directory?(path) }
      expect(folders.size).to eq(3)
      expect(folders.map { |path| mode(path) }.uniq).to eq(["700"])
      expect(files.size).to eq(4)
      expect(files.map { |path| mode(path) }.uniq).to eq(["600"])
    end

    it "are their owner's: of a file flusher, of variables, of merge, of Profile#write" do
      without_umask do
        files = Child.value(<<~RUBY)
          File.umask(0)
          require "memprofiler/auto/files"
          Memprofiler.start
          file = Memprofiler::FileFlusher.new(dir: "flusher").flush
          other = Memprofiler::Auto::Files.new(File.expand_path("auto/below")).write
          [file, other, File.dirname(file), File.dirname(other), File.dirname(other, 2)].map { |path| File.stat(path).mode.to_s(8) }
        RUBY
        expect(files).to eq(%w[100600 100600 40700 40700 40700])
        profile.write("#{@dir}/one")
        expect(main("merge", "#{@dir}/sum", "#{@dir}/one").status).to eq(0)
        expect([mode("#{@dir}/one"), mode("#{@dir}/sum")]).to eq(%w[600 600])
      end
    end

    it "are their owner's under any other umask too" do
      before = File.umask(0o777)
      profile.write("#{@dir}/one")
      expect(mode("#{@dir}/one")).to eq("600")
    ensure
      File.umask(before)
    end

    # All of them, by one program; as another user too, whom a folder without rights keeps out
    EVERY_FOLDER = <<~RUBY
      File.umask(Integer(ENV.fetch("MASK"), 8))
      require "memprofiler/auto/files"
      require "memprofiler/run/output"
      Memprofiler.start
      file = Memprofiler::FileFlusher.new(dir: "flusher").flush
      other = Memprofiler::Auto::Files.new(File.expand_path("auto/below")).write
      run = Memprofiler::Run::Output.new("run/below")
      fresh = Memprofiler::Run::Output.new(nil)
      paths = [file, other, File.dirname(file), File.dirname(other), File.dirname(other, 2), run.path, File.dirname(run.path), fresh.path, run.manifest]
      modes = paths.map { |path| File.lstat(path).mode.to_s(8) }
      [modes, run.entries, fresh.entries]
    RUBY
    MODES = ["100600", "100600", *["40700"] * 6, "100600"].freeze

    %w[777 077 300 022].each do |mask|
      it "are their owner's under the umask #{mask}, of all that makes folders" do
        expect(Child.value(EVERY_FOLDER, env: { "MASK" => mask })).to eq([MODES, [], []])
      end

      it "are their owner's under the umask #{mask}, who isn't root" do
        skip_or_fail("needs root, who may be nobody") unless Process.uid.zero?
        expect(Child.value(<<~RUBY, env: { "MASK" => mask })).to eq([MODES, [], []])
          require "etc"
          %w[auto/files run/output].each { |file| require "memprofiler/\#{file}" } # the checkout may be nobody's business
          [Memprofiler::Arguments, Memprofiler::FileFlusher]
          nobody = Etc.getpwnam("nobody")
          File.chmod(0o711, ".")
          Dir.mkdir("nobody")
          File.chown(nobody.uid, nobody.gid, "nobody")
          pipe = IO.popen("-") or begin
            Dir.chdir("nobody")
            Process::Sys.setgid(nobody.gid)
            Process::Sys.setuid(nobody.uid)
            print Marshal.dump(eval(#{EVERY_FOLDER.dump})).unpack1("H*")
            $stdout.flush
            exit!(0)
          end
          Marshal.load([pipe.read].pack("H*"))
        RUBY
      end
    end

    it "follow no link that has come to a new folder's name" do
      Dir.mkdir("#{@dir}/victim", 0o000)
      before = File.umask(0o777)
      allow(File).to receive(:lstat).and_wrap_original do |lstat, path|
        lstat.call(path).tap { Dir.rmdir(path) && File.symlink("#{@dir}/victim", path) }
      end
      expect { Memprofiler::NewFile.make_folder("#{@dir}/taken") }.to raise_error(SystemCallError)
      allow(File).to receive(:lstat).and_call_original
      expect(mode("#{@dir}/victim")).to eq("0")
    ensure
      File.umask(before)
    end
  end

  it "leave a folder that is there as it is" do
    Dir.mkdir("#{@dir}/out")
    File.chmod(0o755, "#{@dir}/out")
    run_ruby("-e", "exit")
    Child.value("Memprofiler.start; Memprofiler::FileFlusher.new(dir: #{"#{@dir}/out".dump}).flush")
    expect([mode("#{@dir}/out"), profiles.size]).to eq(["755", 2])
  end

  it "can't be read, removed or listed by another user" do
    File.chmod(0o755, @dir)
    run_ruby("-e", "exit")
    expect(as_nobody("ls", "#{@dir}/out")).to be(false)
    File.chmod(0o1777, "#{@dir}/out")
    expect(as_nobody("ls", "#{@dir}/out")).to be(true)
    expect(as_nobody("cat", profiles.first)).to be(false)
    expect(as_nobody("rm", "-f", profiles.first)).to be(false)
  end

  # Whatever waits at a name: it's neither written to nor replaced nor waited for, and what it leads to stays.
  describe "at a name that is taken" do
    # Ruby code, as it's done here, and in another process that knows the names it will take.
    PLANTED = {
      "a link to a file" => "File.symlink(victim, path)", "a link to nothing" => "File.symlink(victim + '.none', path)",
      "a hard link" => "File.link(victim, path)", "a pipe" => "File.mkfifo(path)", "a folder" => "Dir.mkdir(path)",
      "a link to a folder" => "File.symlink(File.dirname(victim), path)", "a link to a device" => "File.symlink('/dev/full', path)",
      "a file that anybody may write" => "File.write(path, ''); File.chmod(0o666, path)"
    }.freeze

    PLANTED.each do |what, deed|
      it "#{what} stays as it is" do
        File.write(victim = "#{@dir}/victim", "mine")
        path = "#{@dir}/taken"
        eval(deed)
        before = File.lstat(path)
        Timeout.timeout(60) do
          expect { profile.write(path) }.to raise_error(Memprofiler::WriteError, /there already, and is never replaced/)
          profile.write("#{@dir}/one")
          expect(main("merge", path, "#{@dir}/one").to_a).to eq([1, "", "memprofiler merge: #{path}: there is something already, and it's never replaced\n"])
          expect(Child.value(<<~RUBY)).to eq([true, 1, "_2.pb.gz", 1])
            Memprofiler.start
            Dir.mkdir("profiles")
            victim = #{victim.dump}
            now = Time.now.utc
            names = (0..20).map { |s| "profiles/ruby.\#{$$}.\#{(now + s).strftime("%Y%m%dT%H%M%SZ")}.pb.gz" } << "profiles/.memprofiler.\#{$$}.0"
            names.each { |path| #{deed} }
            path = Memprofiler::FileFlusher.new(dir: "profiles").flush
            [File.lstat(path).file?, File.lstat(path).nlink, path[/Z(.*)/, 1], Dir.glob("profiles/{.m*,*}").size - names.size]
          RUBY
        end
        expect([File.lstat(path).ino, File.lstat(path).mode, File.lstat(path).size]).to eq([before.ino, before.mode, before.size])
        expect(File.read(victim)).to eq("mine")
        expect(File.exist?("#{victim}.none")).to be(false)
      end
    end
  end

  describe "of run, where others may write to its folder" do
    # What somebody does who may write to it, as soon as the list is there; then two programs begin, and end.
    def attacked(deed)
      Dir.mkdir("#{@dir}/out")
      File.chmod(0o777, "#{@dir}/out")
      File.write("#{@dir}/victim", "mine")
      program = <<~RUBY
        list = Dir.glob("out/.run.*")[0]
        eval(ENV["DEED"])
        system(RbConfig.ruby, "-e", "Array.new(20_000) { Object.new }; fork { exit }; Process.wait; puts 1")
        puts 2
      RUBY
      Timeout.timeout(120) { run_ruby("-e", program, env: { "DEED" => deed }) }
    end

    {
      "a link" => "File.unlink(list); File.symlink('../victim', list)",
      "a link to a device" => "File.unlink(list); File.symlink('/dev/full', list)",
      "a pipe that nobody reads" => "File.unlink(list); File.mkfifo(list)",
      "a folder" => "File.unlink(list); Dir.mkdir(list)",
      "another list" => "File.unlink(list); File.write(list, \"started\\t1\\tx\\t\\nprofile\\t1\\tx\\t../victim\\n\")"
    }.each do |what, deed|
      it "#{what} in the place of its list harms nobody" do
        result = attacked(deed)
        expect([result.out, result.status.exitstatus]).to eq(["1\n2\n", 0])
        expect(File.read("#{@dir}/victim")).to eq("mine")
        expect(result.err).to match(/\Amemprofiler run: no report: the list of its processes was removed from .*\n\z/)
      end
    end

    it "a line of the list that leads elsewhere, or to a pipe, is no file of its own" do
      result = attacked("File.open(list, 'a') { |f| f.write(\"started\\t1\\tx\\t\\nprofile\\t1\\tx\\t../victim\\nstarted\\t2\\tx\\t\\nprofile\\t2\\tx\\tpipe\\n\") }; File.mkfifo('out/pipe')")
      expect([result.out, result.status.exitstatus]).to eq(["1\n2\n", 0])
      expect(result.err).to include("out/victim: No such file or directory", "out/pipe: not a file", "3 processes")
    end

    it "a name that waits for its new folder is not taken, whatever it leads to" do
      Dir.mkdir("#{@dir}/trap")
      now = Time.now
      names = (-1..30).map { |s| "#{@dir}/#{(now + s).strftime("memprofiler-%Y%m%d-%H%M%S")}" }
      names.each_with_index { |name, i| i.even? ? File.symlink("trap", name) : Dir.mkdir(name) }
      result = memprofiler("run", "--", Command::RUBY, "-e", "exit")
      expect(result.status.exitstatus).to eq(0)
      made = Dir.glob("#{@dir}/memprofiler-*") - names
      expect(made.map { |path| [path[/\.\d\z/], mode(path), Dir.children(path).size] }).to eq([[".2", "700", 1]])
      expect([*names, "#{@dir}/trap"].flat_map { |path| Dir.children(path) }).to eq([])
    end
  end

  it "are told of by no name that commands a terminal, be it a folder's or a file's" do
    folder = "#{@dir}/evil\e]0;x\a\u009B31m\u202E"
    Dir.mkdir(folder)
    2.times { |i| Profiles.build({ ["a /a.rb:1"] => [1, 40, 1, 40] }, comments: { pid: i }).write("#{folder}/\e[2J\n#{i}.pb.gz") }
    File.write("#{folder}/bad\e[2J.pb.gz", "x")
    texts = [main("top", "#{folder}/bad\e[2J.pb.gz"), main("top", folder), main("merge", "#{folder}/bad\e[2J.pb.gz", folder), main("\e[2J"), main("top", "--by", "\e[2J", "x"),
             main("top", "--json", "#{folder}/\e[2J\n1.pb.gz"), memprofiler("run", "--", "\e[2Jx"), memprofiler("run", "--interval", "1", "--output", folder, "--", Command::RUBY, "-e", "Array.new(9) { Object.new }")]
    expect(texts.map { |result| result.out + result.err }).to all(satisfy { |text| !text.empty? && !text.match?(/[\u0000-\u0009\u000B-\u001F\u007F-\u009F\u202A-\u202E]/) })
    expect(JSON.parse(texts[5].out)["files"]).to eq(["#{folder}/\e[2J\n1.pb.gz"]) # as it is, in JSON's own way
    expect(to_be_copied(texts.last)).to be(true)
  end

  # The last line of a run's summary, as a shell has it
  def to_be_copied(result)
    command = result.err.b[/top (.*)$/n, 1]
    File.file?(File.expand_path(Open3.capture2("bash", "-c", "printf %s #{command}".b, binmode: true).first, @dir))
  end

  it "are told of by no such name where a run has no profile, a thread can't write, or a byte is no text" do
    evil = "evil\e]0;x\a\e[31m"
    none = memprofiler("run", "--output", evil, "--", "/bin/true")
    file = Child.ruby(<<~RUBY)
      Memprofiler.start
      File.write(path = #{"#{@dir}/#{evil}".dump}, "")
      flusher = Memprofiler::FileFlusher.new(dir: path, every: 0.01).start
      sleep 0.01 until flusher.status[:failed].positive?
      flusher.stop && nil
    RUBY
    auto = Child.ruby("1", options: ["-r", File.expand_path("../../lib/memprofiler/auto.rb", __dir__)], env: { "MEMPROFILER" => "1", "MEMPROFILER_INTERVAL" => evil })
    byte = memprofiler("run", "--interval", "1", "--output", "byte\x9B31m".b, "--", Command::RUBY, "-e", "Array.new(9) { Object.new }")
    texts = [none.err, file.err, auto.err, byte.err]
    expect(texts).to all(satisfy { |text| text.dup.force_encoding("UTF-8").valid_encoding? && !text.empty? && !text.match?(/[\u0000-\u0009\u000B-\u001F\u007F-\u009F\u202A-\u202E]/) })
    expect(to_be_copied(byte)).to be(true)
  end

  describe "in a program with another's rights (setuid)" do
    it "are not written where the caller's variables say" do
      library = File.expand_path("../../lib/memprofiler/auto.rb", __dir__)
      answer = Child.value(<<~RUBY, env: { "MEMPROFILER" => "1", "MEMPROFILER_DIR" => "/nowhere" })
        module Process
          def self.euid = uid + 1
        end
        require #{library.dump}
        [defined?(Memprofiler::Auto), Memprofiler.collector]
      RUBY
      expect(answer).to eq([nil, nil])
    end

    it "are none, as Ruby itself takes no -r from RUBYOPT then" do
      skip_or_fail("needs root, who may make such a program") unless Process.uid.zero?
      FileUtils.cp(Command::RUBY, ruby = "#{@dir}/ruby")
      File.chmod(0o4755, ruby)
      File.chmod(0o755, @dir)
      File.write("#{@dir}/x.rb", "puts Process.uid == Process.euid")
      out, = Open3.capture2e({ "RUBYOPT" => nil }, "setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", ruby, "#{@dir}/x.rb")
      skip "no setuid programs run from here" unless out == "false\n"
      out, = Open3.capture2e({ "RUBYOPT" => "-rset" }, "setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", ruby, "#{@dir}/x.rb")
      expect(out).to include("no -r allowed while running setuid")
    end
  end
end
