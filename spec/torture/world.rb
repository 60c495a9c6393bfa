# frozen_string_literal: true

# world.rb SEED STEPS THREADS [DEED...]: one process of the torture (see run.rb). Does STEPS deeds in the main thread while THREADS
# others do theirs, all picked by SEED, and holds what the profiler says against what Ruby says. Ends with 0, or with 1 and what
# was wrong.

require "memprofiler"
require "objspace"
require "timeout"
require_relative "deeds"
require_relative "truth"

module Torture
  # What a thread has to itself: nothing of it is seen by another, so that a seed gives each the same deeds.
  class Hand
    attr_reader :world, :random, :kept, :turn

    def initialize(world, seed)
      @world = world
      @random = Random.new(seed)
      @kept = []
      @turn = Mutex.new # held during a deed
    end

    def roll(sides) = @random.rand(sides)

    def keep(object)
      @kept.size < 400 ? @kept << object : @kept[roll(400)] = object
      object
    end

    # @param deeds [Array<Deed>] with their weights in a row
    def act(deeds)
      deed = deeds[roll(deeds.size)]
      warn "#{Thread.current.name}: #{deed.name}" if ENV["TORTURE_TRACE"]
      @turn.synchronize { deed.call(self) }
    end
  end

  class World
    attr_reader :collectors, :truth, :forked

    def initialize(seed, steps, threads, names)
      @main = Hand.new(self, seed)
      @steps = steps
      @others = Array.new(threads) { |i| Hand.new(self, (seed * 1_000) + i) }
      @deeds = Deed.known(names)
      @quiet = @deeds.select(&:alone).uniq
      @collectors = []
      @forked = false
    end

    def run
      Memprofiler.haste = [1, 8, 64, 2_000][@main.roll(4)] # what takes turns takes far more of them
      @truth = Truth.new
      trap(:USR1) { Deed.trapped(self) }
      threads = @others.each_with_index.map { |hand, i| Thread.new { other(hand, i) } }
      @steps.times do |step|
        @main.act(@deeds)
        check if (step % 10).zero?
      end
      @ending = true
      threads.each(&:join)
      check
      puts "checks: #{@truth.checks} lost: #{@truth.losses}"
    end

    # All others wait while the block runs.
    def alone(&)
      hold(@others.dup, &)
    end

    # What a forked child does; its other threads are gone, whatever they held.
    def forked_child(hand)
      @forked = true
      @others = []
      5.times { hand.roll(3).zero? ? check : nil }
      check
    end

    def check
      alone { @truth.check(@collectors) }
    end

    private

    def other(hand, number)
      Thread.current.name = "hand #{number}"
      Thread.current.abort_on_exception = true
      deeds = @deeds - @quiet
      until @ending
        hand.act(deeds)
        sleep 0.002 # or the main thread would wait for a time slice at each of its deeds
      end
    end

    def hold(hands, &block)
      return yield if hands.empty?

      hands.pop.turn.synchronize { hold(hands, &block) }
    end
  end
end

Warning[:experimental] = false
seed, steps, threads, *names = ARGV
begin
  Torture::World.new(Integer(seed), Integer(steps), Integer(threads), names).run
rescue Torture::Truth::Wrong => e
  warn "wrong: #{e.message}"
  exit!(1)
end
