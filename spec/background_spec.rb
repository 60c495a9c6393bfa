# frozen_string_literal: true

require_relative "support/child"

# What the thread did is read from a file that each occasion appends to: "<pid> <occasion>".
RSpec.describe "Memprofiler::Background" do
  LOG = <<~RUBY
    def note(what) = File.write("log", "\#{Process.pid} \#{what}\\n", mode: "a")
    def log = File.exist?("log") ? File.readlines("log", chomp: true).map { |line| line.split(" ", 2) } : []
    def of(pid) = log.filter_map { |line, what| what if line.to_i == pid }
    def background(**options, &block)
      Memprofiler::Background.new(name: "memprofiler test", every: 3_600, **options) { |what| note(what); block&.call(what) }
    end
    def wait_until
      300.times { yield ? (return true) : sleep(0.02) } # 6 s
      false
    end
    # A process, which ends as processes do.
    def child(&)
      pid = fork(&)
      Process.wait(pid)
      [of(pid), $?.exitstatus]
    end
  RUBY

  def value(code, **options) = Child.value(LOG + code, **options)

  def result(code, **options) = Child.ruby(LOG + code, **options)

  it "works again and again until it is stopped, then once more, and wakes up at once for that" do
    expect(value(<<~RUBY)).to eq([true, true, false, 1, true])
      often = Memprofiler::Background.new(name: "memprofiler often", every: 0.01) { |what| note(what) }.start
      seen = wait_until { of(Process.pid).count("tick") >= 3 }
      alive = often.running?
      often.stop
      before = log.size
      sleep 0.05
      seldom = background.start
      seldom.stop # an hour before its time
      [seen, alive, often.running?, of(Process.pid)[..before - 1].count("last"), log.size == before + 1 && of(Process.pid).last == "last"]
    RUBY
  end

  it "waits as long as the work says, which may fail all the same" do
    expect(result(<<~RUBY)).to have_attributes(value: [true, 1, 2], err: /IOError: x/)
      b = background(every: 0.01) { |what| b.again_in(3_600) && raise(IOError, "x") }.start
      [wait_until { log.size == 1 }, sleep(0.1) && log.size, b.stop && log.size]
    RUBY
  end

  it "has an end without a last time, and may start again" do
    expect(value("b = background.start.stop(last: false); first = log; b.start; [first, b.running?, b.stop && of(Process.pid), b.stop && log.size]"))
      .to eq([[], true, ["last"], 1])
  end

  it "does the last time at exit, by an exception, TERM or exit in a trap too, and the exit status is the program's" do
    ends = ["nil", "exit 3", "raise 'mine'", "Process.kill(:TERM, $$); sleep", "trap(:USR1) { exit 4 }; Process.kill(:USR1, $$); sleep", "abort",
            "Thread.new { exit 5 }; sleep", "at_exit { exit 6 }"]
    expect(value("[#{ends.map { |body| "child { $stderr.reopen(File::NULL); background.start; #{body} }" }.join(", ")}]"))
      .to eq([0, 3, 1, nil, 4, 1, 5, 6].map { |status| [["last"], status] })
  end

  it "leaves it where it's not wanted, and where the process ends by exit! or exec" do
    expect(value('[child { background(at_exit: false).start }, child { background.start; exit!(7) }, child { background.start; exec("true") }]'))
      .to eq([[[], 0], [[], 7], [[], 0]])
  end

  it "runs at exit in its order: handlers from before it later, from after it earlier" do
    expect(value("child { at_exit { note 1 }; background.start; at_exit { note 2 } }")).to eq([%w[2 last 1], 0])
  end

  it "may be started in an exit handler, which comes after its own too" do
    expect(value("child { at_exit { background.start }; background.start }")).to eq([%w[last last], 0])
  end

  it "at exit tells all before it waits for one" do
    expect(value(<<~RUBY)).to eq([%w[last last], 0])
      child do
        queue = Queue.new # neither can end before the other has begun
        2.times { background { |what| queue << 1; sleep 0.01 until queue.size == 2 }.start }
      end
    RUBY
  end

  it "at exit waits for the work that is under way, but not for ever for one that hangs" do
    expect(result(<<~RUBY)).to have_attributes(value: [[%w[tick done last done], 0], [%w[tick], 0]], err: /\Amemprofiler: memprofiler test: it did not end within 0.1 s, and was given up .*\n\z/)
      [child { background(every: 0.01) { |what| sleep 0.2; note :done }.start; wait_until { log.any? } },
       child { background(every: 0.01, patience: 0.1) { |what| sleep }.start; wait_until { of($$).any? } }]
    RUBY
  end

  it "does the last time though its thread was killed, and an exception sent to it is nobody else's" do
    expect(result(<<~RUBY)).to have_attributes(value: [[%w[last], 0], [%w[last], 0], [%w[last], 0]], err: "")
      others = -> { Thread.list - [Thread.main] }
      [child { background.start; others.().each(&:kill).each(&:join) },
       child { background.start; others.().each { |thread| thread.raise("x") }.each(&:join) },
       child { Thread.abort_on_exception = true; background.start; others.().each { |thread| thread.raise(Interrupt) }.each(&:join) }]
    RUBY
  end

  it "says an error once, and again when it has been well in between, and goes on" do
    result = result(<<~RUBY)
      turn = 0
      b = background(every: 0.01) { |what| [nil, "a", :pending, "b", nil, "c"][turn += 1]&.then { |text| next text if text == :pending; raise(text == "b" ? LoadError : IOError, text) } }.start
      seen = wait_until { turn >= 7 }
      [seen, b.stop.running?]
    RUBY
    expect(result.value).to eq([true, false])
    expect(result.err).to eq("memprofiler: memprofiler test: IOError: a (said once; it goes on)\nmemprofiler: memprofiler test: IOError: c (said once; it goes on)\n")
  end

  it "says an error in one line without commands for a terminal, whatever its message is" do
    messages = ["a\e[31m\nforged: line", "\xFF\x9B".b, "utf16\n".encode("UTF-16LE")]
    messages.each do |message|
      said = result("message = Marshal.load(#{Marshal.dump(message).dump}); seen = false; b = background(every: 0.01) { seen = true; raise(message) }.start; [wait_until { seen }, b.stop.running?]").err
      expect(said).to match(/\Amemprofiler: memprofiler test: RuntimeError: [^\u0000-\u001F\u007F-\u009F]* \(said once; it goes on\)\n\z/)
    end
  end

  it "raises nothing where nothing can be said" do
    expect(value("child { def Warning.warn(*) = raise('no'); background { raise 'x' }.start }")).to eq([%w[last], 0])
    expect(value("child { $stderr.close; background { raise 'x' }.start }")).to eq([%w[last], 0])
  end

  # (no_asan: gcc 12's runtime doesn't hold its allocator's locks at a fork. A thread that is starting has one of them half of the time, and the
  # child's first thread then waits for it for ever.)
  it "goes on in forked children, each with a thread of its own, after what it does first there", :no_asan do
    expect(value(<<~RUBY)).to eq([[%w[in_child forked last], 0], [%w[in_child forked in_grandchild last], 0], true, %w[last]])
      b = background(in_child: ->(_) { note :in_child }).start
      first = child { wait_until { of($$).include?("forked") } }
      second = child { wait_until { of($$).include?("forked") }; pid = $$; fork { sleep 0.01; File.write("log", "\#{pid} in_grandchild\\n", mode: "a"); exit!(0) }.then { |it| Process.wait(it) } }
      [first, second, b.running?, b.stop && of($$)]
    RUBY
  end

  it "is quiet in fork { exec }, in a child that ends at once, and once it is stopped" do
    expect(result(<<~RUBY)).to have_attributes(value: [[[], 0], true, [[], 0]], err: "")
      b = background.start
      executed = child { exec("true") }
      system("true")
      at_once = Array.new(20) { child { nil } }.all? { |what, status| status == 0 && what.last == "last" }
      b.stop
      [executed, at_once, child { sleep 0.01 }]
    RUBY
  end

  it "forks in the middle of the work, with its locks held, and both go on", :no_asan do
    answer = value(<<~RUBY)
      b = background(every: 0.001) { |what| sleep 0.02 }.start
      wait_until { log.any? }
      children = Array.new(20) { sleep 0.005; fork { b.now; b.stop } }
      statuses = children.map { |pid| Process.wait2(pid)[1].exitstatus }
      [statuses.uniq, children.all? { |pid| of(pid).last == "last" && of(pid).include?("now") }, b.running?, b.stop && of($$).last]
    RUBY
    expect(answer).to eq([[0], true, true, "last"])
  end

  it "goes on in a daemon" do
    expect(value(<<~RUBY)).to eq([true, true])
      folder = Dir.pwd
      pid = fork do
        b = background.start
        Process.daemon(true)
        wait_until { of($$).include?("forked") }
        note b.running?
      end
      Process.wait(pid)
      daemon = -> { (log.map { |line, _| line.to_i } - [pid]).first }
      [wait_until { daemon.() && of(daemon.()).last == "last" }, of(daemon.()) == %w[forked true last]]
    RUBY
  end

  it "in a signal handler starts, works and stops without a lock" do
    expect(result(<<~RUBY)).to have_attributes(value: [%w[now last], false, nil], err: "")
      b = background
      answers = []
      trap(:USR1) { b.start && answers << b.now }
      trap(:USR2) { b.stop }
      Process.kill(:USR1, $$)
      wait_until { log.size == 1 }
      Process.kill(:USR2, $$)
      wait_until { log.size == 2 }
      wait_until { Thread.list.size == 1 }
      [of($$), b.running?, answers[0]]
    RUBY
  end

  it "may be forked in a signal handler" do
    expect(value(<<~RUBY)).to eq([%w[forked last], 0])
      b = background.start
      answer = nil
      trap(:USR1) { answer = child { wait_until { of($$).any? } } }
      Process.kill(:USR1, $$)
      wait_until { answer }
      answer
    RUBY
  end

  it "lives as long as it runs, whoever forgets it, and leaves nothing behind when it's stopped" do
    expect(value(<<~RUBY)).to eq([true, 0, 0])
      def forget = background(every: 0.05).start && nil
      forget
      10.times { GC.start }
      lived = wait_until { log.any? }
      ObjectSpace.each_object(Memprofiler::Background).each(&:stop)
      20.times { background.start.stop }
      [lived, Memprofiler::Background.instance_variable_get(:@running).size, Memprofiler::Forks.instance_variable_get(:@callbacks).size]
    RUBY
  end

  it "allocates nothing that a profile has" do
    expect(value(<<~RUBY)).to be < 100
      collector = Memprofiler::Collector.new(interval: 1).start
      b = background(every: 0.001) { |what| 1_000.times { Object.new } }.start
      wait_until { log.size > 20 }
      b.stop
      collector.flush(labels: [:thread]).samples.select { |s| s.labels["thread"].to_s.include?("memprofiler test") }.sum { |s| s.values[:alloc_objects] }
    RUBY
  end
end

RSpec.describe Memprofiler, "the process' own collector" do
  it "is started once, asked for, stopped, and started anew" do
    first, same, other, status, stopped, anew, never = Child.value(<<~RUBY)
      never = [Memprofiler.stop, Memprofiler.collector, Memprofiler.status]
      first = Memprofiler.start(interval: 64)
      same = [Memprofiler.start, Memprofiler.start(interval: 64), Memprofiler.start(max_samples: 200_000, interval: 64, liveness: :auto), Memprofiler.collector].map { |it| it.equal?(first) }
      other = begin Memprofiler.start(interval: 65) rescue [$!.class, $!.message] end
      status = Memprofiler.status
      stopped = [Memprofiler.stop.equal?(first), Memprofiler.status[:running], Memprofiler.collector.equal?(first)]
      anew = Memprofiler.start(interval: 65).equal?(first)
      [first.running?, same, other, status, stopped, anew, never]
    RUBY
    expect([first, same, stopped, anew]).to eq([false, [true] * 4, [true, false, true], false])
    expect(other).to eq([Memprofiler::AlreadyStartedError, "the process' collector runs already, with interval: 64, not interval: 65"])
    expect(status).to include(running: true, since: be_a(Time), interval: 64, pid: be_positive, services: [], memory: be_positive)
    expect(never).to match([nil, nil, { running: false, pid: be_positive, services: [] }])
  end

  it "is one, however many threads start it, and can be had in a signal handler, which may wait for nobody" do
    expect(Child.value(<<~RUBY)).to eq([1, true, [Memprofiler::Error, "the process' collector is being started or stopped just now: try again later"], true])
      one = Array.new(20) { Thread.new { Memprofiler.start } }.map(&:value).uniq.size
      handled = refused = nil
      trap(:USR1) { handled = Memprofiler.stop && Memprofiler.start.running? && Memprofiler.status[:running] }
      Process.kill(:USR1, $$)
      sleep 0.01 until handled
      trap(:USR2) { begin Memprofiler.start rescue refused = [$!.class, $!.message] end }
      Memprofiler.instance_variable_get(:@current_lock).synchronize { Process.kill(:USR2, $$); sleep 0.01 until refused }
      [one, handled, refused, Memprofiler.start.running?]
    RUBY
  end

  it "is the main Ractor's" do
    expect(Child.value(<<~RUBY)).to eq([Memprofiler::RactorError] * 4)
      ractor = Ractor.new { %i[start stop collector status].map { |name| begin Memprofiler.public_send(name) rescue $!.class end } }
      ractor.respond_to?(:value) ? ractor.value : ractor.take
    RUBY
  end
end
