# frozen_string_literal: true

# Loaded into a test file's process, by -r: writes down what each test came to, as it comes to it, so that a
# crash leaves what was before it. Every event opens the file anew: tests look at open descriptors.
module SuiteRecorder
  PATH = ENV.delete("MEMPROFILER_SUITE_RESULTS").freeze # the children of tests are not tests
  PID = $$
  LETTERS = { "E" => "error", "F" => "fail", "S" => "skip" }.freeze

  def self.note(event, name, outcome = nil)
    return unless $$ == PID

    File.open(PATH, "a") { |file| file.write("#{event}\t#{name}\t#{outcome}\n") }
  end

  # Test::Unit::TestCase of Ruby's own repository, whose `run` returns what it prints.
  module RubysOwn
    def run(runner)
      name = "#{self.class}##{__name__}"
      SuiteRecorder.note("begin", name)
      result = super
      SuiteRecorder.note("end", name, LETTERS.fetch(result[0], "pass"))
      result
    end
  end

  # What that one finds left behind by a test.
  module Leaks
    def puts(*lines)
      lines.each do |line|
        what, name = line.to_s.match(/\A(.*?)(?:: | in )?(Test\w*(?:::\w+)*#\w+\S*?)(?=:|\s|\z)/)&.captures
        SuiteRecorder.note("end", "#{name} leaves", what.empty? ? "changes" : what) if name
      end
      super
    end
  end

  # Minitest's result says itself what it was.
  module Minitests
    def run_one_method(suite, method)
      label = "#{suite}##{method}"
      SuiteRecorder.note("begin", label)
      result = super
      SuiteRecorder.note("end", label, LETTERS.fetch(result.result_code, "pass"))
      result
    end
  end

  # The test-unit gem counts in its result.
  module TestUnits
    def run(result)
      label = "#{self.class}##{method_name}"
      SuiteRecorder.note("begin", label)
      before = TestUnits.counts(result)
      super
      more = TestUnits.counts(result).find { |what, count| count > before[what] }
      SuiteRecorder.note("end", label, more ? more.first : "pass")
    end

    def self.counts(result)
      { "error" => result.error_count, "fail" => result.failure_count,
        "skip" => result.pending_count + result.omission_count }
    end
  end

  case ENV.delete("MEMPROFILER_SUITE_FRAMEWORK")
  when "ruby"
    require "test/unit"
    Test::Unit::TestCase.prepend(RubysOwn)
    LeakChecker.prepend(Leaks)
  when "minitest"
    require "minitest"
    Minitest.singleton_class.prepend(Minitests)
  when "test_unit"
    require "test/unit"
    Test::Unit::TestCase.prepend(TestUnits)
  end
end
