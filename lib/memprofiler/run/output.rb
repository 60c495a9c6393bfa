# frozen_string_literal: true

require_relative "../errors"
require_relative "../new_file"
require_relative "list"

module Memprofiler
  module Run
    # The folder of one run: the profiles that its processes write, and while
    # they run the list of what became of each. One that is made is its owner's alone.
    class Output
      PATIENCE = 1 # second for a process to say that it's there: it may be its first
      PAUSE = 0.005 # seconds
      private_constant :PATIENCE, :PAUSE

      # @return [String] absolute path of the folder
      attr_reader :path
      # @return [String] absolute path of the list
      attr_reader :manifest

      # @param directory [String, nil] made with mode 0700 if it's not there; nil: a new one in
      #   the current folder, named by the time
      # @raise [WriteError] naming the folder and why it can't be written
      def initialize(directory)
        @made = false
        # All paths are labelled so, as in the command line, whatever the locale is.
        @path = File.expand_path(directory || ".").force_encoding(Encoding::UTF_8)
        directory ? make : make_fresh
        # Of this run only: several may write to one folder at a time.
        time = Process.clock_gettime(Process::CLOCK_REALTIME, :nanosecond)
        @manifest = File.join(@path, ".run.#{Process.pid}.#{time}")
        begin_list
      rescue SystemCallError => e
        withdraw
        reason = @path ? SystemCallError.new(e.errno).message : "the current folder is gone"
        raise WriteError, "cannot write to #{@path || directory || "a new folder"}: #{reason}"
      end

      # @return [Array<List::Entry>] the last state of each program, in order of their starts
      # @raise [Error] the list is gone
      def entries
        deadline = now + PATIENCE
        sleep(PAUSE) while (list = read_list).pending? && now < deadline
        list.entries
      end

      # Ends the list. A folder made for the run goes if nothing is in it and
      # nothing will be: a process that still runs writes its profile all the same.
      def close
        awaited = read_list.entries.any? { |entry| entry.state == :started }
        File.unlink(@manifest)
        Dir.rmdir(@path) if @made && !awaited
      rescue SystemCallError, Error
        nil # not empty: as it should be; or gone
      end

      # As if it had never been: the command was not run.
      def withdraw
        File.unlink(@manifest) if @manifest && File.exist?(@manifest)
        Dir.rmdir(@path) if @made
      rescue SystemCallError
        nil # what is wrong is told elsewhere
      end

      private

      # Its first line is there to see whether there's any room, before the command runs.
      def begin_list
        before = Signal.trap("XFSZ", "IGNORE") # an error is better than the end
        # It stays open: whoever else may write to the folder can put something else in its place.
        @list = File.open(@manifest, File::RDWR | File::CREAT | File::EXCL | File::BINARY, 0o600)
        @list.chmod(0o600) # whatever the umask is
        @list.syswrite("memprofiler #{VERSION}\n")
      ensure
        Signal.trap("XFSZ", before)
      end

      def read_list
        raise Errno::ENOENT unless File.identical?(@manifest, @list)

        List.new(@list.pread(@list.size, 0), @path)
      rescue Errno::ENOENT, Errno::ENOTDIR
        raise Error, "#{@path} was removed or renamed while the command ran" unless File.directory?(@path)

        raise Error, "the list of its processes was removed from #{@path} while the command ran (what profiles " \
                     "there are: memprofiler top #{@path})"
      end

      def now
        Process.clock_gettime(Process::CLOCK_MONOTONIC)
      end

      # What has the name already is another's, whatever it is.
      def make_fresh
        start = File.join(@path, Time.now.strftime("memprofiler-%Y%m%d-%H%M%S"))
        (1..).each do |number|
          @path = number == 1 ? start : "#{start}.#{number}"
          NewFile.make_folder(@path)
          return @made = true
        rescue Errno::EEXIST
          next
        end
      end

      def make
        return if File.directory?(@path)

        missing = [@path]
        missing.unshift(File.dirname(missing.first)) until File.directory?(File.dirname(missing.first))
        missing.each { |folder| make_one(folder) }
        @made = true
      end

      def make_one(folder)
        NewFile.make_folder(folder)
      rescue Errno::EEXIST # another run may have been quicker
        raise Errno::ENOTDIR unless File.directory?(folder)
      end
    end
  end
end
