# frozen_string_literal: true

require_relative "../new_file"

module Memprofiler
  module Auto
    # Profiles of the process' own collector as files NAME.PID.TIME.pb.gz (UTC), none of which ever
    # replaces another.
    class Files
      LABELS = %i[class pid].freeze
      TIME = "%Y%m%dT%H%M%SZ"
      private_constant :LABELS, :TIME

      # @return [String]
      attr_reader :dir

      # @param dir [String] absolute path; made with the first file
      def initialize(dir)
        @dir = dir
        @name = NewFile.name_of($0) # now: servers have other titles later
      end

      # @return [String, nil] the file's path; nil: there's no collector
      # @raise [Error, SystemCallError]
      def write
        collector = Memprofiler.collector
        return unless collector

        bytes = collector.flush(labels: LABELS, gc: true).pprof_data
        start = "#{@dir}/#{@name}.#{Process.pid}.#{Time.now.utc.strftime(TIME)}"
        (1..).each do |number|
          path = "#{start}#{".#{number}" if number > 1}.pb.gz"
          write_new(path, bytes)
          return path
        rescue Errno::EEXIST
          next
        end
      end

      # Makes the folder, and those above it. (By no library, which would be the program's then.)
      #
      # @raise [SystemCallError]
      def make(folder = @dir)
        return if File.directory?(folder)

        make(File.dirname(folder))
        NewFile.make_folder(folder)
      rescue Errno::EEXIST
        raise unless File.directory?(folder) # or another process was quicker
      end

      private

      def write_new(path, bytes)
        NewFile.write(path, bytes)
      rescue Errno::ENOENT
        make
        NewFile.write(path, bytes)
      end
    end
  end
end
