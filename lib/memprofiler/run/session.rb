# frozen_string_literal: true

require_relative "../version"
require_relative "../errors"
require_relative "../forks"
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
      # While the profile is written: an impatient second Ctrl-C would cost the one that the first asked for.
      # (XFSZ ends a program that may write no more; held back, it is an Errno::EFBIG.)
      HOLD_BACK = ::Signal.list.values_at("INT", "TERM", "HUP", "XFSZ").freeze
      SPARE_DESCRIPTORS = 8
      # Handlers that a library registered before us, with `ruby -r`, run after
      # ours: minitest/autorun runs all tests there. If they allocated so much
      # that it matters the profile is taken again.
      MUCH_MORE = 0.01
      private_constant :STANDARD_ERROR, :PROCESS, :FILE, :THREAD, :HOLD_BACK, :SPARE_DESCRIPTORS,
                       :MUCH_MORE

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
            next unless @current.started?

            Forks.watch(@current)
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

      def initialize(output, manifest, interval, quiet)
        @output = output.b.freeze
        @manifest = manifest.b.freeze
        @interval = interval
        @quiet = quiet
        @program = NewFile.name_of($0).freeze
      end

      # @return [Boolean] whether the program is profiled
      def started?
        error = Memprofiler.attempt { start }
        record_error("refused", "", error) if error
        error.nil?
      end

      # A forked child profiles itself, from the fork on: what its parent allocated is in the parent's file.
      # (What goes on after Process.daemon is the same program, and so is its profile.)
      def after_fork(daemon)
        return if daemon || !@collector

        before = @collector
        @collector = @path = nil # what there is is the parent's
        error = Memprofiler.attempt do
          before.stop
          start
        end
        record_error("failed", "", error) if error
      end

      # Writes the profile; the program is over. The collector may have been stopped
      # before, where a Ractor can't be profiled: its profile says so. (A child that
      # another Ractor has forked has the parent's.)
      def finish
        return unless @collector && Memprofiler.main_ractor?

        error = at_end do
          @path = write_profile
          record("profile", FILE.basename(@path))
        end
        record_error("failed", "", error) if error
      end

      # As `finish`, when there is much that the first profile doesn't have.
      def finish_again
        return unless @path

        error = at_end { FILE.rename(write_profile, @path) if much_more? }
        record_error("failed", "after other exit handlers: ", error) if error
      end

      private

      def start
        Memprofiler.list_hears_of_forks = false
        Memprofiler.list_begins(@manifest, @program)
        collector = Collector.new(interval: @interval)
        collector.start(heap: true)
        @collector = collector
        Memprofiler.list_hears_of_forks = true
      end

      # What lives can't be told after a collection since then, and the first profile is the better one.
      def much_more?
        # By the hook's own count: printing an error allocates much, after Ruby took off all hooks.
        return false unless @collector.running? && allocated > @allocated * (1 + MUCH_MORE)

        @collector.stats[:lost_collections] <= @lost_collections
      end

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

      # @return [Exception, nil] what went wrong: whatever it is, the exit status is the program's
      def at_end
        Memprofiler.own do
          Memprofiler.attempt_last do
            Memprofiler.hold_back(*HOLD_BACK) do
              # What had come before is handled here: it asks for the end, and this is it.
              Memprofiler.attempt_last { THREAD.pass }
              yield
            end
          end
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
        Memprofiler.attempt_last do
          text = "#{how}an error that has no message"
          Memprofiler.attempt_last { text = "#{how}#{error.class}: ".b << error.message.b }
          record(what, text) || say_aloud(text)
        end
      end

      # The list can't be written either: by another user, say. It's the only way to hear of it.
      def say_aloud(text)
        return if @quiet

        line = "memprofiler run: #{@program} #{PROCESS.pid}: no profile could be saved: #{Printable.of(text)}\n"
        NewFile.without_signals do
          STANDARD_ERROR.syswrite(line.b)
        end
      end

      # @return [Boolean] whether it stands in the list
      def record(what, text)
        Memprofiler.list_line(what, text)
      end
    end
  end
end
