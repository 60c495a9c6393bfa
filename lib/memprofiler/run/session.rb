# frozen_string_literal: true

require_relative "../version"
require_relative "../errors"
require_relative "../profile"
require_relative "../vm_faults"

module Memprofiler
  # `memprofiler run`, and what it puts into the programs below it.
  #
  # @api private
  module Run
    # The profiling of one process below `memprofiler run`, from its first line
    # to its end. It runs inside somebody else's program, which may by its end
    # have changed folder or user, closed its streams, replaced constants and
    # methods: all that is needed then is taken in at the start, no failure gets
    # out, paths are bytes, and as NewFile it gives methods just what they take.
    class Session
      STANDARD_ERROR = ::STDERR # rubocop:disable Style/GlobalStdStream -- $stderr may be anything by then
      LIBRARY = ::File.expand_path("../..", __dir__).freeze
      PROCESS = ::Process
      FILE = ::File
      THREAD = ::Thread
      # (Whoever else may write to the folder could have put a link there, or a pipe that nobody reads.)
      APPEND = FILE::WRONLY | FILE::APPEND | FILE::NOFOLLOW | FILE::NONBLOCK
      # Ends a program that may write no more; held back, it is an Errno::EFBIG.
      TOO_LARGE = ::Signal.list.values_at("XFSZ").freeze
      # While the profile is written: an impatient second Ctrl-C would cost the one that the first asked for.
      HOLD_BACK = (::Signal.list.values_at("INT", "TERM", "HUP") + TOO_LARGE).freeze
      SPARE_DESCRIPTORS = 8
      # Handlers that a library registered before us, with `ruby -r`, run after
      # ours: minitest/autorun runs all tests there. If they allocated so much
      # that it matters the profile is taken again.
      MUCH_MORE = 0.01
      private_constant :STANDARD_ERROR, :PROCESS, :FILE, :THREAD, :APPEND, :TOO_LARGE, :HOLD_BACK,
                       :SPARE_DESCRIPTORS, :MUCH_MORE

      class << self
        # @param extension [String] path of the compiled extension
        def begin(extension)
          require extension
          Memprofiler.own_folder = FILE.expand_path("..", __dir__)
          Memprofiler.program = NewFile.name_of($0)
          Memprofiler.own do
            names = %w[OUTPUT MANIFEST INTERVAL].map { |name| "MEMPROFILER_RUN_#{name}" }
            output, manifest, interval = ENV.values_at(*names)
            @current = new(output, manifest, Integer(interval), ENV.key?("MEMPROFILER_RUN_QUIET"))
            next unless @current.start_first

            PROCESS.singleton_class.prepend(ForkHook)
            at_exit { @current.finish }
            ObjectSpace.define_finalizer(@current, Afterwards)
          end
        end

        attr_reader :current
      end

      # The finalizer: it runs when the exit handlers of all others have. (Ruby asks it first whether it responds
      # to `call`, which in a program that has its own `respond_to?` for all objects may raise.)
      module Afterwards
        def self.call(_)
          Session.current.finish_again
        end

        def self.respond_to?(*)
          true
        end
      end

      # A forked child profiles itself, from the fork on: what its parent
      # allocated is in the parent's file. (Process.daemon doesn't come by _fork:
      # what goes on there is the same program, and so is its profile.)
      #
      # What is about to happen is said before: the old process may end in here, and the
      # report come before the new one's first word.
      module ForkHook
        # (A child that another Ractor forks, which can't get at the session, is not profiled.)
        def _fork
          session = Session.current if Memprofiler.main_ractor?
          session&.say("fork")
          pid = super
          (session ? session.restart : Session.current.leave) if pid.zero?
          pid
        ensure
          session&.say("no fork") unless pid
        end

        def daemon(*)
          session = Session.current if Memprofiler.main_ractor?
          session&.say("daemon")
          super
        ensure
          session&.say("daemon", PROCESS.pid.to_s)
        end
      end

      def initialize(output, manifest, interval, quiet)
        @output = output.b.freeze
        @manifest = manifest.b.freeze
        @interval = interval
        @quiet = quiet
        @program = NewFile.name_of($0).freeze
      end

      def start(parent = "")
        @pid = PROCESS.pid # the list knows the program by this one, even if it becomes a daemon
        @path = nil
        record("started", parent)
        @collector = Collector.new(interval: @interval)
        @collector.start(heap: true)
      end

      # @return [Boolean] whether the program is profiled
      def start_first
        start
        true
      rescue StandardError => e
        record_error("refused", "", e)
        false
      end

      def restart
        Memprofiler.own do
          @collector&.stop
          start(@pid.to_s)
        end
      rescue StandardError => e
        leave
        record_error("failed", "", e)
      end

      # What there is is the parent's.
      def leave
        @collector = @path = nil
      end

      # A line of the list, in the middle of the program: an exception that another of
      # its threads sends comes after it.
      def say(what, text = "")
        return unless @collector

        THREAD.handle_interrupt(::Object => :never) { Memprofiler.own { record(what, text) } }
      end

      # Writes the profile; the program is over. The collector may have been stopped
      # before, where a Ractor can't be profiled: its profile says so.
      def finish
        return unless @collector

        Memprofiler.own do
          holding_back do
            @path = write_profile
            record("profile", FILE.basename(@path))
          end
        end
      rescue Exception => e # rubocop:disable Lint/RescueException -- the exit status is the program's
        record_error("failed", "", e)
      end

      # As `finish`, when there is much that the first profile doesn't have.
      def finish_again
        # By the hook's own count: printing an error allocates much, after Ruby took off all hooks.
        return unless @path && @collector.running? && allocated > @allocated * (1 + MUCH_MORE)
        # What lives can't be told after a collection since then, and the first profile is the better one.
        return if @collector.stats[:lost_collections] > @lost_collections

        Memprofiler.own { holding_back { FILE.rename(write_profile, @path) } }
      rescue Exception => e # rubocop:disable Lint/RescueException
        record_error("failed", "after other exit handlers: ", e)
      end

      private

      def write_profile
        profile = @collector.flush(labels: [:class], gc: true, heap: true)
        @allocated = allocated
        @lost_collections = @collector.stats[:lost_collections]
        with_descriptors { write(profile) }
      end

      # A profile of a process with the same number may be there, from another run.
      def write(profile)
        (1..).each do |number|
          path = "#{@output}/#{@program}.#{PROCESS.pid}#{".#{number}" if number > 1}.pb.gz"
          begin
            NewFile.write(path, profile.pprof_data)
          rescue Errno::ENOENT # the run is long over, had nothing, and took its folder along
            NewFile.make_folder(@output)
            NewFile.write(path, profile.pprof_data)
          end
          return path
        rescue Errno::EEXIST
          next
        end
      end

      def allocated
        @collector.send(:allocations)
      end

      def holding_back
        Memprofiler.hold_back(*HOLD_BACK) do
          begin
            THREAD.pass # what had come before is handled here: it asks for the end, and this is it
          rescue Exception # rubocop:disable Lint/RescueException
            nil
          end
          yield
        end
      end

      # A program may end because it has used up all of its descriptors.
      def with_descriptors
        yield
      rescue Errno::EMFILE
        soft, hard = PROCESS.getrlimit("NOFILE")
        more = soft + SPARE_DESCRIPTORS
        PROCESS.setrlimit("NOFILE", more, [more, hard].max) # above hard root may
        begin
          yield
        ensure
          PROCESS.setrlimit("NOFILE", soft, hard)
        end
      end

      # Whatever has been done to the program's methods, this doesn't raise.
      def record_error(what, how, error)
        text = begin
          "#{how}#{error.class}: ".b << error.message.b
        rescue Exception # rubocop:disable Lint/RescueException -- the error's class is the program's
          "#{how}an error that has no message"
        end
        record(what, text) || say_aloud(text)
      rescue Exception # rubocop:disable Lint/RescueException -- the exit status is the program's
        nil
      end

      # The list can't be written either: by another user, say. It's the only way to hear of it.
      def say_aloud(text)
        return if @quiet

        line = "memprofiler run: #{@program} #{PROCESS.pid}: no profile could be saved: #{Printable.of(text)}\n"
        NewFile.without_signals do
          STANDARD_ERROR.syswrite(line.b)
        end
      end

      # A line of the list that the report goes by. One write: other processes
      # write there too.
      def record(what, text = "")
        line = "#{what}\t#{@pid}\t#{@program}\t#{text.b.tr("\t\r\n", " ")}\n"
        Memprofiler.hold_back(*TOO_LARGE) do
          with_descriptors { FILE.open(@manifest, APPEND, 0) { |file| file.syswrite(line) } }
        end
      rescue StandardError
        nil # the run has ended, this user may not write there any more, or nothing works in here
      end
    end
  end
end
