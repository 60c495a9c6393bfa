# frozen_string_literal: true

require_relative "../version"
require_relative "../errors"
require_relative "../profile"
require_relative "../vm_faults"

module Memprofiler
  module Run
    # The profiling of one process below `memprofiler run`, from its first line
    # to its end. It runs inside somebody else's program, which may by its end
    # have changed folder or user, closed its streams, replaced constants: all
    # that is needed then is taken in at the start, and no failure gets out.
    class Session
      PROCESS = ::Process
      FILE = ::File
      SIGNAL = ::Signal
      HOLD_BACK = %w[INT TERM HUP].freeze # while the profile is written
      # Handlers that a library registered before us, with `ruby -r`, run after
      # ours: minitest/autorun runs all tests there. If they allocated so much
      # that it matters the profile is taken again.
      MUCH_MORE = 0.01
      private_constant :PROCESS, :FILE, :SIGNAL, :HOLD_BACK, :MUCH_MORE

      class << self
        # @param extension [String] path of the compiled extension
        def begin(extension)
          require extension
          Memprofiler.own_folder = FILE.expand_path("../../", __dir__)
          Memprofiler.own do
            @current = new(ENV["MEMPROFILER_RUN_OUTPUT"], ENV["MEMPROFILER_RUN_MANIFEST"],
                           Integer(ENV["MEMPROFILER_RUN_INTERVAL"]))
            @current.start
            PROCESS.singleton_class.prepend(ForkHook)
            at_exit { @current.finish }
            # Runs when the handlers of all others have.
            ObjectSpace.define_finalizer(@current, proc { @current.finish_again })
          end
        end

        def forked
          @current.restart
        end
      end

      # A forked child profiles itself, from the fork on: what its parent
      # allocated is in the parent's file. (Process.daemon doesn't come by here:
      # what goes on there is the same program.)
      module ForkHook
        def _fork
          pid = super
          Session.forked if pid.zero?
          pid
        end
      end

      def initialize(output, manifest, interval)
        @output = output.dup.freeze
        @manifest = manifest.dup.freeze
        @interval = interval
        # "-e" and "-" are no names, and a file's must not look like an option.
        name = FILE.basename($0).b.gsub(/[^\w.-]+/n, "_").sub(/\A(?:-.*|\.+)/n, "")[0, 60]
        @program = (name.empty? ? "ruby" : name).freeze
      end

      def start
        @pid = PROCESS.pid # the report knows the process by this one, even if it becomes a daemon
        @path = nil
        record("started")
        @collector = Collector.new(interval: @interval)
        @collector.start
      end

      def restart
        Memprofiler.own do
          @collector.stop
          start
        end
      rescue StandardError => e
        record("failed", "#{e.class}: #{e.message}")
      end

      # Writes the profile; the program is over.
      def finish
        return unless @collector&.running?

        Memprofiler.own do
          holding_back_signals do
            @path = write_profile
            record("profile", @path)
          end
        end
      rescue Exception => e # rubocop:disable Lint/RescueException -- the exit status is the program's
        record("failed", "#{e.class}: #{e.message}")
      end

      # As `finish`, when there is much that the first profile doesn't have.
      def finish_again
        return unless @path && allocated > @allocated * (1 + MUCH_MORE)

        Memprofiler.own { holding_back_signals { FILE.rename(write_profile, @path) } }
      rescue Exception => e # rubocop:disable Lint/RescueException
        record("failed", "after other exit handlers: #{e.class}: #{e.message}")
      end

      private

      def write_profile
        profile = @collector.flush(labels: [:class], gc: true)
        @allocated = allocated
        write(profile)
      end

      # A profile of a process with the same number may be there, from another run.
      def write(profile)
        (1..).each do |number|
          path = "#{@output}/#{@program}.#{PROCESS.pid}#{".#{number}" if number > 1}.pb.gz"
          NewFile.write(path, profile.pprof_data)
          return path
        rescue Errno::EEXIST
          next
        end
      end

      def allocated
        GC.stat(:total_allocated_objects)
      end

      # An impatient second Ctrl-C would cost the profile that the first one asked for.
      def holding_back_signals
        before = HOLD_BACK.to_h { |name| [name, SIGNAL.trap(name, "IGNORE")] }
        yield
      ensure
        before&.each { |name, handler| SIGNAL.trap(name, handler || "DEFAULT") }
      end

      # A line of the list that the report goes by. One write: other processes
      # write there too.
      def record(what, text = "")
        line = [what, @pid, @program, text.b.tr("\t\r\n", " ")].join("\t")
        FILE.open(@manifest, FILE::WRONLY | FILE::APPEND) { |file| file.syswrite("#{line}\n") }
      rescue SystemCallError, IOError
        nil # the run has ended, or this user may not write there any more
      end
    end
  end
end
