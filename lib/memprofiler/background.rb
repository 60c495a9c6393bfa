# frozen_string_literal: true

require_relative "forks"
require_relative "printable"

module Memprofiler
  # A thread that does something again and again: writes a file, pushes a profile. It goes on in forked
  # children, each with a thread of its own, and ends with the process, after a last time if that is wanted.
  # What it allocates is in no profile.
  #
  # Errors of the work are said once, on stderr, and then again when it has been well in between.
  #
  # Nothing here locks in a signal handler, where Ruby forbids it: what would have to is done by a thread.
  #
  # @api private
  class Background
    # What no thread of ours may end by, and no program hear of.
    FAULTS = [StandardError, ScriptError, NoMemoryError, SystemStackError].freeze
    SLICE = 0.5 # seconds
    private_constant :FAULTS, :SLICE

    @running = [].freeze
    @watches_exit = false

    class << self
      # @param background [Background] to be stopped at exit
      def ends_at_exit(background)
        @running = [*@running, background].freeze
        return if @watches_exit

        @watches_exit = true
        Kernel.at_exit { end_at_exit if Memprofiler.main_ractor? } # another one may have forked
      end

      def ended(background)
        @running = @running.reject { |other| other.equal?(background) }.freeze
      end

      # Whether a signal handler is running: the one place where no Mutex can be locked.
      def trap_context?
        Mutex.new.synchronize { false }
      rescue ThreadError
        true
      end

      private

      # Whatever the program has done to Ruby's methods, its exit status is its own.
      def end_at_exit
        error = Memprofiler.attempt_last { end_all }
        return unless error

        Memprofiler.attempt_last { Printable.warn("memprofiler: the end of its threads: #{Printable.error(error)}") }
      end

      # All are told before one is waited for.
      def end_all
        @watches_exit = false # an exit handler that comes later may start another
        running = @running
        running.each { |background| background.tell_to_stop(last: background.last_at_exit) }
        running.each(&:wait_for_end)
      end
    end

    # @return [Boolean]
    attr_reader :last_at_exit

    # @param name [String] of the thread, and what complaints begin with
    # @param every [Numeric] seconds from the end of one time to the next, above 0
    # @param patience [Numeric] seconds that the end of the thread is waited for, its last time included
    # @param at_exit [Boolean] whether a last time comes at the end of the process
    # @param in_child [Proc, nil] what is to be done in a forked child before it goes on there; cheap. Called
    #   with whether it is one of Process.daemon
    # @param work [Proc] called with :tick, :now when it's asked for, :last at the end, :forked first in a
    #   child's thread. It returns :pending where it didn't come to what failed before.
    def initialize(name:, every:, patience: 30, at_exit: true, in_child: nil, &work)
      @name = name
      @every = every
      @patience = patience
      @last_at_exit = at_exit
      @in_child = in_child
      @work = work
      @complained = false
      @running = false
      renew
    end

    # @return [self]
    # @raise [ThreadError] no thread is to be had
    def start
      return self if running?

      @running = true
      @last = false
      Forks.watch(self)
      Background.ended(self)
      Background.ends_at_exit(self)
      spawn(:tick)
      self
    end

    # In a signal handler it returns at once, and the end comes soon.
    #
    # @param last [Boolean] whether the work is done once more
    # @return [self]
    def stop(last: true)
      return self unless @running
      return elsewhere { stop(last: last) } if Background.trap_context?

      tell_to_stop(last: last)
      wait_for_end
      self
    end

    # Does the work now, in the calling thread; in a signal handler soon, in another one.
    #
    # @return what the work returns; nil in a signal handler
    # What the work raises comes out.
    def now
      return do_work(:now) unless Background.trap_context?

      elsewhere { run(:now) }
      nil
    end

    # @return [Boolean] whether its thread lives
    def running?
      @running && !!@thread&.alive?
    end

    # The thread is the parent's.
    #
    # @param daemon [Boolean] whether the child is one of Process.daemon
    def after_fork(daemon)
      renew
      return unless @running

      @in_child&.call(daemon)
      spawn(:forked)
    end

    # For the work: when its next time is to come, whether this one fails or not.
    #
    # @param seconds [Numeric] instead of `every`
    def again_in(seconds)
      @delay = seconds
    end

    def tell_to_stop(last:)
      @last = last
      @running = false
      wake_up
      Forks.forget(self)
      Background.ended(self)
    end

    # One that was killed, or that hangs, must not cost the process its end.
    def wait_for_end
      thread = @thread
      return if thread == Thread.current

      hangs = thread && !ended?(thread)
      thread.kill if hangs
      complain("it did not end within #{@patience} s, and was given up") if hangs && !@complained
      run(:last) if @last && !hangs
      @last = false
    end

    private

    # (A child that was forked in a signal handler comes to its end in there.)
    def wake_up
      @mutex.synchronize { @condition.signal }
    rescue ThreadError
      @condition.signal
    end

    # Without the lock a signal may come between the thread's look and its sleep, so there is more than one.
    def ended?(thread)
      slices = [(@patience / SLICE).ceil, 1].max
      slices.times do
        return true if thread.join([SLICE, @patience].min)

        @condition.signal
      end
      false
    end

    # Locks that another thread held at a fork are nobody's in the child.
    def renew
      @mutex = Mutex.new
      @condition = ConditionVariable.new
      @lock = Mutex.new # held by who does the work
      @thread = nil
    end

    def spawn(first)
      turn = @turn = Object.new
      @thread = new_thread { work_on(turn, first) }
    end

    # Nothing comes between its beginning and its end. (Marked as the profiler's own while it works
    # only: marks cost the program.)
    def new_thread
      thread = Thread.handle_interrupt(Object => :never) do
        Memprofiler.own { Thread.new { unharmed { yield } } } # rubocop:disable Style/ExplicitBlockArgument
      end
      thread.name = @name
      thread.report_on_exception = false
      thread.priority = -1 # the program's come first
      thread.thread_variable_set(:fork_safe, true) # or Puma warns of it
      thread
    end

    def elsewhere(&)
      new_thread(&)
      self
    end

    # Whoever sends it an exception ends it, and nothing else: with abort_on_exception it would be the program's.
    def unharmed(&)
      Memprofiler.attempt_last { Thread.handle_interrupt(Object => :immediate, &) }
    end

    def work_on(turn, first)
      run(first) if first == :forked
      while going?(turn)
        wait(turn, @delay || @every)
        run(:tick) if going?(turn)
      end
      return unless @last && @turn.equal?(turn)

      @last = false
      run(:last)
    end

    # A thread that was given up does not go on with its successor.
    def going?(turn)
      @running && @turn.equal?(turn)
    end

    def wait(turn, seconds)
      @mutex.synchronize { @condition.wait(@mutex, seconds) if going?(turn) }
    end

    # With a Fiber scheduler other Fibers of this thread run while it waits for a file or the network.
    def do_work(occasion)
      @delay = nil
      return work_alone(occasion) unless Fiber.current_scheduler

      thread = Thread.new { work_alone(occasion) }
      thread.report_on_exception = false
      thread.value
    end

    def work_alone(occasion)
      @lock.synchronize { Memprofiler.own { @work.call(occasion) } }
    end

    def run(occasion)
      @complained = false unless do_work(occasion) == :pending
    rescue *FAULTS => e
      complain(e.is_a?(Error) ? e.message : Printable.error(e)) unless @complained
      @complained = true
    end

    def complain(message)
      Memprofiler.attempt do # there may be nobody to tell
        Printable.warn("memprofiler: #{@name}: #{Printable.of(message)} (said once; it goes on)")
      end
    end
  end
end
