# frozen_string_literal: true

require "fileutils"
require "rbconfig"
require "tmpdir"

module Suites
  AUTO = File.expand_path("../../lib/memprofiler/auto", __dir__)
  RECORDER = File.expand_path("recorder.rb", __dir__)
  FILE = "(the file)"

  # One run of a test file in a process of its own: bare, with RUBYOPT as for profiling and no profiling
  # ("off"), or profiled at an interval. Child processes have the same.
  class Trial
    # `outcomes` by test, `complaints` the profiler's lines on stderr, `profiled` whether its process left a
    # profile, `profiles` how many that one and its children left.
    Result = Struct.new(:outcomes, :complaints, :profiled, :profiles, :seconds)

    # @param suite [Suite]
    # @param file [String] below the suite's folder
    # @param mode [String] "bare", "off", or an interval
    # @param log [String] where what it prints is kept
    def initialize(suite, file, mode, log, limit:)
      @suite = suite
      @file = file
      @mode = mode
      @log = log
      @limit = limit
    end

    def run
      Dir.mktmpdir("suite") do |scratch|
        @scratch = scratch
        make_folders
        started = now
        pid, ending = spawn_and_wait
        Result.new(outcomes(ending), complaints, profiles(pid).any?, profiles.size, now - started)
      end
    end

    private

    # For any user: some tests change theirs.
    def make_folders
      File.chmod(0o755, @scratch)
      %w[home tmp profiles].each do |name|
        Dir.mkdir(File.join(@scratch, name))
        File.chmod(0o1777, File.join(@scratch, name))
      end
    end

    def environment
      mine = { "PATH" => ENV.fetch("PATH"), "LANG" => "C.UTF-8", "HOME" => File.join(@scratch, "home"),
               "TMPDIR" => File.join(@scratch, "tmp"), "RUBY" => RbConfig.ruby, "MEMPROFILER_SUITE_RESULTS" => results,
               "MEMPROFILER_SUITE_FRAMEWORK" => @suite.framework.to_s }
      mine["RUBYOPT"] = "-r#{AUTO}" unless @mode == "bare"
      if @mode =~ /\A\d/
        mine.update("MEMPROFILER" => "1", "MEMPROFILER_INTERVAL" => @mode,
                    "MEMPROFILER_DIR" => File.join(@scratch, "profiles"))
      end
      mine.merge(@suite.environment)
    end

    def results
      File.join(@scratch, "results")
    end

    def spawn_and_wait
      FileUtils.mkdir_p(File.dirname(@log))
      streams = { in: File::NULL, out: @log, err: %i[child out] }
      pid = Process.spawn(environment, *@suite.command(@file), **streams, chdir: @suite.folder, pgroup: true,
                                                                          unsetenv_others: true)
      deadline = now + @limit
      sleep 0.05 until (ended = Process.wait2(pid, Process::WNOHANG)) || now > deadline
      [pid, ended ? words(ended.last) : "hung"]
    ensure
      begin
        if pid # else it never began, and why is being raised
          Process.kill(:KILL, -pid) # what it has left behind too
          Process.wait(pid) unless ended
        end
      rescue Errno::ESRCH, Errno::ECHILD
        nil
      end
    end

    # (The exit status says how many tests failed.)
    def words(status)
      status.signaled? ? "SIG#{Signal.signame(status.termsig)}" : "ended"
    end

    def outcomes(ending)
      begun = nil
      found = {}
      (File.exist?(results) ? File.readlines(results, chomp: true) : []).each do |line|
        event, name, outcome = line.b.split("\t", 3)
        begun = event == "begin" ? name : nil
        found[name] = outcome if event == "end"
      end
      ending = "ended in #{begun}" if begun && ending == "ended"
      found[begun] = ending if begun
      found.merge(FILE => ending)
    end

    def complaints
      File.foreach(@log, mode: "rb").grep(/^memprofiler: /).map(&:chomp).uniq
    end

    def profiles(pid = "*")
      Dir[File.join(@scratch, "profiles", "*.#{pid}.*.pb.gz")]
    end

    def now
      Process.clock_gettime(Process::CLOCK_MONOTONIC)
    end
  end
end
