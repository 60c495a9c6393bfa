# frozen_string_literal: true

module Memprofiler
  module Run
    # A process in the same group as this one, which does nothing but what it's asked for, up to the end
    # of this one, however that ends.
    #
    # It answers. And while this process has stopped, as the command has, it looks after both: who stops the
    # command by its number, and has it go on by that, knows nothing of this process, which would never
    # hear of it. (That takes Linux' /proc; where it isn't there CONT has to come to both.)
    class Bystander
      QUESTION = "l" # number of a command that has stopped; 0: answer; -1: this process goes on
      SIZE = [0].pack(QUESTION).bytesize
      PAUSE = 0.05 # seconds
      STOPPED = /\A\d+ \(.*\) [Tt]/m # (its name may be anything)
      private_constant :QUESTION, :SIZE, :PAUSE, :STOPPED

      # @return [Integer] its process number
      attr_reader :pid

      # @yield in that process: the answer
      # @raise [SystemCallError] there are no processes or descriptors left
      def initialize(&answer)
        questions, @question = IO.pipe
        @parent = Process.pid
        @pid = fork do
          @question.close
          [$stdin, $stdout, $stderr].each { |stream| stream.reopen(File::NULL) }
          serve(questions, answer)
          exit!
        end
      ensure
        questions&.close
      end

      # @raise [Errno::EPIPE] it has ended
      def ask
        tell(0)
      end

      # Stops this process, which goes on by CONT or when the command does.
      #
      # @param command [Integer] process number
      def stop_beside(command)
        look_after(command)
        Process.kill(:STOP, Process.pid)
        look_after(-1)
      end

      def kill
        Process.kill(:KILL, @pid)
        Process.wait(@pid)
      end

      private

      def tell(number)
        @question.syswrite([number].pack(QUESTION))
      end

      def look_after(number)
        tell(number)
      rescue Errno::EPIPE
        nil # it has been killed
      end

      def serve(questions, answer)
        while (question = questions.read(SIZE))
          number = question.unpack1(QUESTION)
          number.zero? ? answer.call : watch(number, questions)
        end
      end

      # Both stop and go on at any moment, so only what is seen after this process has stopped counts.
      def watch(command, questions)
        until IO.select([questions], nil, nil, PAUSE) # rubocop:disable Lint/IncompatibleIoSelectWithFiberScheduler
          next if stopped?(@parent) == false
          return if (stopped = stopped?(command)).nil? # it can't be seen
          return Process.kill(:CONT, @parent) unless stopped
        end
      end

      # @return [Boolean, nil] nil: it can't be seen
      def stopped?(pid)
        File.binread("/proc/#{pid}/stat").match?(STOPPED)
      rescue SystemCallError
        nil
      end
    end
  end
end
