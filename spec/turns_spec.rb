# frozen_string_literal: true

require_relative "support/child"

# What a thread has in its registers lives on while others have their turn (vm/turns.h).
RSpec.describe "taking turns" do
  # Without vm/turns.h each crashed, in 4 runs of 4, on Debian's 3.4.11, and none on 3.1.2.
  PROFILE_TO_SHARE = <<~'RUBY'
    Memprofiler.haste = 50
    KEPT = []
    eval Array.new(100) { |i| "def m#{i}(n) = n > 0 ? m#{i}(n - 1) : (KEPT << Object.new)\n" }.join
    collector = Memprofiler::Collector.new(interval: 1).start
    100.times { |i| 6.times { |depth| send("m#{i}", depth) } }
    profile = collector.flush
    total = profile.total(:alloc_objects)

    # Others, who collect garbage and write over what is free
    ended = false
    others = Array.new(2) do
      Thread.new do
        until ended
          GC.start(full_mark: false)
          Array.new(1000) { [nil, nil, nil] + ["x" * 50] }
          Thread.pass
        end
      end
    end
  RUBY

  # Says what each thread has found, once each.
  def answers(work)
    Child.value(<<~RUBY)
      #{PROFILE_TO_SHARE}
      threads = Array.new(3) { Thread.new { Array.new(4) { #{work} }.uniq } }
      found = threads.flat_map(&:value).uniq
      ended = true
      others.each(&:join)
      found.map { |one| one == total }
    RUBY
  end

  it "decodes in several threads at once" do
    expect(answers("Memprofiler::Profile.new(profile.pprof_data).then { |p| p.samples && p.total(:alloc_objects) }")).to eq([true])
  end

  it "encodes in several threads at once" do
    expect(answers("Memprofiler::Profile.new((profile - profile).pprof_data).total(:alloc_objects) + total")).to eq([true])
  end

  it "flushes in several threads at once" do
    expect(answers("[collector.flush(labels: %i[class age thread]).total(:alloc_objects), total].min")).to eq([true])
  end

  it "lets others in while a stop names what threads have made" do
    turns, sites, living = Child.value(<<~'RUBY')
      eval Array.new(400) { |i| "def m#{i} = Object.new\n" }.join
      Memprofiler.haste = 1_000_000 # one thing between two turns
      collector = Memprofiler::Collector.new(interval: 1).start
      Thread.new { 400.times { |i| send("m#{i}") } }.join # its sites wait for its name
      GC.start
      stats = collector.stats
      turns = 0
      ended = false
      others = Array.new(3) { Thread.new { (turns += 1) && Thread.pass until ended } }
      sleep 0.01
      before = turns
      collector.stop
      after = turns
      ended = true
      others.each(&:join)
      [after - before, stats[:raw_sites], stats[:live_samples]]
    RUBY
    expect(sites).to be > 400
    expect(turns).to be >= 2 * (sites + living) # of three a busy machine has two ready, mostly all
  end

  it "has one place where it lets others in" do
    sources = Dir[File.join(__dir__, "../ext/memprofiler/{*.c,vm/*.c}")].reject { |file| file.end_with?("/vm/turns.c") }
    waits = /\brb_(?:thread_schedule|thread_check_ints|thread_call_with(?:out)?_gvl|nogvl|thread_wait\w*|thread_sleep\w*|mutex_(?:lock|sleep))\b/
    expect(sources.size).to be > 20
    expect(sources.select { |file| File.read(file).match?(waits) }).to eq([])
  end
end
