# frozen_string_literal: true

module Memprofiler
  module Run
    # What became of each program below one run. While they run they write it to a
    # file, a line at a time (see ext/memprofiler/run_list.h and preload.rb): a word, the number of
    # the process it began in, its name, and a text, between tabs.
    #
    #   started  a program begins; the text is the process that forked it, if one did
    #   skipped  a program begins, and can't be profiled: why
    #   refused  the same, after "started"
    #   fork     it's about to fork
    #   no fork  it could not
    #   daemon   it goes on in another process: its number; empty: it's about to
    #   profile  its profile is written: the file's name
    #   failed   its profile can't be written: why
    class List
      # A program. `state`: :profiled, :skipped (it couldn't be profiled), :failed (its
      # profile couldn't be written), :started (it has left none) or :replaced (none, and
      # another one has taken its place, by exec). `text` is the profile's path, or why
      # there's none. `pid` is the process that it began in, `process` the one that it
      # went on in; nil: that is not known yet.
      Entry = Struct.new(:state, :pid, :program, :text, :process, keyword_init: true) do
        # @return [Boolean] whether its profile can be waited for
        def running?
          state == :started && (process.nil? || Process.kill(0, process) == 1)
        rescue Errno::ESRCH
          false
        rescue SystemCallError
          true # another user's
        end
      end
      STATES = { "started" => :started, "daemon" => :started, "profile" => :profiled, "skipped" => :skipped,
                 "refused" => :skipped, "failed" => :failed }.freeze
      BEGINNINGS = %w[started skipped].freeze
      FORKS = { "fork" => 1, "no fork" => -1 }.freeze
      private_constant :STATES, :BEGINNINGS, :FORKS

      # @return [Array<Entry>] the last state of each program, in order of their starts
      attr_reader :entries

      # @param bytes [String] the file's
      # @param folder [String] where the profiles are
      def initialize(bytes, folder)
        @folder = folder
        @entries = []
        @present = {} # by process
        @forks = Hash.new(0) # that no child has been heard of, by process
        bytes.each_line(chomp: true) do |line|
          word, pid, program, text = line.force_encoding(Encoding::UTF_8).scrub.split("\t", 4)
          take(word, pid, program, text) if text
        end
      end

      # @return [Boolean] whether there may be a process that has had no time yet to say
      #   that it's there
      def pending?
        @forks.each_value.any?(&:positive?) || @entries.any? { |entry| entry.state == :started && entry.process.nil? }
      end

      private

      def take(word, pid, program, text)
        return @forks[pid] += FORKS[word] if FORKS[word]
        return unless STATES[word]

        @forks[text] -= 1 if word == "started" && !text.empty?
        enter(pid, program) if BEGINNINGS.include?(word) || !@present[pid]
        update(@present[pid], word, text)
        @present[text] = @present[pid] if word == "daemon" && !text.empty?
      end

      def enter(pid, program)
        before = @present[pid]
        before.state = :replaced if before&.state == :started
        @entries << (@present[pid] = Entry.new(pid: pid.to_i, program: program))
      end

      def update(entry, word, text)
        entry.state = STATES[word]
        entry.process = word == "daemon" ? Integer(text, exception: false) : entry.pid
        entry.text = word == "profile" ? File.join(@folder, File.basename(text)) : text # its name is plain ASCII
      end
    end
  end
end
