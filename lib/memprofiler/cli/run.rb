# frozen_string_literal: true

require_relative "../memprofiler"
require_relative "../run/command"
require_relative "../run/environment"
require_relative "../run/output"

module Memprofiler
  module CLI
    # `memprofiler run`: runs a command, then reports on the Ruby processes in it.
    class Run
      INTERVAL = 512
      INTERVALS = (1..1_000_000_000) # the collector's
      # Of programs that are profiled without `run`, which has an option for each.
      VARIABLES = { "MEMPROFILER_INTERVAL" => "--interval", "MEMPROFILER_DIR" => "--output" }.freeze
      private_constant :INTERVAL, :INTERVALS, :VARIABLES

      # @return [String]
      def self.help
        <<~TEXT
          Runs a command and profiles every Ruby process in it, child processes too.
          The command's streams, signals and exit status are its own. When it ends, the lines
          that allocated most, and those that made most of what is still in use, are printed
          to stderr.

          usage: memprofiler run [OPTION...] -- COMMAND [ARG...]

            --interval N  sample one object in N, #{INTERVALS.begin} to #{INTERVALS.end} (default: #{INTERVAL});
                          1 records every object
            --output DIR  folder for the profiles, made if it isn't there (default: a new one in
                          the current folder, memprofiler-DATE-TIME). No file is ever replaced.
            --quiet       print nothing at the end

          Each process writes PROGRAM.PID.pb.gz when it ends: by itself, by an exception, by
          Ctrl-C or TERM, but not by exit!, exec or KILL. Where there are several,
          merged.pb.gz is their sum.

          exit status: the command's; 127: no such command; 126: it can't be executed;
          1: the folder can't be written; 2: wrong usage. In the last four nothing was run.
        TEXT
      end

      # @param arguments [Array<String>]
      # @raise [UsageError]
      def initialize(arguments)
        parser = Options.new(flags: %w[--quiet --help -h], values: %w[--interval --output])
        options = parser.parse(arguments, leading: true)
        @help = options["--help"] || options["-h"]
        @quiet = options["--quiet"]
        @interval = parser.whole_number("--interval", options.fetch("--interval", INTERVAL.to_s), INTERVALS)
        @directory = options["--output"]
        @ignored = VARIABLES.reject { |name, option| ENV[name].to_s.empty? || options.key?(option) }
        parser.error("--output must not be empty") if @directory == ""
        @words = arguments
        parser.error("which COMMAND?") if (@words.empty? || @words.first.empty?) && !@help
      end

      # @return [Integer] the exit status; if the command was ended by a signal it
      #   doesn't return but ends in the same way
      # @raise [WriteError] the folder can't be written
      def call
        return CLI.print_out(Run.help) if @help

        complain_of_variables unless @quiet || @ignored.empty?
        output = Memprofiler::Run::Output.new(@directory)
        # (It stays referred to: it has the pipe that signals go to, up to the end.)
        @command = Memprofiler::Run::Command.new(@words, environment(output))
        # The report's code, while there's nothing else to do
        status = @command.run(meanwhile: -> { load_summary }) { report(output) }
        output.close
        end_like(status)
      rescue Memprofiler::Run::Command::NotStarted => e
        output.withdraw
        CLI.complain("memprofiler run: #{e.message}")
        e.status
      end

      private

      def complain_of_variables
        names, options = [@ignored.keys, @ignored.values].map { |words| words.join(" and ") }
        CLI.complain("memprofiler run: #{names} not followed: here it's #{options}")
      end

      def environment(output)
        environment = Memprofiler::Run::Environment.build(
          output: output.path, manifest: output.manifest, interval: @interval, extension: extension, quiet: @quiet
        )
        return environment if environment

        CLI.complain("memprofiler run: nothing will be profiled, since Ruby's variables can't hold a path with both " \
                     "blanks and #{File::PATH_SEPARATOR}, as memprofiler's has")
        {}
      end

      # The path that this process has loaded it from, wherever RubyGems put it.
      def extension
        name = "/memprofiler/memprofiler.#{RbConfig::CONFIG["DLEXT"]}"
        File.expand_path($LOADED_FEATURES.reverse_each.find { |path| path.end_with?(name) })
      end

      def load_summary
        require_relative "../run/summary"
      end

      # Whatever goes wrong here, the command's status comes through.
      def report(output)
        load_summary # it may not have come to its end
        summary = Memprofiler::Run::Summary.new(output, @command)
        $stderr.write(summary.text(width: CLI.width($stderr), directory: CLI.current_folder)) unless @quiet
      rescue Error => e
        CLI.complain("memprofiler run: no report: #{e.message}")
      rescue Exception => e # rubocop:disable Lint/RescueException
        CLI.complain("memprofiler run: no report: #{e.class}: ".b << e.message.b)
      end

      def end_like(status)
        return status.exitstatus unless status.signaled?

        $stderr.flush
        Relay.die(status.termsig)
        128 + status.termsig
      end
    end
  end
end
