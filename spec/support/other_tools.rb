# frozen_string_literal: true

require_relative "child"

# A profiler and another tool in one process, started and stopped in all four orders.
module OtherTools
  # Objects that a round makes at one line: what it keeps, and all.
  KEPT = 200
  ALIVE = 300 # and what it made last
  MADE = 700

  # A tool is two methods, tool_start and tool_stop; the latter's value is its result. What it is told of is
  # what `work` makes, and it may collect in between.
  FRAME = <<~'RUBY'
    $VERBOSE = nil
    Kept = Class.new
    def made(count) = Array.new(count) { Kept.new }
    def clear_stack(depth = 100) = depth.zero? ? nil : [clear_stack(depth - 1)]

    # Without objects of its own, for tools that go by time; long enough for some ticks of any clock
    def spin(turns = $spin) = (turns -= 1 while turns > 0)
    $spin = 0

    $middle = nil

    def work
      $late = nil
      $kept = made(200)
      spin
      made(200)
      GC.start(full_mark: false)
      $middle&.call
      made(200)
      GC.start
      $late = made(100)
      clear_stack
      GC.start
      $kept
    end

    # @return [Hash] what the collector says, and what is true
    def round(liveness, first, last, gc = GC)
      collector = Memprofiler::Collector.new(interval: 1, liveness: liveness)
      tool_start if first == :tool
      collector.start
      before = gc.stat(:total_allocated_objects)
      tool_start if first == :us
      work
      result = tool_stop if last == :tool
      collector.stop
      after = gc.stat(:total_allocated_objects)
      result = tool_stop if last == :us
      stats = collector.stats
      profile = collector.flush(labels: [:class])
      ours = profile.samples.select { |s| s.labels["class"] == "Kept" && s.stack.any? { |f| f.function =~ /made/ } }
      { round: "#{liveness}, first #{first}, last #{last}", tool: result, kept: $kept.size,
        counted: profile.total(:alloc_objects), grown: after - before - stats[:own_objects], unseen: stats[:unseen_objects],
        made: ours.sum { |s| s.values[:alloc_objects] }, alive: ours.sum { |s| s.values[:inuse_objects] },
        lines: ours.map { |s| s.stack.find { |f| f.function =~ /made/ }.line }.uniq,
        lost: stats[:lost_collections], rearmed: stats[:hooks_rearmed], reused: stats[:reused_addresses] }
    end

    # The tool's result without us
    def bare
      tool_start
      work
      tool_stop
    end

    def rounds(repeat: 1)
      results = Array.new(2) { bare } # fills inline caches
      orders = %i[mark free].product(%i[tool us], %i[tool us]) * repeat
      round(:mark, :tool, :us)
      [results.last, orders.map { |liveness, first, last| round(liveness, first, last) }]
    end
  RUBY
  LINE = FRAME.lines.index { |line| line.start_with?("def made") } + 1

  module_function

  # @param names [Array<String>] of gems in the bundle
  # @return [Array<String>] their folders, and those of the gems they need, for the load path
  def load_path(names, seen = {})
    names.each do |name|
      spec = Gem.loaded_specs[name]
      next if seen[name] || !spec # a default gem of Ruby's own

      seen[name] = spec.full_require_paths
      load_path(spec.runtime_dependencies.map(&:name), seen)
    end
    seen.values.flatten
  end

  def bundled?(name)
    !Gem.loaded_specs[name].nil?
  end

  # @return [Object] the program's value; what it has at hand is FRAME's
  def value(code, gems: [], options: [], env: {})
    paths = load_path(gems).flat_map { |folder| ["-I", folder] }
    # BUNDLER_SETUP: RubyGems of Ruby 3.4 goes by it, where RUBYOPT says nothing.
    Child.value(FRAME + code, options: [*paths, *options], env: { "BUNDLER_SETUP" => nil, **env })
  end

  # @return [Array(Object, Array<Hash>)] the tool's result without us, and all rounds
  def rounds(tool, call: "rounds", **options)
    value("#{tool}\n#{call}", **options)
  end
end

# Both tools tell the truth: ours in every round, the other one what it tells alone.
# `unseen`: the tool hides objects from hooks, which the VM counts.
RSpec::Matchers.define :be_true_beside_us do |grown: true, unseen: false|
  match do |(bare, rounds)|
    @faults = rounds.flat_map do |round|
      found = {
        tool: [round[:tool], bare], kept: [round[:kept], OtherTools::KEPT], made: [round[:made], OtherTools::MADE],
        lines: [round[:lines], [OtherTools::LINE]], lost: [round[:lost], 0]
      }
      found[:unseen] = [round[:unseen], 0] unless unseen
      found[:counted] = [round[:counted], round[:grown] - round[:unseen]] if grown
      faults = found.reject { |_, (is, should)| is == should }.to_a
      # What stood on the machine's stack last may be kept by that.
      unless (OtherTools::ALIVE..(OtherTools::ALIVE + 3)).cover?(round[:alive])
        faults << [:alive, [round[:alive], OtherTools::ALIVE]]
      end
      faults.map { |what, (is, should)| "#{round[:round]}: #{what} is #{is.inspect}, should be #{should.inspect}" }
    end
    @faults.empty? && rounds.size >= 8
  end
  failure_message { @faults.join("\n") }
end
