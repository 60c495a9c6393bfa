# frozen_string_literal: true

module Memprofiler
  module Auto
    # Writes a profile soon after a signal, in every process: a handler goes on in forked children, and
    # the thread that does the work is begun by it, so none has to be there before. Nothing in the
    # handler waits for a lock.
    class SignalTrigger
      # @param name [String] the signal's, without "SIG"
      # @param files [Files]
      def initialize(name, files)
        @name = name
        @files = files
        @lock = Mutex.new # of whoever writes; Ruby unlocks it in a child whose parent's thread had it
        @waiting = nil # number of the process in which a profile has been asked for, and not begun
        @before = nil
        forget
      end

      # @return [self]
      # @raise [ArgumentError] Ruby doesn't have it trapped
      def install
        @before = Signal.trap(@name) { |number| call(number) }
        Memprofiler.add_service(self)
        self
      end

      # What was there before is there again.
      def remove
        Signal.trap(@name, @before || "DEFAULT")
        Memprofiler.remove_service(self)
      end

      # @return [Hash{Symbol => Object}] `service`, `signal`, `dir`, `written` (files, of this process),
      #   `last` (path of the last one, or nil), `error` (why the last one could not be written, or nil)
      def status
        forget if @pid != Process.pid
        { service: "signal", signal: @name, dir: @files.dir, written: @written, last: @last, error: @error }
      end

      private

      # In a trap's context.
      def call(number)
        error = Memprofiler.attempt { ask }
        @waiting = nil if error
        Memprofiler.attempt { @error = error.message } if error
        chain(number)
      end

      # The second of two signals at a time asks for what the first one did.
      def ask
        return if @waiting == Process.pid

        @waiting = Process.pid
        begin_thread
      end

      # What a Ruby program had there; "DEFAULT" and "IGNORE" are no handlers.
      def chain(number)
        if @before.respond_to?(:call) then @before.call(number)
        elsif @before == "EXIT" then exit
        end
      end

      def begin_thread
        thread = Thread.handle_interrupt(Object => :never) { Thread.new { work } }
        thread.name = "memprofiler SIG#{@name}"
        thread.report_on_exception = false
        thread[:memprofiler] = true
      end

      # Whoever sends it an exception, or kills it, ends it, and neither the program (whose it would be with
      # abort_on_exception) nor what later signals ask for.
      def work
        begun = false
        Memprofiler.attempt_last do
          Thread.handle_interrupt(Object => :immediate) { Memprofiler.own { write { begun = true } } }
        end
      ensure
        @waiting = nil unless begun
      end

      def write
        @lock.synchronize do
          @waiting = nil
          yield
          forget if @pid != Process.pid
          @last = @files.write
          @written += 1
          @error = nil
        end
      rescue StandardError => e
        Auto.complain("SIG#{@name}: no profile could be written: #{e.message}") unless @error
        @error = e.message
      end

      def forget
        @pid = Process.pid
        @written = 0
        @last = @error = nil
      end
    end
  end
end
