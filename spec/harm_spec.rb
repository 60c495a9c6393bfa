# frozen_string_literal: true

require_relative "support/command"

# Programs that have altered Ruby's own classes under a profiler that runs inside of them: each says and does what
# it does alone, whatever that costs the profile.
RSpec.describe "A program that has altered Ruby", :command do
  # @return [Array] what can be seen of it from outside
  def seen(result) = [result.out, result.err, result.status.exitstatus]

  def alone(program)
    File.write("#{@dir}/app.rb", program)
    out, err, status = Open3.capture3(Command::CLEAN, Command::RUBY, "-W0", "app.rb", chdir: @dir)
    Command::Result.new(status, out, err)
  end

  def below_run(program)
    File.write("#{@dir}/app.rb", program)
    run_ruby("-W0", "app.rb", options: %w[--quiet --interval 1])
  end

  def with_auto(program, env = {})
    File.write("#{@dir}/app.rb", program)
    auto = File.expand_path("../lib/memprofiler/auto", __dir__)
    env = Command::CLEAN.merge("RUBYOPT" => "-r#{auto}", "MEMPROFILER" => "1", "MEMPROFILER_DIR" => "#{@dir}/auto", **env)
    out, err, status = Open3.capture3(env, Command::RUBY, "-W0", "app.rb", chdir: @dir)
    Command::Result.new(status, out, err)
  end

  FORKS = "pid = fork { exit 5 }\nProcess.wait(pid)\nputs $?.exitstatus\nexit 3\n"
  REMOVES_OUTPUT = <<~RUBY
    if (folder = ENV["MEMPROFILER_RUN_OUTPUT"])
      Dir.children(folder).each { |name| File.unlink("\#{folder}/\#{name}") }
      Dir.rmdir(folder)
    end
  RUBY

  {
    "Integer#zero?" => "class Integer; def zero? = raise('mine'); end",
    "String#tr, by an Exception" => "class Fault < Exception; end; class String; def tr(*) = raise(Fault, 'mine'); end",
    "what StandardError is" => "class StandardError; def self.===(_) = false; end; class String; def tr(*) = raise('mine'); end",
    "Array#each" => "class Array; def each(*) = raise('mine'); end",
    "Thread.handle_interrupt, Class#new" => "def Thread.handle_interrupt(*) = raise('mine'); class Class; def new(*) = raise('mine'); end"
  }.each do |what, change|
    it "forks below `memprofiler run` when it has altered #{what}" do
      expect(seen(below_run("#{change}\n#{FORKS}"))).to eq(["5\n", "", 3])
    end

    it "forks with memprofiler/auto when it has altered #{what}" do
      expect(with_auto("#{change}\n#{FORKS}", { "MEMPROFILER_EVERY" => "0.05" }).then { |result| [result.out, result.status.exitstatus] }).to eq(["5\n", 3])
    end
  end

  it "forks when there is no StandardError, and no list to write to" do
    result = below_run("#{REMOVES_OUTPUT}Object.send(:remove_const, :StandardError)\n#{FORKS}")
    expect([result.out, result.status.exitstatus]).to eq(["5\n", 3])
    expect(result.err).not_to include("app.rb", "NameError")
  end

  it "hears of what its other threads send while it forks" do
    program = <<~RUBY
      Thread.report_on_exception = false
      main = Thread.main
      begin
        Thread.new { sleep 0.05; main.raise(IOError, "mine") }
        loop { Process.wait(fork { exit! }) }
      rescue IOError => e
        puts e.message
      end
      exit 3
    RUBY
    expect(seen(below_run(program))).to eq(["mine\n", "", 3])
  end

  {
    "no Exception" => "Object.send(:remove_const, :Exception)",
    "another Exception" => "Object.send(:remove_const, :Exception); Exception = Module.new",
    "an Exception that is nothing" => "class Exception; def self.===(_) = false; end",
    "an Exception that can't be asked" => "class Exception; def self.===(_) = raise('mine'); def message = raise('mine'); def class = raise('mine'); end",
    "no StandardError" => "%i[StandardError SystemCallError Errno].each { |name| Object.send(:remove_const, name) }",
    "a File that opens nothing" => "class File; def self.open(*) = nil; end"
  }.each do |what, change|
    it "ends in its own way when there is #{what}, and its profile can't be written" do
      program = "#{change}\nProcess.setrlimit(:FSIZE, 0)\nexit 3\n"
      expect(seen(alone(program))).to eq(["", "", 3])
      expect(seen(below_run(program))).to eq(["", "", 3])
      expect(with_auto(program).status.exitstatus).to eq(3)
    end
  end

  it "ends in its own way with memprofiler/auto when it has altered Array#each" do
    expect(with_auto("class Array; def each(*) = raise(Exception, 'mine'); end\nexit 3", { "MEMPROFILER_EVERY" => "9" }).status.exitstatus).to eq(3)
    expect(with_auto("class Array; def each(*) = raise('mine'); end\nexit 3").status.exitstatus).to eq(3)
  end

  # What a Ractor is named by is who called Ractor.new, and errors begin where they would: our methods before Ruby's
  # have their caller's file and line. (They are one frame more, of the same name.)
  it "finds no file of the profiler's in its Ractors' names and in what Ruby raises" do
    program = <<~RUBY
      puts Ractor.new { 1 }.inspect[/ \\S+:\\d+/]
      [-> { Ractor.new }, -> { Ractor.new(1, 2, size: 3) { 4 } }, -> { Process.daemon(1, 2, 3) }, -> { Process._fork(1) }].each do |call|
        call.call
      rescue ArgumentError => e
        puts e.message, e.backtrace.grep_v(/\\A<internal/).map { |line| line[/\\A.*?:\\d+/] }.uniq
      end
      exit 3
    RUBY
    below = seen(below_run(program))
    below[1] = "" if Memprofiler::VMFaults::RACTORS_CRASH # it says that profiling ends there
    expect(below).to eq(seen(alone(program)))
  end

  it "has its profile when another thread sends Interrupt again and again, to the very end" do
    program = <<~RUBY
      Thread.report_on_exception = false
      $kept = Array.new(100_000) { |i| "x\#{i}" }
      main = Thread.main
      Thread.new { loop { main.raise(Interrupt, "mine") || sleep(0.001) } }
      begin
        sleep 0.2
      rescue Interrupt
        nil
      end
      exit 3
    RUBY
    File.write("#{@dir}/app.rb", program)
    result = run_ruby("-W0", "app.rb", options: %w[--interval 16])
    expect(result.err).not_to include("could not save")
    expect([result.out, profiles("app.rb.*").size]).to eq(["", 1])
  end
end
