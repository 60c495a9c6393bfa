# frozen_string_literal: true

require "tempfile"
require_relative "program"

module Real
  # One run of a program, bare or under the profiler.
  class Trial
    LIMIT = 240 # seconds; then it is ended
    MEMPROFILER = [RbConfig.ruby, File.join(ROOT, "exe", "memprofiler"), "run"].freeze

    # `status` in words, `stdout` and `stderr` as Strings, `driven` what the driver returned.
    Result = Struct.new(:status, :stdout, :stderr, :driven)

    def self.bare(program)
      new(program, program.command).run
    end

    # @param output [String] folder for the profiles
    def self.profiled(program, output, interval)
      options = ["--interval", interval.to_s, "--output", output, "--quiet"]
      new(program, [*MEMPROFILER, *options, "--", *program.command]).run
    end

    def initialize(program, words)
      @program = program
      @words = words
    end

    def run
      @program.before&.call
      Tempfile.create("stdout") { |out| Tempfile.create("stderr") { |err| run_into(out, err) } }
    end

    private

    def run_into(out, err)
      pid = Process.spawn(@program.environment, *@words, in: @program.input || File::NULL, out: out, err: err,
                                                         chdir: @program.folder, pgroup: true)
      driven = drive(pid)
      status = wait(pid)
      Result.new(words(status), File.binread(out.path), File.binread(err.path), driven)
    end

    def drive(pid)
      return unless @program.driver

      @program.driver.call
    rescue SystemCallError, RuntimeError => e
      "driver: #{e.message}"
    ensure
      Process.kill(:TERM, pid) if @program.driver
    end

    def wait(pid)
      deadline = Process.clock_gettime(Process::CLOCK_MONOTONIC) + LIMIT
      until (ended = Process.wait2(pid, Process::WNOHANG))
        if Process.clock_gettime(Process::CLOCK_MONOTONIC) > deadline
          Process.kill(:KILL, -pid)
          return Process.wait2(pid).last && nil
        end
        sleep 0.02
      end
      ended.last
    end

    def words(status)
      return "hung" unless status

      status.signaled? ? "SIG#{Signal.signame(status.termsig)}" : status.exitstatus.to_s
    end
  end
end
