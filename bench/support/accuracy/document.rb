# frozen_string_literal: true

require_relative "observations"
require_relative "programs"

module Bench
  module Accuracy
    # The tables of docs/accuracy.md.
    class Document
      MARKS = ["<!-- bench/accuracy writes from here -->", "<!-- to here -->"].freeze
      FEW = 20 # samples: fewer are marked as few in reports
      BINS = [1...5, 5...FEW, FEW...50, 50...200, 200...1_000, 1_000...Float::INFINITY].freeze
      KINDS = { "objects" => %i[alloc_objects inuse_objects], "bytes" => %i[alloc_space inuse_space] }.freeze
      UNEVEN = "huge" # is in no sum: see its table
      COLUMNS = ["median error", "95th percentile", "estimate / truth", "truth within the error"].freeze

      # Puts the tables where the marks are.
      #
      # @return [String]
      def self.replace(text, tables)
        head, rest = text.split("#{MARKS[0]}\n", 2)
        tail = rest&.split("#{MARKS[1]}\n", 2)&.at(1)
        raise ArgumentError, "no place for the tables: #{MARKS.join(" ... ")}" unless tail

        "#{head}#{MARKS[0]}\n#{tables}#{MARKS[1]}\n#{tail}"
      end

      # @param results [Array<Result>]
      # @param made [String] when, by what and on what
      def initialize(results, made)
        @results = results
        @made = made
        @pooled = results.reject { |result| result.program.name == UNEVEN }
        @intervals = ROUND.keys
      end

      # @return [String]
      def text
        programs = @results.map { |result| program(result) }
        [@made, truth, by_samples, by_interval, bias, uneven, *programs].compact.join("\n").concat("\n")
      end

      private

      def truth
        rows = @results.map do |result|
          allocated, counted, in_use, held = result.checks.values_at("allocated", "counted", "in_use", "held")
          numbers = [allocated, counted, in_use[0], held[0], in_use[1], held[1]].map { |value| number(value) }
          samplings = @intervals.map { |interval| result.samplings(interval) }.join(", ")
          [result.program.name, result.program.about, *numbers, samplings]
        end
        section("The programs, and what is true of them",
                ["program", "what it does", "allocated", "by `GC.stat`", "in use", "by ObjectSpace", "bytes",
                 "by ObjectSpace", "samplings at #{@intervals.join(", ")}"], rows)
      end

      def by_samples
        rows = KINDS.flat_map do |kind, metrics|
          BINS.filter_map { |bin| row([kind, range(bin)], alike(metrics, bin)) }
        end
        section("By number of samples", ["what", "samples of one size", "rows", *COLUMNS], rows)
      end

      def by_interval
        rows = KINDS.flat_map do |kind, metrics|
          @intervals.filter_map { |interval| row([kind, number(interval)], pool(metrics, [interval], FEW..)) }
        end
        wholes = KINDS.flat_map do |kind, metrics|
          @intervals.filter_map do |interval|
            row(["#{kind} of the whole", number(interval)], wholes(metrics, interval))
          end
        end
        section("By interval", ["what", "interval", "rows", *COLUMNS], rows + wholes)
      end

      # Of so many means some are off by more than their errors, if nothing is wrong with any.
      def bias
        cells = @results.product(METRICS, @intervals.drop(1)).map do |result, metric, interval|
          result.rows(metric, interval, FEW..)
        end
        cells.reject! { |cell| cell.none? || cell.bias[1].nil? }
        biased = cells.count(&:biased?)
        "### Bias\n\nOf #{cells.size} means of estimate / truth in the tables of programs below #{biased} are off 1 " \
          "by more than their own 95 % error; #{(cells.size * 0.05).round(1)} would be by chance.\n"
      end

      def uneven
        result = @results.find { |one| one.program.name == UNEVEN } or return
        rows = KINDS["bytes"].product(@intervals).filter_map do |metric, interval|
          seen = result.whole(metric, interval)
          row(["`#{metric}`", number(interval)], seen)&.push(percent(seen.warned)) unless seen.none?
        end
        section("Few large objects (*#{UNEVEN}*): the whole profile",
                ["metric", "interval", "profiles", *COLUMNS, "else a `note:`"], rows)
      end

      def program(result)
        rows = METRICS.product(@intervals).filter_map do |metric, interval|
          first = ["`#{metric}`", number(interval)]
          seen = result.rows(metric, interval, FEW..)
          next row([*first, samples(seen)], seen) unless seen.none?

          [*first, "few", *["-"] * (COLUMNS.size + 1)] unless result.rows(metric, interval, 1..).none?
        end
        section("*#{result.program.name}*", ["metric", "interval", "samples of a row", "rows", *COLUMNS], rows)
      end

      def samples(seen)
        seen.samples.map { |samples| number(samples.round) }.uniq.join(" to ")
      end

      # ---- cells -------------------------------------------------------------------------------

      def pool(metrics, intervals, expected)
        cells = @pooled.product(metrics, intervals).map do |result, metric, interval|
          result.rows(metric, interval, expected)
        end
        Observations.sum(cells)
      end

      def alike(metrics, bin)
        cells = @results.product(metrics, @intervals.drop(1))
        Observations.sum(cells.map { |result, metric, interval| result.alike(metric, interval, bin) })
      end

      def wholes(metrics, interval)
        Observations.sum(@pooled.product(metrics).map { |result, metric| result.whole(metric, interval, FEW..) })
      end

      def row(first, seen)
        return if seen.none?

        mean, error = seen.bias
        share, limits = seen.coverage
        [*first, number(seen.size), percent(seen.median), percent(seen.largest),
         [mean, *error].map { |value| format("%.4f", value) }.join(" +/- "),
         "#{percent(share)} (#{limits.map { |limit| percent(limit).delete("% ") }.join("-")})"]
      end

      def section(title, head, rows)
        lines = [head, head.map { "---" }, *rows].map { |cells| "| #{cells.join(" | ")} |" }
        "### #{title}\n\n#{lines.join("\n")}\n"
      end

      def percent(share)
        share ? "#{(share * 100).round(1)} %" : "-"
      end

      def number(number)
        number.to_s.gsub(/(?<=\d)(?=(?:\d{3})+\z)/, ",")
      end

      def range(bin)
        bin.end.finite? ? "#{number(bin.begin)} to #{number(bin.end)}" : "#{number(bin.begin)} and more"
      end
    end
  end
end
