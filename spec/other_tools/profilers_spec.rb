# frozen_string_literal: true

require_relative "../support/other_tools"

# Other profilers that watch the same program at the same time.
RSpec.describe Memprofiler::Collector, "beside another profiler" do
  def rounds(...)
    OtherTools.rounds(...)
  end

  describe "stackprof" do
    it "counting objects: both count each" do
      answer = rounds(<<~RUBY, gems: %w[stackprof])
        require "stackprof"
        def tool_start = StackProf.start(mode: :object, interval: 1)
        def tool_stop
          StackProf.stop
          StackProf.results[:frames].values.sum { |frame| frame[:name] == "Class#new" ? frame[:samples] : 0 }
        end
      RUBY
      expect(answer.first).to be_between(OtherTools::MADE, OtherTools::MADE + 4) # and four Arrays, where these are made by Class#new
      expect(answer).to be_true_beside_us
    end

    # A signal of a timer, whose handler takes the stack from a postponed job. How many samples is chance; by CPU time some
    # machines have one in 4 to 10 ms at most.
    %i[wall cpu].each do |mode|
      it "by #{mode} time: it still finds the line that takes the time" do
        answer = rounds(<<~RUBY, gems: %w[stackprof])
          require "stackprof"
          $spin = 30_000_000
          def tool_start = StackProf.start(mode: :#{mode}, interval: 500)
          def tool_stop
            StackProf.stop
            results = StackProf.results
            hottest = results[:frames].values.max_by { |frame| frame[:samples] }
            [results[:mode], results[:samples] > 5, hottest[:name]]
          end
        RUBY
        expect(answer.first).to eq([mode, true, "Object#spin"])
        expect(answer).to be_true_beside_us
      end
    end
  end

  describe "Vernier", if: RUBY_VERSION >= "3.2.1" do # which it asks for
    # An object of ours: `new` called by `made`
    VERNIER = <<~RUBY
      require "vernier"
      def made?(stack) = stack.frames.first(2).map { |frame| frame.label.to_s[/new|made/] } == %w[new made]
    RUBY
    before { skip_or_fail "needs Vernier, and that a C++ compiler (Debian: g++)" unless OtherTools.bundled?("vernier") }

    it "counting what is retained: both count each" do
      answer = rounds(VERNIER + <<~RUBY, gems: %w[vernier], options: ["--enable=gems"])
        def tool_start = Vernier.start_profile(mode: :retained)
        def tool_stop
          result = Vernier.stop_profile
          result.each_sample.count { |stack, _| made?(stack) }
        end
      RUBY
      expect(answer.first).to be_between(OtherTools::ALIVE, OtherTools::ALIVE + 5)
      expect(answer).to be_true_beside_us
    end

    it "by time and by allocation: it still finds the line that takes the time" do
      answer = rounds(VERNIER + <<~RUBY, gems: %w[vernier], options: ["--enable=gems"])
        $spin = 3_000_000
        def tool_start = Vernier.start_profile(mode: :wall, interval: 500, allocation_interval: 1)
        def tool_stop
          result = Vernier.stop_profile
          tops = result.each_sample.map { |stack, weight| [stack.frames.first.label.to_s, weight] }
          hottest = tops.group_by(&:first).max_by { |_, rows| rows.sum(&:last) }.first
          [hottest, result.main_thread[:allocations][:samples].count { |id| made?(result.stack(id)) }]
        end
      RUBY
      expect(answer.first.first).to match(/spin/)
      expect(answer.first.last).to be >= OtherTools::MADE
      expect(answer).to be_true_beside_us
    end
  end

  describe "ruby-prof" do
    it "counting allocations: both count each" do
      answer = rounds(<<~RUBY, gems: %w[ruby-prof], options: ["--enable=gems"])
        require "ruby-prof"
        def tool_start = ($prof = RubyProf::Profile.new(track_allocations: true, measure_mode: RubyProf::ALLOCATIONS)).start
        def tool_stop
          result = $prof.stop
          $prof = nil
          result.threads.flat_map(&:methods).flat_map { |m| m.allocations.to_a }.sum { |a| a.klass_name =~ /Kept/ ? a.count : 0 }
        end
      RUBY
      expect(answer.first).to eq(OtherTools::MADE)
      expect(answer).to be_true_beside_us
    end

    %w[WALL_TIME PROCESS_TIME MEMORY].each do |mode|
      it "in mode #{mode}: it counts calls as alone" do
        answer = rounds(<<~RUBY, gems: %w[ruby-prof], options: ["--enable=gems"])
          require "ruby-prof"
          def tool_start = ($prof = RubyProf::Profile.new(measure_mode: RubyProf.const_defined?(:#{mode}) ? RubyProf::#{mode} : RubyProf::WALL_TIME)).start
          def tool_stop
            result = $prof.stop
            $prof = nil
            calls = Hash.new(0)
            result.threads.flat_map(&:methods).each { |m| calls[m.method_name.to_s] += m.called }
            calls.values_at("made", "new", "clear_stack")
          end
        RUBY
        expect(answer).to be_true_beside_us
      end
    end
  end

  describe "memory_profiler" do
    it "counts and retains what it does alone" do
      answer = rounds(<<~RUBY, gems: %w[memory_profiler])
        require "memory_profiler"
        def tool_start = MemoryProfiler.start
        def tool_stop
          results = MemoryProfiler.stop
          [results.allocated_objects_by_class, results.retained_objects_by_class].map { |rows| rows.find { |row| row[:data] == "Kept" }&.fetch(:count) }
        end
      RUBY
      # It tells of what was allocated before the next collection only, and asks for none; ours are the program's own.
      expect(answer.first).to eq([OtherTools::KEPT] * 2)
      expect(answer).to be_true_beside_us
    end
  end

  describe "allocation_stats" do
    it "finds what it does alone" do
      answer = rounds(<<~RUBY, gems: %w[allocation_stats])
        require "allocation_stats"
        def tool_start = ($stats = AllocationStats.trace)
        def tool_stop
          $stats.stop
          $stats.allocations(alias_paths: false).all.count { |a| a.object.instance_of?(Kept) }
        end
      RUBY
      expect(answer).to be_true_beside_us
    end
  end

  describe "heap-profiler" do
    it "finds what it does alone" do
      answer = rounds(<<~'RUBY', gems: %w[heap-profiler])
        require "fileutils"
        require "objspace"
        require "heap_profiler/full"
        $folders = 0
        def tool_start = ($reporter = HeapProfiler::Reporter.new("heap-#{$folders += 1}")).start
        def tool_stop
          $reporter.stop
          diff = HeapProfiler::Diff.new("heap-#{$folders}")
          index = HeapProfiler::Index.new(diff.allocated)
          [diff.allocated_diff, diff.retained_diff].map do |dump|
            count = 0
            dump.each_object { |object| count += 1 if index.guess_class(object) == "Kept" }
            count
          end
        end
      RUBY
      expect(answer).to be_true_beside_us
    end
  end
end
