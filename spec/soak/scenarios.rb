# frozen_string_literal: true

# Programs that would make a profiler grow without end, a round at a time. Bare and profiled do the same.
module Soak
  # @!attribute steady [r] after the first rounds nothing new comes
  # @!attribute runs [r] starts and drops collectors itself
  # @!attribute most [r] objects that live at once
  # @!attribute stack [r] kB of its VM stack that a thread uses
  Scenario = Struct.new(:name, :options, :env, :steady, :runs, :most, :stack, :body, keyword_init: true) do
    def depth = options.fetch(:max_depth, 512)

    # Samples that may be followed at once. The cap is soft: past it each quarter halves the odds.
    def living = options[:max_samples] ? 9 * options[:max_samples] : most
  end

  SCENARIOS = {} # rubocop:disable Style/MutableConstant

  def self.scenario(name, options: {}, env: {}, steady: false, runs: false, most: 500_000, stack: 0, &body)
    SCENARIOS[name.to_s] = Scenario.new(name: name.to_s, options: { interval: 1, **options }, env: env, steady: steady,
                                        runs: runs, most: most, stack: stack, body: body)
  end

  LONG = "x" * 10_000
  HELD = [] # rubocop:disable Style/MutableConstant

  def self.descend(depth) = depth.zero? ? Array.new(20) { Object.new } : descend(depth - 1)

  # Two frames a level. The outermost of each stack are its own, so that it shares no end with another.
  def self.turn(depth, turns)
    return Object.new if depth.zero?

    turns.even? ? left(depth - 1, turns >> 1) : right(depth - 1, turns >> 1)
  end

  def self.left(depth, turns) = turn(depth, turns)
  def self.right(depth, turns) = turn(depth, turns)

  def self.ordinary(round)
    text = Array.new(50) { |i| "#{round % 100}-#{i}" }
    HELD[round % 100] = text.to_h { |word| [word, word.reverse] }
  end

  scenario(:named_classes) do |round, _|
    Object.const_set("Named#{round}", Class.new { def call = [1] }).new.call
    Object.send(:remove_const, "Named#{round}")
  end
  scenario(:anonymous_classes, steady: true) { Class.new { def call = [1] }.new.call }
  scenario(:singleton_classes, steady: true) { Object.new.tap { |object| def object.call = [1] }.call }

  scenario(:evaled_methods) do |round, _|
    eval("def self.evaled#{round} = [1]; evaled#{round}; singleton_class.remove_method(:evaled#{round})",
         TOPLEVEL_BINDING, "/evaled/file#{round}.rb", round + 1)
  end

  scenario(:long_names) do |round, _|
    Object.const_set("Long#{round}#{LONG}", Class.new).new
    Object.send(:remove_const, "Long#{round}#{LONG}")
    eval("def self.m#{round}#{LONG} = [1]; m#{round}#{LONG}; singleton_class.remove_method(:m#{round}#{LONG})",
         TOPLEVEL_BINDING, "/#{round}#{LONG}.rb")
  end

  stacks = { "RUBY_THREAD_VM_STACK_SIZE" => (256 << 20).to_s }
  # A level takes 12 words: a control frame's 8, an argument, and what each frame has besides.
  scenario(:recursion, env: stacks, steady: true, stack: 9_600) { Thread.new { descend(100_000) }.join }
  scenario(:deep_stacks, options: { max_depth: 10_000 }, env: stacks) do |round, _|
    Thread.new { 20.times { |i| turn(4_500, Random.new((round * 20) + i).rand(1 << 40)) } }.join
  end

  scenario(:labels) do |round, collector|
    collector ? Memprofiler.with_labels(id: round, job: "job-#{round}") { [1] } : [1]
  end
  scenario(:threads) { |round, _| Thread.new { Thread.current.name = "worker-#{round}" and [1] }.join }

  scenario(:collectors, steady: true, runs: true) do |round, collector|
    3.times { Memprofiler::Collector.new(interval: 1).start } if collector
    ordinary(round)
    GC.start if (round % 10).zero?
  end
  scenario(:start_stop, steady: true, runs: true) do |round, collector|
    collector&.start
    ordinary(round)
    collector&.flush
    collector&.stop
  end
  scenario(:flushes, steady: true) do |round, collector|
    ordinary(round)
    collector&.flush(labels: %i[class thread])
  end

  living = proc { |round, _| HELD << Array.new(10_000) { Object.new } if round < 1_000 }
  scenario(:living, most: 13_000_000, &living)
  scenario(:living_capped, options: { max_samples: 200_000 }, &living)
end
