# frozen_string_literal: true

require_relative "../support/other_tools"
require_relative "../support/raw_tool"

# What follows a program by events, of the allocator's or of the interpreter's.
RSpec.describe Memprofiler::Collector, "beside a tracer" do
  def rounds(...)
    OtherTools.rounds(...)
  end

  describe "objspace" do
    it "tracing: it knows the line of each object, and we count each" do
      answer = rounds(<<~RUBY)
        require "objspace"
        def tool_start = ObjectSpace.trace_object_allocations_start
        def tool_stop
          found = $kept.map { |o| [ObjectSpace.allocation_sourcefile(o), ObjectSpace.allocation_sourceline(o), ObjectSpace.allocation_class_path(o)] }
          ObjectSpace.trace_object_allocations_stop
          ObjectSpace.trace_object_allocations_clear
          found.tally
        end
      RUBY
      expect(answer.first.values).to eq([OtherTools::KEPT])
      expect(answer.first.keys.first[1]).to eq(OtherTools::LINE)
      expect(answer).to be_true_beside_us
    end

    it "cleared on the way: what it knew is gone, of ours nothing" do
      answer = rounds(<<~RUBY)
        require "objspace"
        def tool_start = ObjectSpace.trace_object_allocations_start
        $middle = -> { ObjectSpace.trace_object_allocations_clear }
        def tool_stop
          found = [$kept, $late].map { |some| some.map { |o| ObjectSpace.allocation_sourceline(o) }.tally }
          ObjectSpace.trace_object_allocations_stop
          found
        end
      RUBY
      expect(answer.first).to eq([{ nil => 200 }, { OtherTools::LINE => 100 }])
      expect(answer).to be_true_beside_us
    end

    it "tracing for debugging, which remembers the dead too" do
      answer = rounds(<<~RUBY)
        require "objspace"
        def tool_start = ObjectSpace.trace_object_allocations_debug_start
        def tool_stop = $kept.map { |o| ObjectSpace.allocation_sourceline(o) }.tally
      RUBY
      expect(answer.first).to eq({ OtherTools::LINE => 200 })
      expect(answer).to be_true_beside_us
    end

    # Up to 3.3 each traced allocation collects in objspace's hook, unseen by others. What was named before is forgotten then.
    it "under GC.stress: names wait, or most collections would be ours" do
      bare, ours, named = OtherTools.value(<<~RUBY)
        require "objspace"
        def collections
          before = GC.count
          ObjectSpace.trace_object_allocations do
            GC.stress = true
            20.times { [Object.new] }
          ensure
            GC.stress = false
          end
          GC.count - before
        end
        bare = collections
        collectors = Array.new(3) { Memprofiler::Collector.new(interval: 1).start }
        ours = collections
        named = collectors.map { |c| c.flush.samples.count { |s| s.stack.any? { |f| f.function == "Object#collections" } } }
        [bare, ours, named]
      RUBY
      expect(ours).to be < bare * 6
      expect(named).to all(be >= 2)
    end

    it "walking the heap: it finds what we have alive" do
      answer = rounds(<<~RUBY)
        require "objspace"
        def tool_start = $middle = -> { ObjectSpace.each_object { |o| o.frozen? }; ObjectSpace.memsize_of_all; ObjectSpace.count_objects_size }
        def tool_stop = [ObjectSpace.each_object(Kept).count, ObjectSpace.reachable_objects_from($kept).size]
      RUBY
      expect(answer).to be_true_beside_us
    end
  end

  describe "TracePoint" do
    it "of all events counts as many as alone" do
      answer = rounds(<<~RUBY)
        $events = Hash.new(0)
        %i[line call return c_call c_return b_call b_return].each { |event| $events[event] = 0 }
        def tool_start
          $events.each_key { |event| $events[event] = 0 }
          ($point = TracePoint.new { |tp| $events[tp.event] += 1 if tp.method_id == :made || tp.method_id == :clear_stack }).enable
        end
        def tool_stop
          $point.disable
          $events.dup
        end
      RUBY
      expect(answer.first).to include(call: be > 100, line: be > 700, b_call: 700)
      expect(answer).to be_true_beside_us
    end

    # A block that is called for an event is a part of the program: its objects are seen.
    it "whose block allocates: its objects are counted, like all" do
      answer = rounds(<<~'RUBY')
        def tool_start
          $texts = 0
          ($point = TracePoint.new(:line, :call, :c_call, :return, :b_return) { |tp| $texts += 1 if "#{tp.path}:#{tp.lineno}".end_with?("program.rb:3") }).enable
        end
        def tool_stop = $point.disable && $texts
      RUBY
      expect(answer.first).to be >= OtherTools::MADE
      expect(answer).to be_true_beside_us(grown: false)
    end

    it "aimed at one method, put on and off in the middle of it" do
      answer = rounds(<<~RUBY)
        def tool_start
          $calls = 0
          ($point = TracePoint.new(:call, :return, :line) { $calls += 1 }).enable(target: method(:made))
          $middle = -> { 3.times { $point.disable; made(0); $point.enable(target: method(:made)) } }
        end
        def tool_stop = $point.disable || $calls
      RUBY
      expect(answer).to be_true_beside_us
    end
  end

  it "set_trace_func sees as many calls as alone" do
    answer = rounds(<<~RUBY)
      $calls = Hash.new(0)
      def tool_start
        $calls.clear
        set_trace_func(proc { |event, _file, _line, id, _binding, _class| $calls[event] += 1 if id == :made || id == :clear_stack })
      end
      def tool_stop
        set_trace_func(nil)
        $calls.dup
      end
    RUBY
    expect(answer.first).to include("call" => be > 100)
    expect(answer).to be_true_beside_us(grown: false) # its bindings are objects, and come between two counts of ours too
  end

  # Objects are counted by C functions in the VM's own hooks.
  %i[hook point].each do |kind|
    it "an extension with a #{kind} for births and deaths counts as many as alone" do
      answer = rounds(<<~RUBY, options: RawTool.options)
        require "raw_tool"
        def tool_start = RawTool.start(Kept, :#{kind})
        def tool_stop = RawTool.stop.first
      RUBY
      expect(answer.first).to eq(OtherTools::MADE)
      expect(answer).to be_true_beside_us
    end
  end

  it "an extension that puts its hooks on and off inside another one's, while ours are on" do
    answer = rounds(<<~RUBY, options: RawTool.options)
      require "raw_tool"
      def tool_start = RawTool.start(Kept, :hook)
      $middle = -> { 20.times { |i| RawTool.stop; RawTool.start(Kept, i.odd? ? :hook : :point) } }
      def tool_stop = RawTool.stop.first
    RUBY
    expect(answer).to be_true_beside_us
  end

  it "Coverage counts lines, branches and methods as alone" do
    answer = rounds(<<~'RUBY')
      require "coverage"
      File.write("covered.rb", "def covered(i)\n  if i.even?\n    [i]\n  else\n    i.to_s\n  end\nend\n")
      path = File.expand_path("covered.rb")
      $middle = -> { 10.times { |i| covered(i) } }
      define_method(:tool_start) { Coverage.start(:all); load(path) }
      define_method(:tool_stop) { Coverage.result.fetch(path).values_at(:lines, :branches).inspect }
      self.class.send(:public, :tool_start, :tool_stop)
    RUBY
    expect(answer.first).to include("10, 10, 5, nil, 5, nil, nil".delete_prefix("10, "))
    expect(answer).to be_true_beside_us
  end

  describe "debug" do
    # Once started it stays: so each order has a process of its own.
    { "loaded before us" => true, "loaded after us" => false }.each do |name, first|
      it "#{name}, with breakpoints that run commands" do
        answer = OtherTools.value(<<~RUBY, gems: %w[debug], options: ["--enable=gems"], env: { "RUBY_DEBUG_NO_COLOR" => "1", "RUBY_DEBUG_NO_RELINE" => "1", "RUBY_DEBUG_NO_HISTORY" => "1" })
          $hits = 0
          def tool_start = nil
          def tool_stop = $hits
          def debugging
            require "debug/session"
            DEBUGGER__.start(nonstop: true, no_sigint_hook: true)
            $middle = -> { debugger(do: "eval $hits += 1") }
          end
          debugging if #{first}
          collector = Memprofiler::Collector.new(interval: 1).start
          debugging unless #{first}
          kept = work
          [$hits, rounds, collector.stats[:lost_collections], kept.size]
        RUBY
        expect(answer[0]).to eq(1)
        bare, results = answer[1]
        expect(bare).to be > 1
        expect([nil, results.map { |round| round.merge(tool: nil) }]).to be_true_beside_us(grown: false)
        expect(results.map { |round| round[:tool] }).to eq(results.each_index.map { |i| bare + i + 2 })
        expect(answer[2]).to eq(0)
      end
    end
  end
end
