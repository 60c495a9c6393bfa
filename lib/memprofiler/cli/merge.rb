# frozen_string_literal: true

require_relative "../profile"
require_relative "../report"
require_relative "../memprofiler"

module Memprofiler
  module CLI
    # `memprofiler merge`: the sum of profiles, of a server's workers say, as one file.
    class Merge
      # @return [String]
      def self.help
        <<~TEXT
          Writes the sum of profiles, of a server's workers say, to a new file, which top and
          go tool pprof open. A folder stands for the profiles in it. What is given twice counts
          once: a file, or a sum (merged.pb.gz) and its parts; a note says so.

          usage: memprofiler merge OUT FILE|FOLDER...

            OUT   the new file, which must not be there yet: no file is ever replaced. It appears
                  whole or not at all, and is readable by its owner only.

          What was summed is told on stderr. Profiles that have something twice are refused: two
          of one run of a collector, an earlier and a later one. Of processes that were forked with
          a running collector each has what was before the fork: a note says so.

          exit status: 0; 1: a file is no profile, they can't be summed, or OUT can't be written;
          2: wrong usage
        TEXT
      end

      # @param arguments [Array<String>]
      # @raise [UsageError]
      def initialize(arguments)
        parser = Options.new(flags: %w[--help -h], values: [])
        options = parser.parse(arguments)
        @help = options["--help"] || options["-h"]
        @out, *@given = arguments
        return if @help

        parser.error("which OUT?") if @out.nil? || @out.empty?
        parser.error("which FILE, after OUT?") if @given.empty? || @given.include?("")
      end

      # @return [Integer] the exit status
      # @raise [WriteError] OUT is there, or can't be written
      # @raise [Error] a file can't be read, or they can't be summed
      def call
        return CLI.print_out(Merge.help) if @help

        # Who forgot OUT has given it the first profile's name: say so before reading gigabytes.
        if File.exist?(@out) || File.symlink?(@out)
          raise WriteError, "#{@out}: there is something already, and it's never replaced"
        end

        files = Files.new(@given)
        profile = files.profile
        files.notes.each { |note| CLI.complain("memprofiler merge: note: #{note}") }
        profile.write(@out)
        CLI.complain("memprofiler merge: #{@out}: #{sum_of(files, profile)}")
        Report::Head.new(profile).twice.each { |note| CLI.complain("memprofiler merge: #{note}") }
        0
      end

      private

      def sum_of(files, profile)
        processes = profile.metadata[:processes] || 1
        "the sum of #{count(files.paths.size, "profile")}, of #{count(processes, "process", "processes")}"
      end

      def count(number, singular, plural = "#{singular}s")
        "#{number} #{number == 1 ? singular : plural}"
      end
    end
  end
end
