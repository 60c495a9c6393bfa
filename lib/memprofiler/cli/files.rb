# frozen_string_literal: true

module Memprofiler
  module CLI
    # The profiles that `top` or `merge` was given, as files and folders: nothing in them is to
    # count twice. What is left out, and why, is said in a note.
    class Files
      PATTERN = ".pb.gz"
      NAMES = 3 # in a note
      # What a file says of itself: the processes in it, whether it's a sum or a difference, how many
      # samples it has, and of which runs and times they are.
      Card = Struct.new(:path, :processes, :merged, :difference, :samples, :spans) do
        # Numbers of processes are used again, and differences of one process may have nothing in common.
        def part_of?(sum)
          processes.any? && (processes - sum.processes).empty? &&
            (spans.empty? || sum.spans.empty? || spans.overlap?(sum.spans))
        end
      end
      private_constant :PATTERN, :NAMES, :Card

      # @return [Array<String>] the files that count
      attr_reader :paths
      # @return [Array<String>] a line for each that was given and doesn't, or that may
      #   count twice, and for each folder with several
      attr_reader :notes

      # @param given [Array<String>] files and folders
      # @raise [Error] there's no profile in a folder, or it can't be read
      # @raise [DecodeError] a file can't be read
      def initialize(given)
        @notes = []
        @read = {} # what can be read once only: pipes
        @paths = leave_out_same(given.flat_map { |path| File.directory?(path) ? in_folder(path) : [path] })
        leave_out_sums(@paths, sure: true)
      end

      # @return [Profile] the sum of all
      # @raise [DecodeError]
      # @raise [Error] they can't be summed: which one, and why
      def profile
        return load(@paths.first) if @paths.size == 1

        # One after another, so that only their sum is in memory
        path = nil
        Profile.sum(@paths.lazy.map { |each| load(path = each) })
      rescue ArgumentError => e
        before = list(@paths.take_while { |each| each != path })
        raise Error, "these files can't be summed: #{path}, after #{before}: #{e.message}"
      end

      private

      def in_folder(folder)
        names = Dir.children(folder).map { |name| name.dup.force_encoding(Encoding::UTF_8) }
        paths = names.select { |name| name.end_with?(PATTERN) && !name.start_with?(".") }.sort
                     .map { |name| File.join(folder, name) }.select { |path| File.file?(path) }
        raise Error, "#{folder}: a folder without profiles (files named *#{PATTERN})" if paths.empty?

        all = paths.size
        leave_out_sums(paths, sure: false)
        return paths if all == 1

        @notes << "#{folder}: #{paths.size == 1 ? "1 profile" : "#{paths.size} profiles"} counted, #{list(paths)}"
        paths
      rescue SystemCallError => e
        raise Error, "#{folder}: #{SystemCallError.new(e.errno).message}"
      end

      # A file counts once, by whatever names it's called.
      def leave_out_same(paths)
        first = {}
        paths.select do |path|
          file = identity(path)
          before = first[file]
          first[file] ||= path
          next true unless before

          @notes << "#{path} counts once, though it was given twice#{" (as #{before}, too)" if before != path}"
          false
        end
      end

      def identity(path)
        File.stat(path).then { |stat| [stat.dev, stat.ino] }
      rescue SystemCallError, ArgumentError
        path # which reading it will explain
      end

      # Of a sum (merged.pb.gz) and its parts one is left out.
      #
      # @param sure [Boolean] whether only what is known to be there twice is: numbers of
      #   processes are used again, and who named the files may know better
      def leave_out_sums(paths, sure:)
        return if paths.size < 2

        sums, parts = paths.map { |path| card(path) }.partition(&:merged)
        sums.group_by { |sum| sum.processes.sort }.each do |processes, alike|
          mine = parts.select { |part| alike.any? { |sum| part.part_of?(sum) } }
          settle(paths, alike, mine, all_there?(mine, processes, alike, sure), sure) unless mine.empty?
        end
      end

      def settle(paths, sums, parts, all_there, sure)
        if all_there then leave_out(paths, sums, "the sum of #{list(parts)}")
        elsif sure then @notes << "#{list(sums)} is a sum, maybe with #{list(parts)} in it: these count twice"
        else leave_out(paths, parts, "part of #{list(sums)}")
        end
      end

      # To be sure of that, as many samples must be in the parts as in their sums; so, too, where several may
      # be of one process.
      def all_there?(parts, processes, sums, sure)
        return false unless (processes - parts.flat_map(&:processes)).empty?

        !(sure || sums.any?(&:difference)) || parts.sum(&:samples) == sums.sum(&:samples)
      end

      def leave_out(paths, cards, reason)
        cards.each { |card| paths.delete(card.path) }
        @notes << "#{list(cards)} left out: #{reason}"
      end

      def card(path)
        profile = load(path)
        metadata = profile.metadata
        Card.new(path, Profile::Metadata.list(metadata[:pid]), metadata.key?(:processes), metadata.key?(:difference),
                 metadata[:samples].to_i, Profile::Spans.of(profile.model, metadata))
      end

      def load(path)
        return @read[path] if @read[path]

        Profile.load(path).tap { |profile| @read[path] = profile unless File.file?(path) }
      end

      def list(cards)
        names = cards.first(NAMES).map { |card| card.is_a?(Card) ? card.path : card }
        more = cards.size - names.size
        "#{names.join(", ")}#{" and #{more} more" if more.positive?}"
      end
    end
  end
end
