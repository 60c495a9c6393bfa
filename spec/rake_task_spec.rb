# frozen_string_literal: true

require "memprofiler/rake_task"
require "shellwords"
require_relative "support/command"

RSpec.describe Memprofiler::RakeTask, :command do
  let(:gem_path) { [Gem.loaded_specs["rake"].base_dir, *Gem.path].uniq.join(File::PATH_SEPARATOR) }
  let(:folder) { "#{@dir}/a folder".tap { |path| Dir.mkdir(path) } } # blanks and all

  # As RubyGems' own command for it; where a Gemfile is given Bundler's.
  def rake(*words, dir: folder, env: {}, gemfile: nil)
    start = %(load Gem.activate_bin_path("rake", "rake", "#{Rake::VERSION}"))
    command = gemfile ? [Command::RUBY, "-S", "bundle", "exec", "rake"] : [Command::RUBY, "-e", start, "--"]
    out, err, status = Open3.capture3(Command::CLEAN.merge("GEM_PATH" => gem_path, "BUNDLE_GEMFILE" => gemfile, **env), *command, *words, chdir: dir)
    Command::Result.new(status, out, err)
  end

  def rakefile(options, more = "", library: File.expand_path("../lib", __dir__))
    File.write("#{folder}/Rakefile", "require #{"#{library}/memprofiler/rake_task".dump}\nMemprofiler::RakeTask.new { |t| #{options} }\n#{more}\n")
  end

  def script(name = "my import.rb", text = "p ARGV; KEPT = Array.new(2000) { 'x' * 1000 }\nexit Integer(ENV['STATUS'] || 0)\n")
    File.write("#{folder}/#{name}", text)
  end

  def written(output = "out")
    Dir.glob("#{folder}/#{output}/*.pb.gz")
  end

  it "profiles a script: its streams are its own, the profile is written, the table printed" do
    script
    rakefile('t.script = "my import.rb"; t.args = ["a b", "$HOME"]; t.interval = 1; t.output = "out"')
    result = rake("memprofile")
    expect([result.status.exitstatus, result.out]).to eq([0, %(["a b", "$HOME"]\n)])
    expect(result.err).to match(/^Top retainers by line.*\n.*\n.* my import\.rb:1\n/).and include("exact")
    expect(written.map { |path| File.basename(path) }).to match([/\Amy_import\.rb\.\d+\.pb\.gz\z/])
  end

  it "prints how many samples there are, and how far figures may be off" do
    script("big.rb", "KEPT = 20_000.times.inject(nil) { |list, _| [list, +'x'] }\n") # no large object, which a sample in 20 would meet
    rakefile('t.script = "big.rb"; t.interval = 20; t.output = "out"')
    expect(rake("memprofile").err).to match(%r{^error \(95 %\): alloc_objects \+/- \d\.\d%, .*^ +flat +flat% +cum +cum% +\+/- +samples  line\n +.* +\d\.\d% +\d{3,4}  big\.rb:1\n}m)
  end

  it "fails as the script does, which leaves its profile" do
    script
    rakefile('t.script = "my import.rb"; t.output = "out"; t.quiet = true')
    result = rake("memprofile", env: { "STATUS" => "7" })
    expect([result.status.exitstatus, result.err]).to eq([7, "memprofile: my import.rb failed (exit status 7)\n"])
    script("my import.rb", "Process.kill(:TERM, $$); sleep\n")
    expect(rake("memprofile").status.exitstatus).to eq(128 + Signal.list["TERM"])
    expect(written.size).to be >= 2
  end

  { "Ctrl-C, which a terminal sends to both," => [:INT, -1], "TERM, which is sent to Rake," => [:TERM, 1] }.each do |what, (signal, whom)|
    it "waits for the profile when #{what} ends it" do
      script("my import.rb", "puts 'ready'; $stdout.flush; sleep 60\n")
      rakefile('t.script = "my import.rb"; t.output = "out"; t.interval = 1')
      reader, writer = IO.pipe
      pid = spawn(Command::CLEAN.merge("GEM_PATH" => gem_path), Command::RUBY, "-S", "rake", "memprofile", chdir: folder, out: writer, err: "#{@dir}/err", pgroup: true)
      writer.close
      expect(reader.gets).to eq("ready\n")
      Process.kill(signal, whom * pid)
      expect(Process.wait2(pid).last).not_to be_success
      expect([written.size, File.read("#{@dir}/err")]).to match([1, /Top allocators/])
    end
  end

  it "takes another script, or other arguments, from the command line" do
    script
    script("other.rb", "p ARGV, $VERBOSE")
    rakefile('t.script = "my import.rb"; t.args = %w[own]; t.ruby_opts = %w[-w]; t.quiet = true; t.output = "out"')
    expect(rake("memprofile", "SCRIPT=other.rb").out).to eq("[]\ntrue\n")
    expect(rake("memprofile", "SCRIPT=other.rb", "ARGS=a 'b c'").out).to eq(%(["a", "b c"]\ntrue\n))
    expect(rake("memprofile", "ARGS=x").out).to eq(%(["x"]\n))
    expect(rake("memprofile").out).to eq(%(["own"]\n))
  end

  it "profiles another task, in a Rake of the same version, Rakefile and folder" do
    rakefile('t.interval = 1; t.output = "out"', <<~RUBY)
      namespace(:db) { task(:seed, [:one, :two]) { |_, args|
        p args.to_a, Rake::VERSION, File.basename(Rake.original_dir), Dir.pwd == __dir__, ENV["MODE"]
        KEPT = Array.new(2000) { 'x' * 1000 }
      } }
      task(:broken) { raise "mine" }
    RUBY
    Dir.mkdir("#{folder}/sub")
    result = rake("memprofile:task[db:seed,a,b]", "MODE=fast", dir: "#{folder}/sub")
    expect([result.status.exitstatus, result.out]).to eq([0, %(["a", "b"]\n#{Rake::VERSION.inspect}\n"sub"\ntrue\n"fast"\n)])
    expect(result.err).to match(/^Top retainers by line.*\n.*\n.* Rakefile:5\n/)
    expect(written.map { |path| File.basename(path) }).to match([/\Arake\.rb\.\d+\.pb\.gz\z/])
    result = rake("memprofile:task[broken]")
    expect([result.status.exitstatus, result.err]).to match([1, /rake aborted!.*mine.*^memprofile: rake broken failed \(exit status 1\)$/m])
    expect(written.size).to eq(2)
    expect(rake("memprofile:task").err).to include('which task? As in: rake "memprofile:task[db:seed]"')
  end

  it "uses the Rakefile that was named" do
    rakefile("t.quiet = true", 'task(:which) { puts "here" }')
    File.rename("#{folder}/Rakefile", "#{folder}/other file.rake")
    expect(rake("-f", "other file.rake", "memprofile:task[which]").out).to eq("here\n")
  end

  # Each word that Rake knows, as the Rake of the task has understood it. (In a dry run, and with words that only
  # show something, no task runs.)
  describe "the Rake of another task" do
    before do
      rakefile("t.quiet = true; t.output = #{"#{@dir}/out".dump}", <<~'RUBY')
        task(:state) do
          options = Rake.application.options
          names = %i[trace backtrace silent nosearch ignore_system build_all always_multitask trace_rules
                     ignore_deprecate rakelib job_stats thread_pool_size]
          state = names.to_h { |name| [name, options.public_send(name)] }
          state[:folders] = [Dir.pwd, Rake.original_dir].map { |path| path.delete_prefix(__dir__) }
          state[:verbose] = verbose if [true, false].include?(verbose)
          state[:to_stdout] = options.trace_output.equal?($stdout)
          state[:hidden] = options.suppress_backtrace_pattern&.source
          state[:done] = [defined?(MINE), $done]
          File.binwrite("#{__dir__}/state", Marshal.dump(state))
        end
        task(:words, [:one]) { |_, words| p words.to_a }
      RUBY
      %w[sub lib tasks others].each { |name| Dir.mkdir("#{folder}/#{name}") }
      File.write("#{folder}/lib/mine.rb", "MINE = 1")
      File.write("#{folder}/tasks/more.rake", "task(more: :words)")
    end

    def state
      Marshal.load(File.binread("#{folder}/state"))
    end

    {
      [] => { trace: false, backtrace: false, verbose: nil, silent: false, nosearch: false, rakelib: %w[rakelib], job_stats: false, done: [nil, nil], folders: ["", ""] },
      %w[--trace] => { trace: true, backtrace: true, verbose: true, to_stdout: false },
      %w[--trace=stdout] => { trace: true, to_stdout: true },
      %w[--backtrace] => { trace: false, backtrace: true },
      %w[-v] => { verbose: true, trace: false },
      %w[-q] => { verbose: false, silent: false },
      %w[-t --quiet] => { verbose: false, trace: true },
      %w[-s] => { verbose: false, silent: true },
      %w[-N] => { nosearch: true },
      %w[-G] => { ignore_system: true },
      %w[-B] => { build_all: true },
      %w[-m] => { always_multitask: true },
      %w[--rules] => { trace_rules: true },
      %w[-X] => { ignore_deprecate: true },
      %w[-R tasks:others] => { rakelib: %w[tasks others] },
      %w[-j 3] => { thread_pool_size: 2 },
      %w[--jobs=] => { thread_pool_size: Float::INFINITY },
      %w[--job-stats=history] => { job_stats: :history },
      %w[--suppress-backtrace a.b] => { hidden: "a.b" },
      %w[-I lib -rmine] => { done: ["constant", nil] },
      ["-E", "$done = 'E F'"] => { done: [nil, "E F"] },
      %w[-C sub] => { folders: ["", "/sub"] },
      %w[-C sub -I ../lib --require=mine -f Rakefile] => { folders: ["", "/sub"], done: ["constant", nil] }
    }.each do |words, expected|
      it "has #{words.empty? ? "its defaults" : words.join(" ")}" do
        result = rake(*words, "memprofile:task[state]")
        expect(result.status.exitstatus).to eq(0), result.err
        expect(expected.to_h { |name, _| [name, state[name]] }).to eq(expected)
      end
    end

    it "has what is in RAKEOPT, once, and tasks have that too" do
      File.write("#{folder}/Rakefile", "#{File.read("#{folder}/Rakefile")}\ntask(:told) { p ENV.fetch('RAKEOPT') }")
      result = rake("memprofile:task[told]", "memprofile:task[state]", env: { "RAKEOPT" => "-C sub -I ../lib -r mine -q" })
      expect([result.status.exitstatus, result.out]).to eq([0, %("-C sub -I ../lib -r mine -q"\n)]), result.err
      expect(state).to include(folders: ["", "/sub"], done: ["constant", nil], verbose: false)
    end

    it "has the Rakefiles of the system, if they are asked for" do
      Dir.mkdir("#{@dir}/system")
      library = File.expand_path("../lib", __dir__)
      File.write("#{@dir}/system/own.rake", "require #{"#{library}/memprofiler/rake_task".dump}\nMemprofiler::RakeTask.new { |t| t.quiet = true; t.output = #{"#{@dir}/out".dump} }\ntask(:own) { puts 'own' }")
      expect(rake("-g", "memprofile:task[own]", env: { "RAKE_SYSTEM" => "#{@dir}/system" }).out).to eq("own\n")
      expect(rake("memprofile:task[own]", dir: @dir, env: { "RAKE_SYSTEM" => "#{@dir}/system" }).out).to eq("own\n")
    end

    it "has the task's arguments as they were given, commas and all" do
      ['words[a\\,b,c\\\\d]', 'words[a\\,b,c\\\\d]'.sub("words[", "words,").chomp("]")].each do |words|
        expect(rake("memprofile:task[#{words}]").out).to eq(%(["a,b", "c\\\\d"]\n))
      end
      expect(rake("memprofile:task[words,,b]").out).to eq(%(["", "b"]\n))
      expect(rake("-R", "tasks", "memprofile:task[more]").out).to eq("[nil]\n")
      expect(rake("memprofile:task[words,1]", "memprofile:task[words,2]").out).to eq(%(["1"]\n["2"]\n))
    end

    it "is not started in a dry run" do
      result = rake("-n", "memprofile:task[state]")
      expect([result.status.exitstatus, result.err, File.exist?("#{folder}/state")]).to match([0, /Execute \(dry run\) memprofile:task/, false])
    end

    it "has what Rake knows, where the command line is another program's" do
      File.write("#{folder}/own", "require 'rake'\nARGV.replace(%w[--unknown -e exit])\nRake.application.run(%w[-q memprofile:task[state]])\n")
      out, err, status = Open3.capture3(Command::CLEAN.merge("GEM_PATH" => gem_path), Command::RUBY, "own", chdir: folder)
      expect([status.exitstatus, out, state[:verbose]]).to eq([0, "", false]), err
    end
  end

  it "works under Bundler, from a checkout" do
    script
    File.write(gemfile = "#{folder}/Gemfile", <<~RUBY)
      gem "rake", "#{Rake::VERSION}"
      gem "memprofiler", path: #{File.expand_path("..", __dir__).dump}
    RUBY
    File.write("#{folder}/Rakefile", <<~RUBY)
      require "memprofiler/rake_task"
      Memprofiler::RakeTask.new(:heap) { |t| t.script = "my import.rb"; t.quiet = true; t.output = "out" }
      task(:version) { puts Rake::VERSION, defined?(Bundler) }
    RUBY
    result = rake("heap", "heap:task[version]", gemfile: gemfile)
    told = result.err.lines.grep_v(/warning: (?:already initialized|previous definition)/) # Bundler's own, on Ruby 3.4
    expect([told.join, result.status.exitstatus, result.out]).to eq(["", 0, "[]\n#{Rake::VERSION}\nconstant\n"])
    expect(written.size).to eq(2)
  end

  # As where a gem is installed
  it "works where only lib and exe are, with blanks in their path" do
    script
    FileUtils.mkdir_p(gem = "#{@dir}/gems of mine/memprofiler-1")
    FileUtils.cp_r(%w[lib exe].map { |name| File.expand_path("../#{name}", __dir__) }, gem)
    rakefile('t.script = "my import.rb"; t.quiet = true; t.output = "out"', library: "#{gem}/lib")
    result = rake("memprofile", "memprofile:task[-T]")
    expect([result.status.exitstatus, result.err, written.size]).to eq([0, "", 2])
    expect(result.out).to match(/rake memprofile .*rake memprofile:task\[task\]/m)
  end

  describe "options" do
    {
      "t.interval = 0" => "ArgumentError: interval must be an Integer from 1 to 1000000000, not 0",
      't.interval = "5"' => 'TypeError: interval must be an Integer from 1 to 1000000000, not "5"',
      "t.args = 'a b'" => 'TypeError: args must be an Array of Strings, not "a b"',
      "t.args = [1]" => "TypeError: args[0] must be a String without NUL, not 1",
      "t.ruby_opts = '-w'" => 'TypeError: ruby_opts must be an Array of Strings, not "-w"',
      "t.script = 7" => "TypeError: script must be a String or a Pathname that isn't empty and has no NUL, or nil, not 7",
      "t.output = ''" => "ArgumentError: output must be a String or a Pathname that isn't empty and has no NUL, or nil, not \"\"",
      "t.quiet = nil" => "TypeError: quiet must be true or false, not nil"
    }.each do |code, message|
      it "refuses #{code}" do
        expect { described_class.new { |t| t.instance_eval(code.sub("t.", "self.")) } }.to raise_error do |error|
          expect("#{error.class}: #{error.message}").to eq(message)
        end
      end
    end

    it "are checked again when the task runs" do
      rakefile("$t = t; t.script = 'no.rb'", "task(:spoil) { $t.interval = nil }")
      expect(rake("spoil", "memprofile").err).to include("interval must be an Integer from 1 to 1000000000, not nil")
      result = rake("memprofile")
      expect([result.status.exitstatus, result.err]).to match([1, /script must be a file, not "no\.rb"/])
      rakefile("")
      expect(rake("memprofile").err).to include('script must be set: t.script = "path", or rake memprofile SCRIPT=path')
    end

    it "include the task's name" do
      expect { described_class.new(nil) }.to raise_error(TypeError, /\Aname must be/)
    end
  end
end
