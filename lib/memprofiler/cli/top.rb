# frozen_string_literal: true

require_relative "../profile"
require_relative "../report"
require_relative "../memprofiler"

module Memprofiler
  module CLI
    # `memprofiler top`: the rows of Profile#top, for files and folders.
    class Top
      METRICS = %i[alloc_objects alloc_space inuse_objects inuse_space].freeze
      SORTS = { flat: :flat, cum: :cumulative }.freeze
      ROWS = 20
      MOST_ROWS = 1 << 32 # more than there are
      private_constant :METRICS, :SORTS, :ROWS, :MOST_ROWS

      # @return [String]
      def self.help
        <<~TEXT
          Prints the lines that allocated most, or that made most of what is still in use.
          Several files are summed. A folder stands for the profiles in it. What is given
          twice counts once: a file, or a sum (merged.pb.gz) and its parts; a note says so.

          usage: memprofiler top [OPTION...] FILE|FOLDER...

            --metric METRIC  what is counted (default: inuse_space)
                               alloc_objects  objects allocated
                               alloc_space    bytes of these, with what they owned at most
                               inuse_objects  objects alive after the last collection (run
                                              collects at the end)
                               inuse_space    bytes of these, with what they own then
            --by WHAT        what a row is (default: line)
                               line, file, gem  Ruby code; C functions count for their caller
                               function         C functions too
                               class            the class of the object
                               label:NAME       a label's value, as Memprofiler.with_labels sets
                                                it (label:endpoint), or label:thread, label:pid
            --sort WHAT      by which of a row's values (default: flat)
                               flat  what its own code allocated
                               cum   what it called included
            -n N             so many rows, at least 1 (default: #{ROWS}; with --json: all)
            --json           one JSON object for scripts; shares and errors are fractions of 1

          In the table, flat is what a row's own code allocated, cum adds what it called.
          +/- is the error that 95 % of samplings stay within, of flat; of cum where flat is 0,
          or where it's sorted by that. So are samples.

          exit status: 0; 1: a file is no profile, or lacks what was asked for; 2: wrong usage
        TEXT
      end

      # @param arguments [Array<String>]
      # @raise [UsageError]
      def initialize(arguments)
        parser = Options.new(flags: %w[--json --help -h], values: %w[--metric --by --sort -n])
        options = parser.parse(arguments)
        @help = options["--help"] || options["-h"]
        @json = options["--json"]
        @metric = parser.choice("--metric", options.fetch("--metric", "inuse_space"), METRICS)
        @by = group(parser, options.fetch("--by", "line"))
        @sort = SORTS[parser.choice("--sort", options.fetch("--sort", "flat"), SORTS.keys)]
        @count = count(parser, options["-n"])
        @given = arguments
        parser.error("which FILE?") if (@given.empty? || @given.include?("")) && !@help
      end

      # @return [Integer] the exit status
      # @raise [Error] a file can't be read, or lacks what was asked for
      def call
        return CLI.print_out(Top.help) if @help

        files = Files.new(@given)
        profile = files.profile
        files.notes.each { |note| CLI.complain("memprofiler top: note: #{note}") }
        unless profile.sample_types.key?(@metric)
          raise Error, "#{files.paths.join(", ")}: no metric #{@metric}, only #{profile.sample_types.keys.join(", ")}"
        end

        CLI.print_out(@json ? json(profile, files.paths) : text(profile))
      rescue MissingLabelError => e
        raise MissingLabelError, "#{without_label(files).join(", ")}: #{e.message}"
      end

      private

      def without_label(files)
        name = Profile::Attribution.label(@by).to_sym
        files.paths.reject { |path| Profile.load(path).labels.include?(name) }
      end

      # @return [Symbol]
      def group(parser, text)
        return text.to_sym if text.valid_encoding? && text.match?(Profile::Attribution::LABEL)

        allowed = Profile::Attribution::GROUPS
        allowed.find { |symbol| symbol.name == text } ||
          parser.error("--by must be one of #{allowed.join(", ")}, or label:NAME, not #{text.inspect}")
      end

      # @return [Integer, nil] nil: all
      def count(parser, text)
        return @json ? nil : ROWS unless text

        [parser.whole_number("-n", text, 1..), MOST_ROWS].min
      end

      def json(profile, paths)
        require_relative "../report/json"
        Report::JSON.generate(profile, @metric, by: @by, count: @count, sort: @sort, files: paths)
      end

      def text(profile)
        report = Report.new(profile, width: CLI.width($stdout), directory: CLI.current_folder)
        "#{report.head}\n#{report.table(@metric, by: @by, count: @count, sort: @sort)}"
      end
    end
  end
end
