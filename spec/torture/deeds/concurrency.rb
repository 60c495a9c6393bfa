# frozen_string_literal: true

module Torture
  # There were some: so much of Ruby is another then.
  def self.ractors? = @ractors

  Deed.add(:fiber) do |hand|
    fibers = Array.new(5) { Fiber.new { 3.times { Fiber.yield(hand.keep(Making.one(hand))) } } }
    3.times { fibers.each(&:resume) }
    hand.keep(fibers.first) # never ends
  end
  Deed.add(:enumerator) { |hand| hand.keep([1, 2, 3].each_entry).then { |e| 2.times { e.next } } }
  Deed.add(:thread) do |hand|
    threads = Array.new(3) { |i| Thread.new { Array.new(20) { "t#{i}" * 9 } } }
    threads.each { |thread| hand.roll(4).zero? ? thread.kill.join : thread.join }
  end
  Deed.add(:named_thread, weight: 1) { |hand| Thread.new { Thread.current.name = "named #{hand.roll(5)}"; [1].map(&:to_s) }.join }
  Deed.add(:interrupted_thread, weight: 2) do |_hand|
    thread = Thread.new { loop { Array.new(10) { +"x" } } }
    Thread.pass
    thread.report_on_exception = false
    thread.raise(IOError, "enough")
    thread.join
  rescue IOError
    nil
  end
  Deed.add(:signal, weight: 2, alone: true) { |_| 3.times { Process.kill(:USR1, Process.pid) } }
  Deed.add(:pass) { |_| Thread.pass }
  # 3.1.2 ends all profiling before the first one; 3.3 loses hooks.
  # 3.3 and 3.4 deadlock now and then, without any profiler too, when a Ractor ends while another thread falls asleep or wakes: each
  # holds the lock that the other one waits for. So others wait meanwhile, and have been given the time to be at it.
  Deed.add(:ractor, weight: 1, alone: true, from: "3.3") do |hand|
    @ractors = true
    work = lambda do
      ractors = Array.new(2) { Ractor.new { GC.start; Array.new(500) { |i| [i.to_s] }.size } }
      ractors.each { |ractor| ractor.respond_to?(:value) ? ractor.value : ractor.take }
    end
    next work.call if RUBY_VERSION >= "4"

    hand.world.alone do
      sleep 0.02
      work.call
      sleep 0.02 # their threads end after their values are there
    end
  end
  Deed.add(:fork, weight: 1, alone: true) do |hand|
    pid = hand.world.alone { fork { Processes.child(hand) } }
    status = Timeout.timeout(100) { Process.wait2(pid).last }
    raise Truth::Wrong, "a forked child: #{status}" unless status.success?
  end
  # Others are in the middle of something.
  Deed.add(:fork_amid, weight: 1, alone: true) do |_|
    pid = fork { exit!(Array.new(50) { [1] }.size == 50 ? 0 : 2) }
    status = Timeout.timeout(100) { Process.wait2(pid).last }
    raise Truth::Wrong, "a child forked amid others' work: #{status}" unless status.success?
  end
  Deed.add(:exec, weight: 1, alone: true) { |_| Process.wait(fork { exec("true") }) }

  module Processes
    module_function

    def child(hand)
      hand.world.forked_child(hand)
      exit!(0)
    rescue Exception => e # rubocop:disable Lint/RescueException -- the parent wants to know
      warn "in a forked child: #{e.full_message}"
      exit!(1)
    end
  end
end
