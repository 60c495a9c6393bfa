# frozen_string_literal: true

require_relative "background"
require_relative "new_file"
require_relative "service"

module Memprofiler
  # Writes the state of a collector to a file again and again, from a thread of its own:
  # `NAME.PID.TIME.pb.gz`, NAME being the program's and TIME as 20261130T095332Z, in UTC, with `_2` after
  # it in the second file of one second (names sort by time, then, up to `_9`). Each file has all since
  # the collector's start, so that the difference of any two tells what happened between them.
  #
  # A file appears whole or not at all, has mode 0600, and never takes the place of another one, nor is
  # it written through a symbolic link. A last one is written at the process' end (not at that by
  # `exit!`, `exec` or KILL). Forked children write their own files.
  #
  # When a file can't be written (a full disk, say) that is said once on stderr, and counted.
  #
  # @example
  #   Memprofiler::FileFlusher.new(dir: "tmp/profiles", every: 60, keep: 10).start
  class FileFlusher < Service
    KEEP = (1..100_000)
    PATIENCE = 30 # seconds for the last file
    private_constant :KEEP, :PATIENCE

    # @param dir [String, Pathname] made with mode 0700, if it isn't there; its parent has to be
    # @param every [Numeric] seconds from one file to the next, 0.01..86,400
    # @param keep [Integer] how many of this process' files stay, the newest, 1..100,000. Nothing else is
    #   ever removed, files of processes that have ended included.
    # @param collector [Collector, nil] nil: the process' own, see {Memprofiler.start}
    # @param labels [Array<Symbol>] see {Collector#flush}
    # @param gc [Boolean] whether to run a full collection before each file, which holds the program up
    # @raise [ArgumentError, TypeError] naming the option and what is allowed
    def initialize(dir:, every: 60, keep: 10, collector: nil, labels: %i[class pid], gc: false) # rubocop:disable Naming/MethodParameterName
      super(every: every, collector: collector, labels: labels, gc: gc)
      @dir = File.expand_path(Arguments.path("dir", dir)).freeze # a daemon changes its folder
      @keep = Arguments.integer("keep", keep, KEEP)
      begin_anew
      @background = Background.new(name: "memprofiler files", every: every, patience: PATIENCE,
                                   in_child: ->(_) { begin_anew }) { |occasion| work(occasion) }
    end

    # Writes a file now, whether it was started or not. In a signal handler it returns at once, and the
    # file comes soon.
    #
    # @return [String, nil] the file's path; nil in a signal handler, and if the collector has stopped and
    #   its last state is in a file
    # @raise [WriteError] naming the path and why
    # @raise [NotStartedError] the collector was never started
    def flush
      raise NotStartedError, "the collector was never started" unless collector

      @background.now
    end

    # @return [Hash{Symbol => Object}] `service` ("file_flusher"), `running`, `dir`, `every`, `keep`;
    #   of this process: `written` and `failed` (files), `files` (paths that are kept, the oldest first),
    #   `last_error` (String or nil; it stays, also after others went well) and `last_error_at` (Time or nil)
    def status
      { service: "file_flusher", running: running?, dir: @dir, every: @every, keep: @keep, written: @written,
        failed: @failed, files: @files.map(&:first), last_error: @last_error,
        last_error_at: @last_error_at }
    end

    private

    # What the parent wrote is the parent's.
    def begin_anew
      @pid = Process.pid
      @files = [].freeze # [path, what tells it from others], the oldest first
      @written = @failed = 0
      @last_error = @last_error_at = nil
    end

    def work(occasion)
      return if occasion == :forked

      begin_anew unless @pid == Process.pid # it was not started at the fork
      write
    rescue StandardError => e # the program may have done what it likes to Ruby's methods
      @failed += 1
      @last_error = e.is_a?(Error) ? e.message : Printable.error(e)
      @last_error_at = Time.now
      raise
    end

    def write
      profile = take { |collector| collector.flush(labels: @labels, gc: @gc) }
      return unless profile

      make_folder
      path = write_new(profile)
      @written += 1
      rotate(path)
      path
    rescue WriteError
      @last_state_taken = false
      raise
    end

    def make_folder
      NewFile.make_folder(@dir)
    rescue Errno::EEXIST
      nil
    rescue SystemCallError => e
      raise WriteError, "#{@dir}: #{SystemCallError.new(e.errno).message}"
    end

    def write_new(profile)
      bytes = profile.pprof_data
      begin
        path = "#{@dir}/#{next_name}"
        NewFile.write(path, bytes)
        path
      rescue Errno::EEXIST
        retry
      rescue SystemCallError => e
        raise WriteError, "#{path}: #{SystemCallError.new(e.errno).message}"
      end
    end

    # Those of one second differ by a number, which a name that rotation has set free doesn't get again.
    def next_name
      name = "#{NewFile.name_of($0)}.#{Process.pid}.#{Time.now.utc.strftime("%Y%m%dT%H%M%SZ")}"
      @number = name == @name ? @number + 1 : 1
      @name = name
      "#{name}#{"_#{@number}" if @number > 1}.pb.gz"
    end

    def rotate(path)
      files = [*@files, [path, identity(path)]]
      files.first([files.size - @keep, 0].max).each { |file| remove(*file) }
      @files = files.last(@keep).freeze
    rescue SystemCallError
      nil # somebody was faster
    end

    # What has taken the file's place isn't ours.
    def remove(path, identity)
      File.unlink(path) if identity(path) == identity
    rescue SystemCallError
      nil
    end

    # (A new file may have an old one's inode.)
    def identity(path)
      stat = File.lstat(path)
      [stat.dev, stat.ino, stat.mtime]
    end
  end
end
