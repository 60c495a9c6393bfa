# frozen_string_literal: true

require "shellwords"
require_relative "../report"

module Memprofiler
  module Run
    # What is printed when a run has ended: from the profiles of all its processes.
    class Summary
      ROWS = 10
      MERGED = "merged"
      NONE_LEFT = "left no profile (exit!, exec, killed, or it could not write at its end)"
      RUNNING = ["still running: its profile comes later", "still running: their profiles come later"].freeze
      private_constant :ROWS, :MERGED, :NONE_LEFT, :RUNNING

      # Writes the sum of all profiles too, if there are several.
      #
      # @param output [Output]
      # @raise [WriteError] the sum can't be written
      def initialize(output)
        @output = output
        @entries = output.entries
        @unreadable = []
        @profile = nil
        @file = nil
        load(@entries.select { |entry| entry.state == :profiled })
      end

      # @param width [Integer, nil] columns of the terminal
      # @return [String]
      def text(width)
        return "memprofiler: #{without_profile}\n#{notes}" unless @profile

        report = Report.new(@profile, width: width)
        return "\n#{report.head}#{notes}" if @profile.model[:samples].empty?

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
        Profile.load(entry.text)
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
        return "no profile was written" unless @entries.empty?

        "no Ruby process was seen (one that ignores RUBYOPT can't be), so there's no profile"
      end

      def notes
        texts = @entries.reject { |entry| entry.state == :profiled }.group_by { |entry| reason(entry) }
        lines = texts.map { |reason, entries| note(reason, entries) }
        lines.concat(@unreadable.map { |message| "note: can't be read: #{message}" })
        text = Report::Text.new(nil, "") # reasons are the words of somebody else's program
        lines.map { |line| "#{text.printable(line)}\n" }.join
      end

      def note(reason, entries)
        who = entries.first(5).map { |entry| "#{entry.program} #{entry.pid}" }
        who << "..." if entries.size > who.size
        many = entries.size > 1
        reason = many ? RUNNING.last : RUNNING.first if reason == :running
        "note: #{entries.size} #{many ? "processes" : "process"} #{reason} (#{who.join(", ")})"
      end

      def reason(entry)
        case entry.state
        when :skipped then "could not be profiled: #{entry.text}"
        when :failed then "could not save a profile: #{entry.text}"
        when :started then running?(entry.pid) ? :running : NONE_LEFT
        end
      end

      def running?(pid)
        Process.kill(0, pid)
      rescue Errno::ESRCH
        false
      rescue SystemCallError
        true # another user's
      end

      def next_steps
        path = @file.b.delete_prefix("#{Dir.pwd.b}/").force_encoding(Encoding::UTF_8)
        file = path.valid_encoding? ? Shellwords.escape(path) : Shellwords.escape(path.b).force_encoding(path.encoding)
        <<~TEXT
          Open it next:
            go tool pprof -http=: #{file}
            memprofiler top #{file}
        TEXT
      end
    end
  end
end
