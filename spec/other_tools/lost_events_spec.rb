# frozen_string_literal: true

require_relative "../support/other_tools"
require_relative "../support/raw_tool"

# Ruby tells nobody of what happens inside a hook. So whatever another tool's hook does there, on purpose or
# by an allocation that collects, is missing from the events that a profiler sees.
RSpec.describe Memprofiler::Collector, "beside a tool in whose hooks events are lost" do
  # `early` objects die while the tool misbehaves, `late` ones live.
  LOST_EVENTS_PROGRAM = <<~RUBY
    require "raw_tool"
    Bait = Class.new # the tool's hook misbehaves when one of these is made
    def held(count) = Array.new(count) { Kept.new }
    def report(collector)
      profile = collector.flush(labels: [:class])
      kept = profile.samples.select { |s| s.labels["class"] == "Kept" && s.stack.any? { |f| f.function =~ /held/ } }
      stats = collector.stats
      { made: kept.sum { |s| s.values[:alloc_objects] }, alive: kept.sum { |s| s.values[:inuse_objects] },
        lost: stats[:lost_collections], given_up: stats[:lost_samples], late: stats[:reused_addresses], unseen: stats[:unseen_objects] }
    end

    def misbehave(collector, manner, kind, baits: 100)
      collector.start
      early = held(20_000) # several pages of the heap, so that the sweep takes several steps
      stays = held(500)
      clear_stack
      GC.start
      early.clear
      before = report(collector)
      RawTool.start(Bait, kind, manner)
      GC.start(immediate_sweep: false) # the sweep is left to whoever allocates next
      count = GC.count
      baits.times { Bait.new }
      told = RawTool.stop
      during = report(collector)
      late = held(700)
      clear_stack
      GC.start
      after = report(collector)
      collector.stop
      [before, during, after, { stays: stays.size, late: late.size, baits: told.first, collected: GC.count - count }]
    end
  RUBY

  def misbehave(manner, liveness, kind)
    OtherTools.value(LOST_EVENTS_PROGRAM + <<~RUBY, options: RawTool.options)
      misbehave(Memprofiler::Collector.new(interval: 1, liveness: :#{liveness}), :#{manner}, :#{kind})
    RUBY
  end

  %i[mark free].product(%i[hook point]).each do |liveness, kind|
    describe "(#{liveness}, the tool's #{kind})" do
      it "when it collects: what lived is given up, and said to be; what comes later is right" do
        before, during, after, truth = misbehave(:collect, liveness, kind)
        expect(truth).to include(baits: 100, stays: 500)
        expect(truth[:collected]).to be > 100
        expect(before).to include(made: 20_500, lost: 0, given_up: 0)
        expect(during[:lost]).to be >= 1
        expect(during[:given_up]).to be >= 500
        expect(during[:alive]).to eq(0) # nobody knows; nothing is made up
        expect(after).to include(made: 21_200, alive: 700, unseen: 0)
      end

      it "when its malloc collects: the same, where it can" do
        _, during, after, truth = misbehave(:malloc, liveness, kind)
        if RUBY_VERSION < "3.4" # from there on malloc collects in no hook
          expect(truth[:collected]).to be > 100
          expect(during[:lost]).to be >= 1
          expect([during[:alive], after[:alive]]).to eq([0, 700])
        else
          expect(during[:lost]).to eq(0)
          expect(after[:alive]).to be_between(1_200, 1_203)
        end
        expect(after).to include(made: 21_200, unseen: 0)
      end

      # Not one collection is missing here, but the news of its dead.
      it "when a sweep ends in it: nobody dead passes for alive" do
        before, during, after, truth = misbehave(:finish, liveness, kind)
        expect(truth[:baits]).to eq(100)
        expect(before).to include(made: 20_500)
        expect(during).to include(lost: 0, given_up: 0)
        expect(during[:alive]).to be_between(500, 502)
        expect(during[:late]).to(liveness == :free ? be > 500 : eq(0))
        expect(after).to include(made: 21_200, lost: 0, unseen: 0)
        expect(after[:alive]).to be_between(1_200, 1_203)
      end

      # An address that the profiler knows as a class' may be another's then.
      it "when a sweep ends in it: new classes don't get the names of dead ones" do
        names, here = OtherTools.value(LOST_EVENTS_PROGRAM + <<~RUBY, options: RawTool.options)
          def classes(name) = Array.new(500) { |i| Object.const_set("\#{name}\#{i}", Class.new) }
          def instances(classes) = classes.map(&:new)
          collector = Memprofiler::Collector.new(interval: 1, liveness: :#{liveness}).start
          early = classes("Early")
          instances(early)
          clear_stack
          GC.start
          collector.flush(labels: [:class]) # names them
          500.times { |i| Object.send(:remove_const, "Early\#{i}") }
          early.clear
          clear_stack
          RawTool.start(Bait, :#{kind}, :finish)
          3.times do
            GC.start(immediate_sweep: false)
            10.times { Bait.new }
          end
          RawTool.stop
          late = instances(classes("Late"))
          clear_stack
          profile = collector.flush(labels: [:class], gc: true)
          alive = profile.samples.select { |s| s.values[:inuse_objects].positive? && s.stack.any? { |f| f.function.include?("instances") } }
          [alive.map { |s| s.labels["class"] }.grep(/Early|Late/).map { |name| name[/[A-Z][a-z]+/] }.tally, late.size]
        RUBY
        expect([names, here]).to eq([{ "Late" => 500 }, 500])
      end

      # Of the threads that wait for their names the newest are kept alive: those that were at that collection.
      it "when it collects while threads get their names: none that is gone is asked for its own" do
        named, stats = OtherTools.value(LOST_EVENTS_PROGRAM + <<~RUBY, options: RawTool.options)
          collector = Memprofiler::Collector.new(interval: 1, liveness: :#{liveness}).start
          GC.start
          GC.disable
          280.times { Thread.new { Object.new }.join } # more than are kept
          clear_stack
          RawTool.start(Bait, :#{kind}, :collect, 3) # not each time, or the news comes in between
          named = 0
          bait = TracePoint.new(:c_call) do |point|
            next unless point.method_id == :name && point.self.is_a?(Thread)

            named += 1
            GC.enable
            Bait.new
            GC.disable
          end
          bait.enable { collector.flush(labels: [:thread]) }
          RawTool.stop
          [named, collector.stats]
        RUBY
        expect(stats[:lost_collections]).to be >= 1
        expect(named).to be_between(30, 280)
        expect(stats[:kept_threads]).to be <= 2
      end

      it "when it allocates: these objects are not seen, and said to be; all else is right" do
        _, during, after, truth = misbehave(:allocate, liveness, kind)
        expect(during).to include(lost: 0, unseen: truth[:baits])
        expect(during[:alive]).to be_between(500, 502)
        expect(after).to include(made: 21_200, lost: 0, unseen: truth[:baits])
        expect(after[:alive]).to be_between(1_200, 1_203)
      end
    end
  end
end
