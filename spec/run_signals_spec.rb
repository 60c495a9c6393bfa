# frozen_string_literal: true

require "io/console"
require "pty"
require_relative "support/command"

RSpec.describe "memprofiler run, signals", :command do
  # Tells of each signal, and ends when its stdin does or has a line. (A handler
  # may not wait for the lock of a `puts` that it interrupts.)
  let(:counting) { <<~RUBY }
    %w[INT TERM HUP USR1 USR2].each { |name| trap(name) { $stdout.syswrite("\#{name}\\n") } }
    $stdout.syswrite("ready\\n")
    gets
    exit 4
  RUBY

  # Starts the wrapper in a process group of its own and waits for a first line.
  def start(program, *options, err: "#{@dir}/err")
    @stdin, child_stdin = IO.pipe.reverse
    @stdout, child_stdout = IO.pipe
    @pid = Process.spawn(Command::CLEAN, Command::RUBY, Command::EXECUTABLE, "run", "--output", "#{@dir}/out", *options,
                         "--", Command::RUBY, "-e", program, in: child_stdin, out: child_stdout, err: err, pgroup: true)
    [child_stdin, child_stdout].each(&:close)
    expect(@stdout.gets).to eq("ready\n")
  end

  def wait(flags = 0)
    Process.wait2(@pid, flags)&.last
  end

  after { [@stdin, @stdout].each { |io| io&.close } }

  %w[INT TERM HUP].each do |name|
    it "ends by #{name} as the command does, with its profile written" do
      start("begin; puts 'ready'; $stdout.flush; sleep; ensure; puts 'cleaned up'; end", "--interval", "1")
      Process.kill(name, @pid)
      expect(@stdout.read).to eq("cleaned up\n")
      expect(wait).to be_signaled.and have_attributes(termsig: Signal.list[name])
      expect(profiles.size).to eq(1)
      expect(File.read("#{@dir}/err")).to include("Top allocators")
    end
  end

  it "passes on what is sent to it, each once" do
    start(counting)
    %w[USR1 INT TERM USR1 HUP].each do |name|
      Process.kill(name, @pid)
      expect(@stdout.gets).to eq("#{name}\n")
    end
    @stdin.close
    expect(@stdout.read).to eq("")
    expect(wait.exitstatus).to eq(4)
  end

  it "doesn't double what was sent to the whole group" do
    start(counting)
    Process.kill(:TERM, -@pid)
    expect(@stdout.gets).to eq("TERM\n")
    Process.kill(:USR1, @pid) # passed on after what came before it
    expect(@stdout.gets).to eq("USR1\n")
    @stdin.close
    expect(@stdout.read).to eq("")
    expect(wait.exitstatus).to eq(4)
  end

  it "leaves ignored signals ignored" do
    before = trap("HUP", "IGNORE")
    start("puts 'ready', trap('HUP', 'DEFAULT')")
    expect(@stdout.read).to eq("IGNORE\n")
    expect(wait).to be_success
  ensure
    trap("HUP", before)
  end

  # (Nobody writes to the pipe, so it waits for more of its file.)
  it "ends by Ctrl-C without a word when it runs nothing" do
    File.mkfifo(pipe = "#{@dir}/pipe")
    reader, writer = IO.pipe
    pid = Process.spawn(Command::CLEAN, Command::RUBY, Command::EXECUTABLE, "top", pipe, err: writer, pgroup: true)
    writer.close
    File.open(pipe, File::WRONLY) do # it has begun to read
      Process.kill(:INT, pid)
      expect(Process.wait2(pid).last.termsig).to eq(Signal.list["INT"])
    end
    expect(reader.read).to eq("")
  ensure
    reader.close
  end

  it "stops and goes on with the command" do
    start("puts 'ready'; $stdout.flush; Process.kill(:STOP, $$); puts 'again'; exit 5")
    expect(wait(Process::WUNTRACED)).to be_stopped
    Process.kill(:CONT, @pid)
    expect(@stdout.read).to eq("again\n")
    expect(wait.exitstatus).to eq(5)
  end

  # Whoever stops the command by its number, as some supervisors and tests do, knows of no other process.
  it "goes on when the command alone does, be it to its end", if: File.exist?("/proc/self/stat") do
    start(<<~'RUBY')
      trap("CONT") { $stdout.syswrite("again\n") }
      $stdout.syswrite("ready\n#{$$}\n")
      gets
    RUBY
    command = Integer(@stdout.gets)
    2.times do
      Process.kill(:STOP, command)
      expect(wait(Process::WUNTRACED)).to be_stopped
      Process.kill(:CONT, command)
      expect(@stdout.gets).to eq("again\n")
      wait(8) # WCONTINUED, which Ruby has no name for
    end
    Process.kill(:STOP, command)
    expect(wait(Process::WUNTRACED)).to be_stopped
    Process.kill(:KILL, command)
    expect(@stdout.read).to eq("")
    expect(wait.termsig).to eq(Signal.list["KILL"])
  end

  it "stops by TSTP and goes on by CONT to the group, as in a shell" do
    start(counting)
    Process.kill(:TSTP, @pid)
    expect(wait(Process::WUNTRACED)).to be_stopped
    Process.kill(:CONT, -@pid)
    @stdin.puts
    expect(@stdout.read).to eq("")
    expect(wait.exitstatus).to eq(4)
  end

  it "lets a terminal's Ctrl-C reach the command once, and the terminal be the command's" do
    arguments = [Command::EXECUTABLE, "run", "--quiet", "--output", "#{@dir}/out", "--", Command::RUBY, "-e", <<~RUBY]
      count = 0
      trap("INT") { count += 1 }
      $stdout.puts "ready \#{$stdin.tty?} \#{Process.getpgrp == Process.ppid}"
      gets
      puts "INT came \#{count} times"
    RUBY
    lines = []
    PTY.spawn(Command::CLEAN, Command::RUBY, *arguments) do |output, input, pid|
      lines << output.gets
      input.write("\x03")
      input.write("\n")
      begin
        output.each_line { |line| lines << line }
      rescue Errno::EIO
        nil # how the end of a terminal looks on Linux
      end
      Process.wait(pid)
    end
    expect(lines.first).to eq("ready true true\r\n")
    expect(lines.last).to eq("INT came 1 times\r\n")
  end

  it "holds a second Ctrl-C back while the profile is written" do
    # The last collection is part of that, and runs the finalizer.
    start(<<~RUBY)
      GC.disable
      100.times { ObjectSpace.define_finalizer(Object.new, proc { Process.kill(:INT, Process.pid) }) }
      puts "ready"
      $stdout.flush
      sleep
    RUBY
    Process.kill(:INT, @pid)
    expect(wait).to be_signaled.and have_attributes(termsig: Signal.list["INT"])
    expect(profiles.size).to eq(1)
  end

  # Each fork is noted in the run's list, in writing which SIGXFSZ could come.
  describe "in threads that fork" do
    def run(program)
      result = memprofiler("run", "--quiet", "--output", "out", "--", Command::RUBY, "-W0", "-e", <<~RUBY)
        #{program.lines.first}
        Array.new(4) { Thread.new { 30.times { Process.wait(fork { exit!(0) }) } } }.each(&:join)
        #{program.lines.drop(1).join}
      RUBY
      result.out
    end

    it "leave the program its handler" do
      expect(run(<<~RUBY)).to eq("handled\n")
        trap("XFSZ") { puts "handled" }
        Process.kill(:XFSZ, $$)
        sleep 0.1
      RUBY
    end

    it "leave what it starts, and its forks, the signal's default" do
      expect(run(<<~RUBY)).to eq("#{Signal.list["XFSZ"]}\n" * 2)

        puts Process.wait2(spawn("kill -XFSZ $$; sleep 0.1")).last.termsig
        puts Process.wait2(fork { Process.kill(:XFSZ, $$); sleep 0.1; exit!(0) }).last.termsig
      RUBY
    end
  end

  # A finalizer runs in the profile's last collection, and what it starts stands for what other threads do meanwhile.
  describe "held back while the profile is written" do
    def at_last_collection(before, code, *options)
      File.write("#{@dir}/program.rb", <<~RUBY)
        GC.disable
        main = $$
        #{before}
        100.times { ObjectSpace.define_finalizer(Object.new, proc { $done ||= ($$ == main && ((#{code}); true)) }) }
      RUBY
      memprofiler("run", "--quiet", "--output", "out", "--", Command::RUBY, "-W0", *options, "program.rb").out
    end

    it "have their defaults in what is started" do
      statuses = at_last_collection("", <<~'RUBY')
        %w[INT TERM HUP XFSZ].each { |name| puts Process.wait2(spawn("sh", "-c", "kill -#{name} $$; sleep 0.1")).last.termsig }
      RUBY
      expect(statuses.lines.map(&:to_i)).to eq(Signal.list.values_at("INT", "TERM", "HUP", "XFSZ"))
    end

    it "have the program's handlers in its forks" do
      expect(at_last_collection("trap('TERM') { puts 'mine' }", <<~RUBY)).to eq("mine\n")
        Process.wait(fork { Process.kill(:TERM, $$); sleep 0.1; $stdout.flush; exit!(0) })
      RUBY
    end

    it "stay ignored where the program ignores them" do
      expect(at_last_collection("trap('TERM', 'IGNORE')", "system('kill -TERM $$; echo ignored')")).to eq("ignored\n")
    end

    # As of C extensions; abs(3) takes an int and does no harm.
    it "have a library's own handler afterwards" do
      File.write("#{@dir}/early.rb", <<~RUBY)
        require "fiddle"
        int = Fiddle::TYPE_INT
        pointer = Fiddle::TYPE_VOIDP
        SIGNAL = Fiddle::Function.new(Fiddle::Handle::DEFAULT["signal"], [int, pointer], pointer)
        ABS = Fiddle::Handle::DEFAULT["abs"]
        at_exit { puts SIGNAL.call(Signal.list["TERM"], 0).to_i == ABS }
      RUBY
      skip "no fiddle here" unless system(Command::CLEAN, Command::RUBY, "-W0", "-rfiddle", "-e", "", err: File::NULL)
      expect(at_last_collection("SIGNAL.call(Signal.list['TERM'], ABS)", "nil", "-r./early.rb")).to eq("true\n")
    end
  end

  describe "Ctrl-C again and again" do
    # After the first one it ignores them: Ruby alone, hit while it ends, ends by the signal.
    let(:interrupted) { <<~RUBY }
      asked = false
      trap("INT") { trap("INT", "IGNORE"); asked = true }
      9999.times { Object.new }
      puts "ready"
      $stdout.flush
      sleep(0.01) until asked
      exit 7
    RUBY

    # Until the wrapper has ended
    def press_all_the_time
      loop do
        Process.kill(:INT, -@pid)
        sleep(0.01)
        status = wait(Process::WNOHANG)
        return status if status
      end
    end

    it "costs neither the report nor the exit status" do
      start(interrupted)
      expect(press_all_the_time.exitstatus).to eq(7)
      expect(File.read("#{@dir}/err")).to include("Top retainers").and end_with(".pb.gz\n")
      expect(Dir.children("#{@dir}/out")).to match([/\Aruby\.\d+\.pb\.gz\z/])
    end

    it "ends a report that doesn't come to its end, and leaves nothing of it" do
      reader, full = IO.pipe
      begin
        loop { full.write_nonblock("x") }
      rescue IO::WaitWritable
        start(interrupted, err: full)
      end
      expect(press_all_the_time.exitstatus).to eq(7)
      expect(Dir.children("#{@dir}/out")).to match([/\Aruby\.\d+\.pb\.gz\z/])
    ensure
      [reader, full].each(&:close)
    end
  end

  it "closes its ends of the command's streams" do
    start("puts 'ready'; $stdout.reopen(File::NULL); gets")
    expect(@stdout.read).to eq("") # the command runs on, the wrapper too
    @stdin.puts
    expect(wait).to be_success
  end

  it "leaves no process behind when it is killed itself" do
    start(counting)
    Process.kill(:KILL, @pid)
    expect(wait).to be_signaled
    @stdin.puts
    expect(@stdout.read).to eq("") # nobody has it open any more
    expect { Process.kill(0, -@pid) while sleep(0.01) }.to raise_error(Errno::ESRCH)
  end
end
