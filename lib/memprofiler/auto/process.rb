# frozen_string_literal: true

require_relative "../../memprofiler"
require_relative "settings"
require_relative "files"

module Memprofiler
  # What `-rmemprofiler/auto` does in a process: the process' own collector runs, and profiles of it are
  # written at the end, every so often, and at a signal, as MEMPROFILER_* variables want it. No failure
  # of all this is the program's.
  #
  # @api private
  module Auto
    autoload :SignalTrigger, File.join(__dir__, "signal_trigger.rb")

    # Where this copy of the library is: see lib/memprofiler.rb
    LIBRARY = File.expand_path("../..", __dir__).freeze
    # Memprofiler's own commands: whoever has programs profiled doesn't mean these.
    COMMAND = "memprofiler"
    CHECKOUT = File.expand_path("../script/checkout.rb", LIBRARY)
    private_constant :COMMAND, :CHECKOUT

    class << self
      # @param env [Hash{String => String}]
      # @raise [Error] this Ruby can't be profiled
      def begin(env)
        return if File.basename($0) == COMMAND || File.expand_path($0) == CHECKOUT

        settings = Settings.new(env)
        settings.complaints.each { |complaint| complain(complaint) }
        @files = Files.new(settings.dir)
        Memprofiler.own do
          Memprofiler.start(**settings.collector_options)
          write_at_exit unless flush_regularly(settings)
          trap_signal(settings.signal) if settings.signal
        end
      end

      # For memprofiler's own commands where another one has loaded them, as `bundle exec` does.
      def leave
        @files = nil
        @trigger&.remove
        @flusher&.stop
        Memprofiler.stop
      rescue StandardError => e
        complain(e.message)
      end

      # @param text [String] for whoever reads stderr
      def complain(text)
        Memprofiler.attempt { Printable.say("memprofiler: #{text}") } # there may be nobody to tell
      end

      private

      # (It writes a last one at the end of the process itself.)
      #
      # @return [Boolean] whether it's done
      def flush_regularly(settings)
        return false unless settings.every

        @files.make
        @flusher = FileFlusher.new(dir: settings.dir, every: settings.every, **settings.flusher_options).start
        true
      rescue StandardError, ScriptError => e
        complain("MEMPROFILER_EVERY, MEMPROFILER_KEEP: profiles are written at the end only: #{e.message}")
        false
      end

      # A forked child has this handler too. Registered first, it comes after the program's own.
      def write_at_exit
        at_exit { write_last }
      end

      def write_last
        error = Memprofiler.own { Memprofiler.attempt_last { @files&.write } }
        Memprofiler.attempt_last { complain("no profile could be written: #{error.message}") } if error
      end

      def trap_signal(name)
        @trigger = SignalTrigger.new(name, @files).install
      rescue ArgumentError, SystemCallError => e
        complain("MEMPROFILER_SIGNAL: SIG#{name} can't be trapped: #{e.message}")
      end
    end
  end
end
