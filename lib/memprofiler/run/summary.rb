# frozen_string_literal: true

require_relative "../report"

module Memprofiler
  module Run
    # What is printed when a run has ended: from the profiles of all its processes.
    class Summary
      ROWS = 10
      MERGED = "merged"
      NO_SAMPLES = "no object was sampled, so there is nothing to show"
      LEFT_NONE = "left no profile (exit!, exec, killed, or it could not write at its end)"
      REPLACED = ["left no profile: another program took its place, by exec",
                  "left no profile: another program took their place, by exec"].freeze
      RUNNING = ["still running: its profile comes later", "still running: their profiles come later"].freeze
      RUBY_ENDED = "no profile, as this Ruby ended before its program began (a file that isn't there, -c, -v), " \
                   "or ignores RUBYOPT"
      NO_RUBY = "no profile, as no Ruby was seen to begin a program (one that ignores RUBYOPT can't be seen; one " \
                "that is still starting will write its profile to %s)"
      private_constant :ROWS, :MERGED, :NO_SAMPLES, :LEFT_NONE, :REPLACED, :RUNNING, :RUBY_ENDED, :NO_RUBY

      # Writes the sum of all profiles too, if there are several.
      #
      # @param output [Output]
      # @param command [Command]
      # @raise [WriteError] the sum can't be written
      def initialize(output, command)
        @output = output
        @command = command
        @entries = output.entries
        @unreadable = []
        @profile = nil
        @file = nil
        load(@entries.select { |entry| entry.state == :profiled })
      end

      # @param width [Integer, nil] columns of the terminal
      # @param directory [String] that names are relative to
      # @return [String]
      def text(width:, directory:)
        @directory = directory
        return "memprofiler run: #{Printable.of(without_profile)}\n#{notes}" unless @profile

        report = Report.new(@profile, width: width, directory: directory)
        return without_samples(report) if @profile.model[:samples].empty?

        ["\n", report.head, notes, "\n",
         report.table(:alloc_space, by: :line, count: ROWS), "\n",
         report.table(:inuse_space, by: :line, count: ROWS), "\n", next_steps].join
      end

      private

      def load(entries)
        loaded = entries.lazy.filter_map { |entry| read(entry) }
        profiles = loaded.first(1)
        return if profiles.empty?

        # Those after the first are summed as they are read.
        @profile = entries.size == 1 ? profiles.first : Profile.sum(entries.lazy.filter_map { |entry| read(entry) })
        @file = entries.size == 1 ? entries.first.text : write_sum
      end

      def read(entry)
        path = entry.text
        raise ReadError, "#{path}: not a file" if File.exist?(path) && !File.lstat(path).file? # a pipe would hang

        Profile.load(path)
      rescue ReadError, DecodeError => e
        @unreadable |= [e.message]
        nil
      end

      def write_sum
        (1..).each do |number|
          path = File.join(@output.path, "#{MERGED}#{".#{number}" if number > 1}.pb.gz")
          @profile.write(path)
          return path
        rescue WriteError
          raise unless File.exist?(path)
        end
      end

      def without_profile
        return @command.ruby? ? RUBY_ENDED : format(NO_RUBY, relative(@output.path)) if @entries.empty?
        return "no profile can be read" unless @unreadable.empty?

        "no profile was written#{" yet" if @entries.any?(&:running?)}"
      end

      # The head would be about nothing, but for what explains it.
      def without_samples(report)
        smaller = " (--interval 1 records every object)" if @profile.period > 1
        "memprofiler run: #{NO_SAMPLES}#{smaller}\n#{report.head.lines.grep(/\Anote: /).join}#{notes}"
      end

      def notes
        texts = @entries.reject { |entry| entry.state == :profiled }.group_by { |entry| reason(entry) }
        lines = texts.map { |reason, entries| note(reason, entries) }
        lines.concat(@unreadable.map { |message| "note: can't be read: #{message}" })
        lines.map { |line| "#{Printable.of(line)}\n" }.join # reasons are the words of somebody else's program
      end

      def note(reason, entries)
        who = entries.first(5).map { |entry| "#{entry.program} #{entry.process || entry.pid}" }
        who << "..." if entries.size > who.size
        many = entries.size > 1
        noun = reason == REPLACED ? %w[program programs] : %w[process processes]
        noun, reason = [noun, Array(reason)].map { |singular, plural| many && plural ? plural : singular }
        "note: #{entries.size} #{noun} #{reason} (#{who.join(", ")})"
      end

      def reason(entry)
        case entry.state
        when :skipped then "could not be profiled: #{entry.text}"
        when :failed then "could not save a profile: #{without_path(entry.text)}"
        when :replaced then REPLACED
        when :started then entry.running? ? RUNNING : LEFT_NONE
        end
      end

      # "Errno::ENOSPC: No space left on device @ io_write - /path": one reason for all
      def without_path(error)
        error.sub(/ @ \w+ -.*/m, "")
      end

      def relative(path)
        path.b.delete_prefix("#{@directory.b}/").force_encoding(Encoding::UTF_8)
      end

      def next_steps
        file = for_shell(relative(@file))
        <<~TEXT
          Open it next:
            go tool pprof -http=: #{file}
            #{CLI::COMMAND} top #{file}
        TEXT
      end

      # A word for a shell; one that can't be told to be harmless in quotes, what a terminal would obey as numbers.
      def for_shell(word)
        return word if word.b.match?(%r{\A[\w./-]+\z}n)

        text = word.dup.force_encoding(Encoding::UTF_8)
        return "$'#{word.b.gsub(%r{[^\w. /-]}n) { |byte| format("\\x%02x", byte.ord) }}'" if
          !text.valid_encoding? || text.match?(Printable::UNSAFE)

        "'#{word.b.gsub("'", "'\\\\''")}'".force_encoding(word.encoding)
      end
    end
  end
end
