# frozen_string_literal: true

# accuracy_child.rb PROGRAM REPEATS ROUNDS: runs the program beside one collector that counts all (the truth) and many
# that sample, each with a seed of its own, and prints as JSON what each of them says of the rows that are on top in
# truth. So truth and estimates are of one and the same run, whatever the program does.

require "json"
require "memprofiler"
require "memprofiler/report"
require_relative "accuracy/held"
require_relative "accuracy/programs"

HELD = [] # rubocop:disable Style/MutableConstant -- what the program keeps

module Bench
  module Accuracy
    BENCH = __dir__ # of whose lines none is the program's

    # One run of the program, with all collectors.
    class Round
      # Profiles, in the order of `sampling`, that of the exact one, and what Ruby says of what it says
      attr_reader :profiles, :truth, :checks

      # @param sampling [Array<Array(Integer, Integer)>] interval and seed of each collector
      def initialize(program, sampling)
        @program = program
        @heap = program.name == "huge" # measured whole, for what the head says of what is missing
        @collectors = sampling.map { |interval, seed| Memprofiler::Collector.new(interval: interval, seed: seed) }
        @exact = Memprofiler::Collector.new(interval: 1)
      end

      def call
        ARGV.replace([@program.repeats.to_s])
        GC.start
        run([*@collectors, @exact])
        @profiles = @collectors.map { |collector| flush(collector) }
        @truth = flush(@exact)
        @checks = checks_of(@truth)
        HELD.clear
        self
      end

      private

      # The exact one starts last and stops first: what there is between is the VM's count. What it holds is as of the
      # same collection for all.
      def run(collectors)
        gc = GC
        collectors.each { |collector| collector.start(heap: @heap) }
        before = gc.stat(:total_allocated_objects)
        load @program.path
        gc.start
        @exact.stop
        after = gc.stat(:total_allocated_objects)
        @collectors.each(&:stop)
        @counted = after - before - @exact.stats[:own_objects]
      end

      def flush(collector)
        collector.flush(labels: @program.by == :class || collector.equal?(@exact) ? [:class] : [], heap: @heap)
      end

      def checks_of(profile)
        held = Held.by_class(HELD)
        ours = Hash.new { |hash, name| hash[name] = [0, 0] }
        profile.samples.each do |sample|
          name = sample.labels["class"]
          next unless held.key?(name) && sample.stack.any? { |frame| frame.file == @program.path }

          ours[name][0] += sample.values[:inuse_objects]
          ours[name][1] += sample.values[:inuse_space]
        end
        { allocated: profile.total(:alloc_objects), counted: @counted, in_use: sum(ours), held: sum(held) }
      end

      def sum(pairs)
        [pairs.values.sum(&:first), pairs.values.sum(&:last)]
      end
    end

    # What the collectors of all rounds say of the rows that are on top: seed, what is true, of how many objects, the
    # estimate, its error, and whether the report's head warns.
    class Observation
      def initialize(program)
        @program = program
        @seen = Hash.new { |hash, key| hash[key] = [] }
        @top = {}
      end

      def add(round, sampling)
        METRICS.each do |metric|
          truth = rows(round.truth, metric)
          objects = rows(round.truth, objects_of(metric))
          top = @top[metric] ||= truth.keys.first(LINES)
          round.profiles.zip(sampling) do |profile, (interval, seed)|
            there = rows(profile, metric)
            (top & truth.keys).each do |name|
              found = there[name]
              @seen[[metric, interval, name]] <<
                [seed, truth[name].flat, objects[name].flat, found ? found.flat : 0, found&.error]
            end
          end
        end
        round.profiles.zip(sampling) { |profile, (interval, seed)| add_totals(round.truth, profile, interval, seed) }
      end

      # @return [Array<Hash>] for JSON; the row without a name is the whole profile
      def to_a
        @seen.map { |(metric, interval, name), seen| { metric: metric, interval: interval, name: name, seen: seen } }
      end

      private

      def add_totals(truth, profile, interval, seed)
        warned = Memprofiler::Report.new(profile).head.match?(/^note: .*large objects/)
        sampling = Memprofiler::Profile::Sampling.new(profile.model, profile.metadata)
        METRICS.each_with_index do |metric, column|
          estimate = whole(profile, metric)
          error = sampling.total_error(column) unless estimate.zero?
          @seen[[metric, interval, nil]] <<
            [seed, whole(truth, metric), whole(truth, objects_of(metric)), estimate, error, warned]
        end
      end

      # What the program has made: collectors that are started earlier see those start that come after them.
      def whole(profile, metric)
        profile.top(metric, by: :line).sum { |row| row.name.start_with?(BENCH) ? 0 : row.flat }
      end

      def rows(profile, metric)
        rows = profile.top(metric, by: @program.by)
        rows.reject { |row| row.flat.zero? || row.name.start_with?(BENCH) }.to_h { |row| [row.name, row] }
      end

      def objects_of(metric)
        metric.name.sub("_space", "_objects").to_sym
      end
    end
  end
end

include Bench::Accuracy # rubocop:disable Style/MixinUsage

program = PROGRAMS.find { |candidate| candidate.name == ARGV[0] }.dup
repeats, rounds, seed = ARGV.drop(1).map { |word| Integer(word) }
observation = Observation.new(program)
first = nil
# At interval 1 there's nothing that another seed, or another round, could change.
rest = ROUND.except(1).flat_map { |interval, count| [interval] * count }
once = [1] + rest
program.repeats = 0
Round.new(program, []).call # inline caches are objects, too
program.repeats = repeats
rounds.times do |number|
  sampling = (number.zero? ? once : rest).map { |interval| [interval, seed += 1] }
  round = Round.new(program, sampling).call
  first ||= round.checks
  observation.add(round, sampling)
end
puts JSON.generate(checks: first, rows: observation.to_a)
