# frozen_string_literal: true

require_relative "forks"

module Memprofiler
  # A thread that does something again and again: writes a file, pushes a profile. It goes on in forked
  # children, each with a thread of its own, and ends with the process, after a last time if that is wanted.
  #
  # Errors of the work are said once, on stderr, and then again when it has been well in between.
  #
  # @api private
  class Background
    # @param name [String] of the thread, and what complaints begin with
    # @param every [Numeric] seconds from the end of one time to the next, above 0
    # @param at_exit [Boolean] whether a last time comes at the end of the process
    # @param in_child [Proc, nil] what is to be done in a forked child before it goes on there
    # @param work [Proc] called with :tick, or :last at the end
    def initialize(name:, every:, at_exit: true, in_child: nil, &work)
      @name = name
      @every = every
      @at_exit = at_exit
      @in_child = in_child
      @work = work
      @complained = false
      @running = false
      renew
    end

    # @return [self]
    def start
      return self if @running

      @running = true
      Forks.watch(self)
      watch_exit
      spawn
      self
    end

    # @param last [Boolean] whether the work is done once more
    # @return [self]
    def stop(last: true)
      return self unless @running

      @running = false
      thread = @thread
      @mutex.synchronize { @condition.signal }
      thread.join unless thread.nil? || thread == Thread.current
      run(:last) if last
      self
    end

    # @return [Boolean]
    def running?
      @running && @pid == Process.pid && !!@thread&.alive?
    end

    # The thread is the parent's.
    def after_fork
      renew
      return unless @running

      @in_child&.call
      spawn
    end

    private

    # Locks that another thread held at a fork are nobody's in the child.
    def renew
      @mutex = Mutex.new
      @condition = ConditionVariable.new
      @pid = Process.pid
      @thread = nil
    end

    def watch_exit
      return if @watches_exit

      @watches_exit = true
      Kernel.at_exit { stop(last: @at_exit) if @running }
    end

    def spawn
      @thread = Thread.new { loop_until_stopped }
      @thread.name = @name
      @thread.report_on_exception = false
      @thread.priority = -1 # the program's come first
      @thread[:memprofiler] = true
    end

    def loop_until_stopped
      while @running
        @mutex.synchronize { @condition.wait(@mutex, @every) if @running }
        run(:tick) if @running
      end
    end

    # No error of the work's ends the thread.
    def run(occasion)
      @work.call(occasion)
      @complained = false
    rescue StandardError => e
      complain(e) unless @complained
      @complained = true
    end

    def complain(error)
      message = error.is_a?(Error) ? error.message : "#{error.class}: #{error.message}"
      warn "memprofiler: #{@name}: #{message} (said once; it goes on)"
    rescue StandardError
      nil # there is nobody to tell
    end
  end
end
