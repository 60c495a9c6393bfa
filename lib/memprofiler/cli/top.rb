# frozen_string_literal: true

require_relative "../profile"
require_relative "../report"
require_relative "../memprofiler"

module Memprofiler
  module CLI
    # `memprofiler top`: the rows of Profile#top, for files.
    class Top
      METRICS = %i[alloc_objects alloc_space inuse_objects inuse_space].freeze
      ROWS = 20
      MOST_ROWS = 1 << 32 # more than there are
      private_constant :METRICS, :ROWS, :MOST_ROWS

      # @return [String]
      def self.help
        <<~TEXT
          Prints the lines that allocated most, or that made most of what is still in use. Several files are summed.

          usage: memprofiler top [OPTION...] FILE...

            --metric METRIC  what is counted (default: inuse_space)
                               alloc_objects  objects allocated
                               alloc_space    bytes of these, with what they owned
                               inuse_objects  objects alive after the last collection
                               inuse_space    bytes of these
            --by WHAT        what a row is (default: line)
                               line, file, gem  Ruby code; C functions count for their caller
                               function         C functions too
                               class            the class of the object
            -n N             so many rows, at least 1 (default: #{ROWS})
            --json           all of it as one JSON object; shares and errors are fractions of 1

          In the table, flat is what a row's own code allocated, cum adds what it called.
          +/- is the error of flat that 95 % of samplings stay within.
        TEXT
      end

      # @param arguments [Array<String>]
      # @raise [UsageError]
      def initialize(arguments)
        parser = Options.new(flags: %w[--json --help -h], values: %w[--metric --by -n])
        options = parser.parse(arguments)
        @help = options["--help"] || options["-h"]
        @json = options["--json"]
        @metric = parser.choice("--metric", options.fetch("--metric", "inuse_space"), METRICS)
        @by = parser.choice("--by", options.fetch("--by", "line"), Profile::Attribution::GROUPS)
        @count = [parser.whole_number("-n", options.fetch("-n", ROWS.to_s), 1..), MOST_ROWS].min
        @files = arguments
        parser.error("which FILE?") if @files.empty? && !@help
      end

      # @return [Integer] the exit status
      # @raise [Error] a file can't be read, or lacks what was asked for
      def call
        return CLI.print_out(Top.help) if @help

        profile = sum
        unless profile.sample_types.key?(@metric)
          raise Error, "#{@files.join(", ")}: no metric #{@metric}, only #{profile.sample_types.keys.join(", ")}"
        end

        CLI.print_out(@json ? json(profile) : text(profile))
      end

      private

      # One after another, so that only their sum is in memory.
      def sum
        @files.uniq! { |file| identity(file) }
        processes = {} # by file
        profiles = @files.lazy.map do |file|
          Profile.load(file).tap { |profile| processes[file] = profile.metadata[:pid].to_s.split(", ") }
        end
        Profile.sum(profiles).tap { warn_of_parts(processes) }
      rescue ArgumentError => e
        raise Error, "these files can't be summed: #{e.message}"
      end

      # A file counts once, by whatever names it's called.
      def identity(file)
        File.stat(file).then { |stat| [stat.dev, stat.ino] }
      rescue SystemCallError, ArgumentError
        file # which reading it will explain
      end

      # A folder's files with their own sum among them (merged.pb.gz)
      def warn_of_parts(processes)
        processes.each do |sum, pids|
          next if pids.size < 2

          parts = processes.select { |file, others| file != sum && others.any? && (others - pids).empty? }.keys
          next if parts.empty?

          CLI.complain("memprofiler top: note: #{sum} is a sum, maybe with #{parts.first} in it" \
                       "#{", and #{parts.size - 1} more" if parts.size > 1}: these count twice")
        end
      end

      def json(profile)
        require_relative "../report/json"
        Report::JSON.generate(profile, @metric, by: @by, count: @count, files: @files)
      end

      def text(profile)
        report = Report.new(profile, width: CLI.width($stdout))
        "#{report.head}\n#{report.table(title, @metric, by: @by, count: @count)}"
      end

      def title
        @metric.start_with?("alloc") ? "Top allocators" : "Top in use"
      end
    end
  end
end
