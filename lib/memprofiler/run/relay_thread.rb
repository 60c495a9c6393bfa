# frozen_string_literal: true

require_relative "bystander"

module Memprofiler
  module Run
    # Passes on to the command the signals that only this process got.
    #
    # A signal that went to the whole process group (from the terminal, `timeout`,
    # a service manager) has reached the command already, and a second one may
    # mean something else to it. From the terminal they come from the kernel. For
    # the others there is a bystander, a process in the same group that does
    # nothing but answer when it's asked, by then having noted what it got: what
    # it got too, from the same sender, went to all.
    class RelayThread
      # What a process can be sent on purpose. Faults (SEGV and its like) are
      # each process's own; CHLD is about our child; KILL and STOP can't be had.
      SIGNALS = %w[HUP INT QUIT TERM USR1 USR2 ALRM TSTP TTIN TTOU CONT WINCH XCPU XFSZ].freeze
      ANSWER = 0 # stands for a signal in the bystander's answers
      PATIENCE = 1 # second for an answer: the bystander may have been killed
      # What ends the work after the command's end, unless it comes in haste: a hand
      # that presses Ctrl-C again and again meant the command.
      ENDING = %w[HUP INT QUIT TERM].freeze
      HASTE = 1 # second
      private_constant :SIGNALS, :ANSWER, :PATIENCE, :ENDING, :HASTE

      # From now on no such signal ends this process, up to its end. They wait for the
      # command's start.
      #
      # @raise [SystemCallError, ThreadError] there are no processes or descriptors left;
      #   Errno::EAGAIN in this thread, up to `start`, too
      def initialize
        @reader, @writer = IO.pipe
        Relay.watch(@writer.fileno, Signal.list.values_at(*SIGNALS).compact)
        @starting = Thread.current
        @lock = Mutex.new
        @started = ConditionVariable.new
        @thread = Thread.new { pass_on if wait_for_start }
        @thread.report_on_exception = false
        # Signals that one of the two got, and the other hasn't so far: [signal, sender]
        @only_here = []
        @only_there = []
        @bystander = Bystander.new { @writer.syswrite([ANSWER, 0, Process.pid].pack(Relay::FORMAT)) }
      rescue ThreadError, SystemCallError
        stop
        raise
      end

      # @param command [Integer] process number
      def start(command)
        @lock.synchronize do
          @command = command
          @started.signal
        end
      end

      # The command has ended: runs a block, which a signal may cut short.
      def afterwards(&)
        @thread.kill.join
        work = Thread.new(&)
        @thread = Thread.new { end_by_signal(work) }
        work.join
      end

      # Signals go nowhere now.
      def stop
        @thread&.kill
        @bystander&.kill
      end

      # The command has stopped: this process stops too, up to a CONT or until the command goes on.
      def stop_with_command
        @bystander.stop_beside(@command)
      end

      private

      # Where no process is to be had Ruby tries again for ever. A signal that ends must
      # be heard then.
      def wait_for_start
        loop do
          return true if @lock.synchronize { @command || (@started.wait(@lock, PATIENCE) && @command) }
          next unless IO.select([@reader], nil, nil, 0) # rubocop:disable Lint/IncompatibleIoSelectWithFiberScheduler

          signal, = @reader.read(Relay::SIZE).unpack(Relay::FORMAT)
          @starting.raise(Errno::EAGAIN) if Signal.list.values_at(*ENDING).include?(signal)
        end
      end

      def pass_on
        loop do
          patience = PATIENCE unless @only_here.empty?
          if IO.select([@reader], nil, nil, patience) # rubocop:disable Lint/IncompatibleIoSelectWithFiberScheduler
            sort_in(*@reader.read(Relay::SIZE).unpack(Relay::FORMAT))
          else
            deliver
          end
        end
      rescue Errno::ESRCH
        nil # the command has just ended
      end

      def end_by_signal(work)
        numbers = Signal.list.values_at(*ENDING)
        start = now
        loop do
          signal, = @reader.read(Relay::SIZE).unpack(Relay::FORMAT)
          work.kill if numbers.include?(signal) && now - start > HASTE
        end
      end

      def now
        Process.clock_gettime(Process::CLOCK_MONOTONIC)
      end

      def sort_in(signal, sender, receiver)
        if signal == ANSWER
          deliver
        elsif ![0, @command, @bystander.pid].include?(sender)
          mine, others = receiver == @bystander.pid ? [@only_there, @only_here] : [@only_here, @only_there]
          others.delete([signal, sender]) || mine.push([signal, sender])
          ask if receiver != @bystander.pid
        end
      end

      def ask
        @bystander.ask
      rescue Errno::EPIPE
        deliver
      end

      # What is still here when the bystander has answered was for this process.
      # What only the bystander got was for nobody.
      def deliver
        @only_here.each { |received| Process.kill(received.first, @command) }
        @only_here.clear
        @only_there.clear
      end
    end
  end
end
