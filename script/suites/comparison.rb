# frozen_string_literal: true

module Suites
  # What a test file's tests come to in each mode. Where that differs, the file is run again several times in
  # each mode, and with RUBYOPT alone: a difference is what a profiled run has come to and no other one has.
  class Comparison
    # `bare`, `off` and `profiled` are what all runs have come to, with how often.
    Difference = Struct.new(:file, :test, :mode, :bare, :off, :profiled) do
      def to_s
        "#{file} #{test}\n    bare #{told(bare)}; RUBYOPT alone #{told(off)}; at #{mode} #{told(profiled)}"
      end

      private

      def told(tally)
        tally.map { |outcome, times| times == 1 ? outcome : "#{outcome} x#{times}" }.join(", ")
      end
    end

    # A test that comes to several things without profiling.
    Flaky = Struct.new(:file, :test, :outcomes)

    attr_reader :results, :differences, :flaky

    # @param modes [Array<String>] intervals
    # @param again [Integer] how often a file with differences is run again in each mode
    # @yield [mode, time] makes a run, of which the time says which it is, and returns its Trial::Result
    def initialize(file, modes, again:, &trial)
      @file = file
      @modes = modes
      @trial = trial
      @results = ["bare", *modes].to_h { |mode| [mode, [trial.call(mode, 0)]] }
      rerun(again) if suspects.any?
      @differences = modes.flat_map { |mode| differences_in(mode) }
      @flaky = tests.filter_map { |test| Flaky.new(@file, test, unprofiled(test)) if unprofiled(test).size > 1 }
    end

    # @return [Hash{String => Integer}] how many tests of the first run came to what
    def counts(mode)
      @results[mode].first.outcomes.reject { |test, _| test == FILE || test.end_with?(" leaves") }.values.tally
    end

    private

    def rerun(times)
      @results["off"] = []
      (1..times).each do |time|
        ["bare", "off", *differing_modes].each { |mode| @results[mode] << @trial.call(mode, time) }
      end
    end

    def differing_modes
      @differing_modes ||= @modes.select { |mode| suspects.any? { |test| seen(mode, test) != seen("bare", test) } }
    end

    def tests
      @results.values.flatten.flat_map { |result| result.outcomes.keys }.uniq
    end

    def suspects
      tests.reject { |test| @modes.all? { |mode| seen(mode, test) == seen("bare", test) } }
    end

    def seen(mode, test)
      @results.fetch(mode, []).map { |result| result.outcomes.fetch(test) { absent(test) } }.tally
    end

    # With RUBYOPT alone too, unless it's that which makes the difference.
    def unprofiled(test)
      bare = seen("bare", test)
      off = seen("off", test)
      bare.keys.intersect?(off.keys) ? bare.merge(off) { |_, one, other| one + other } : bare
    end

    def absent(test)
      test.end_with?(" leaves") ? "nothing" : "not run"
    end

    def differences_in(mode)
      tests.filter_map do |test|
        profiled = seen(mode, test)
        next if (profiled.keys - unprofiled(test).keys).empty?

        Difference.new(@file, test, mode, seen("bare", test), seen("off", test), profiled)
      end
    end
  end
end
