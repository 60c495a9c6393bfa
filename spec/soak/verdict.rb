# frozen_string_literal: true

module Soak
  # What a scenario's two runs show.
  class Verdict
    # The rest of RSS that no table explains: the library itself, what is pinned until it has a name, what malloc and Ruby's heap keep.
    SHARE = 1.25
    CONSTANT = 24_000 # kB
    # Of a steady state, in the last third.
    GROWTH = 6_000 # kB

    Row = Struct.new(:round, :seconds, :rss, :memory, :labels, :flush, :samples, :live, :dropped, :untracked, :overflow, :kept,
                     :bare, keyword_init: true) do
      # kB that stats tell of, but for kept threads.
      def told = (memory + labels + flush) / 1000
      def more = rss - bare
    end

    def initialize(scenario, profiled, bare)
      @scenario = scenario
      @rows = profiled.select { |line| line[0] == "row" }.zip(bare).map { |(_, round, seconds, rss, *stats), plain| row(round, seconds, rss, stats, plain) }
      @end = profiled.find { |line| line[0] == "end" }&.drop(1)&.map(&:to_i)
    end

    def table
      bound = "its own memory can't exceed #{mb(bound_kb)}"
      ["", "#{@scenario.name} #{@scenario.options.map { |name, value| "#{name}: #{value}" }.join(", ")}; #{bound}",
       format(FORMAT, *%w[rounds seconds RSS bare more own labels flush samples live dropped overflow threads]),
       *@rows.map { |row| line(row) }, *(faults.empty? ? ["holds: #{claims.keys.join(", ")}"] : faults.map { |fault| "FAILED: #{fault}" })]
    end

    def faults
      @faults ||= claims.reject { |_, holds| holds }.keys
    end

    private

    FORMAT = "%9s %7s %9s %9s %9s %9s %9s %9s %10s %9s %8s %9s %8s"
    private_constant :FORMAT

    def row(round, seconds, rss, stats, plain)
      memory, labels, flush, samples, live, dropped, untracked, overflow, kept = stats.map(&:to_i)
      Row.new(round: round.to_i, seconds: seconds.to_f, rss: rss.to_i, bare: plain[3].to_i, memory: memory, labels: labels, flush: flush,
              samples: samples, live: live, dropped: dropped, untracked: untracked, overflow: overflow, kept: kept.to_i)
    end

    def line(row)
      format(FORMAT, row.round, row.seconds, mb(row.rss), mb(row.bare), mb(row.more), *[row.memory, row.labels, row.flush].map { |bytes| mb(bytes / 1000) },
             row.samples, row.live, row.dropped + row.untracked, row.overflow, row.kept)
    end

    def mb(kilobytes) = format("%.1f MB", kilobytes / 1000.0)

    def bound_kb = Bounds.memory(depth: @scenario.depth, living: @scenario.living) / 1000

    def claims
      all = {
        "own memory below its bound" => @rows.all? { |row| row.memory / 1000 <= bound_kb && row.labels <= Bounds::LABELS },
        "RSS above bare's explained by stats" => @rows.all? { |row| row.more - stacks_of(row) <= (row.told * SHARE) + CONSTANT },
        "nothing dropped" => @rows.all? { |row| row.dropped.zero? && row.untracked.zero? }
      }
      all["steady in the last third"] = steady? if @scenario.steady
      all.merge!(told) if @end
      all
    end

    def steady?
      before = @rows[@rows.size * 2 / 3]
      after = @rows.last
      after.more - stacks_of(after) - (before.more - stacks_of(before)) <= GROWTH && after.memory - before.memory <= GROWTH * 1000
    end

    # kB. From 3.3 on a thread that has ended holds what it used of its VM stack for as long as its object lives.
    def stacks_of(row) = RUBY_VERSION < "3.3" ? 0 : row.kept * @scenario.stack

    # The last profile has every sample, and the count says how many of them have no place of their own.
    def told
      total, overflow, samples, counted, = @end
      { "every sample in the last profile" => total == samples, "what had no room is counted" => (overflow - counted).abs <= counted / 100 }
    end
  end
end
