# frozen_string_literal: true

require "tempfile"
require "timeout"
require_relative "../script/suites/comparison"
require_relative "../script/suites/explained"
require_relative "../script/suites/trial"

# What script/ruby-suite tells.
RSpec.describe "script/ruby-suite" do
  describe "a comparison" do
    # @param outcomes [Hash{String => Array<String>}] of one test, by mode, run after run
    def compare(outcomes)
      Suites::Comparison.new("test_x.rb", %w[1 512], again: 2) do |mode, time|
        outcome = outcomes.fetch(mode)[time]
        Suites::Trial::Result.new({ "X#same" => "pass", "X#test" => outcome }.compact, [], true, 1, 0)
      end
    end

    it "runs a file once where all is the same" do
      comparison = compare("bare" => ["fail"], "1" => ["fail"], "512" => ["fail"])
      expect(comparison.differences + comparison.flaky).to be_empty
      expect(comparison.results.transform_values(&:size)).to eq("bare" => 1, "1" => 1, "512" => 1)
      expect(comparison.counts("bare")).to eq("pass" => 1, "fail" => 1)
    end

    it "finds what only profiled runs come to, and says what RUBYOPT alone does" do
      comparison = compare("bare" => %w[pass pass pass], "off" => [nil, "error", "error"], "1" => ["pass"],
                           "512" => %w[error error error])
      expect(comparison.differences.map(&:to_s)).to eq(
        ["test_x.rb X#test\n    bare pass x3; RUBYOPT alone error x2; at 512 error x3"]
      )
      expect(comparison.results.fetch("1").size).to eq(1)
    end

    it "tells a test that fails bare too from one that differs" do
      [%w[pass fail pass], [nil, "pass", "pass"], %w[pass pass pass], [nil, "fail", "pass"]].each_slice(2) do |bare, off|
        comparison = compare("bare" => bare, "off" => off, "1" => %w[fail pass pass], "512" => ["pass"])
        expect(comparison.differences).to be_empty
        expect(comparison.flaky.map(&:outcomes)).to eq([{ "pass" => 4, "fail" => 1 }])
      end
    end

    it "counts a test that isn't reached as one that differs" do
      comparison = compare("bare" => %w[pass pass pass], "off" => [nil, "pass", "pass"], "1" => [nil, nil, nil],
                           "512" => ["pass"])
      expect(comparison.differences.map(&:profiled)).to eq([{ "not run" => 3 }])
    end
  end

  describe "a trial" do
    it "whose interpreter can't be started says so" do
      Dir.mktmpdir do |dir|
        suite = Class.new do
          define_method(:folder) { dir }
          def framework = :minitest
          def environment = {}
          def command(_) = ["#{folder}/none"]
        end.new
        # With a child of somebody else's, which is not to be waited for.
        other = Process.spawn("sleep 60")
        begin
          expect { Timeout.timeout(30) { Suites::Trial.new(suite, "x.rb", "bare", "#{dir}/log", limit: 1).run } }.to raise_error(Errno::ENOENT)
        ensure
          Process.kill(:KILL, other)
          Process.wait(other)
        end
      end
    end
  end

  describe "the explained ones" do
    it "are told with their Rubies and intervals" do
      rows = File.readlines(Suites::Explained::DOCUMENT).grep(/^\| `[^`]* [^`]*`/)
      expect(rows).to all(match(/^\| `test\S+ [^`]+`[^|]*\| \d\.\d(, \d\.\d)* \| \d+(, \d+)* \|[^|]+\|[^|]+\|$/)).and(be_any)
    end

    it "are the document's rows for this Ruby and mode" do
      Tempfile.create do |file|
        file.write("| tests | Rubies | at | what | why |\n|---|---|---|---|---|\n" \
                   "| `test_x.rb X#a`, `test_x.rb X#b*` | #{RUBY_VERSION[/\d+\.\d+/]}, 9.9 | 1 | fail | it is so |\n" \
                   "| `test_x.rb X#c` | 9.9 | 1 | fail | it was so |\n")
        file.flush
        explained = Suites::Explained.new(file.path)
        found = %w[X#a X#b_2 X#c X#d].select do |test|
          explained.include?(Suites::Comparison::Difference.new("test_x.rb", test, "1"))
        end
        expect(found).to eq(%w[X#a X#b_2])
        expect(explained).not_to include(Suites::Comparison::Difference.new("test_x.rb", "X#a", "512"))
      end
    end
  end

  describe "a run" do
    # @param code [String] a test file's, which notes results itself
    def trial(mode, code, limit: 60)
      Dir.mktmpdir do |folder|
        File.write(File.join(folder, "test.rb"), code)
        suite = Struct.new(:folder, :framework, :environment).new(folder, :none, {})
        suite.define_singleton_method(:command) { |file| [RbConfig.ruby, "-r#{Suites::RECORDER}", file] }
        Suites::Trial.new(suite, "test.rb", mode, File.join(folder, "log"), limit: limit).run
      end
    end

    it "has the profiler on, in child processes too, or not at all" do
      code = <<~RUBY
        SuiteRecorder.note("end", "X#on", defined?(Memprofiler::Collector) && "on")
        system(ENV.fetch("RUBY"), "-e", "") or abort
      RUBY
      profiled, off, bare = %w[512 off bare].map { |mode| trial(mode, code) }
      expect([profiled.outcomes["X#on"], profiled.profiled, profiled.profiles]).to eq(["on", true, 2])
      expect([off, bare].map { |run| [run.outcomes["X#on"], run.profiled, run.profiles] }).to all(eq(["", false, 0]))
    end

    it "says which test a file died or hung in" do
      died = trial("bare", 'SuiteRecorder.note("begin", "X#dies"); Process.kill(:KILL, $$); sleep')
      expect(died.outcomes).to eq("X#dies" => "SIGKILL", Suites::FILE => "SIGKILL")
      hung = trial("bare", 'SuiteRecorder.note("begin", "X#hangs"); sleep', limit: 2)
      expect(hung.outcomes).to eq("X#hangs" => "hung", Suites::FILE => "hung")
    end
  end
end
