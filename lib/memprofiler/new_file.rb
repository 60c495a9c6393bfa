# frozen_string_literal: true

module Memprofiler
  # Files that appear whole or not at all, readable by their owner only, and that
  # never take the place of one that is there. Used inside profiled programs too:
  # it loads no library, leaves the program's random numbers alone, and keeps the
  # File that was there when it was loaded (test suites replace ::File by fakes).
  module NewFile
    FILE = ::File
    PROCESS = ::Process
    EXCLUSIVE = FILE::WRONLY | FILE::CREAT | FILE::EXCL | FILE::BINARY
    NO_LINKS = [Errno::EPERM, Errno::EACCES, Errno::ENOSYS, Errno::EOPNOTSUPP, Errno::EMLINK,
                NotImplementedError].freeze
    private_constant :FILE, :PROCESS, :EXCLUSIVE, :NO_LINKS

    # @param path [String] where the bytes go
    # @param bytes [String]
    # @raise [SystemCallError] Errno::EEXIST when something is there already
    def self.write(path, bytes)
      beside = FILE.join(FILE.dirname(path), ".memprofiler.#{PROCESS.pid}.#{nanoseconds.to_s(36)}")
      file = FILE.open(beside, EXCLUSIVE, 0o600)
      begin
        file.chmod(0o600) # whatever the umask is
        file.write(bytes)
        file.close # a full disk may say so only here
        publish(beside, path)
      ensure
        file.close
        remove(beside)
      end
    end

    # A link is the one way to name a file without replacing what is there.
    # Where there are no links (FAT, some network folders) the name is taken by
    # an empty file of ours first, and only that one is replaced.
    def self.publish(beside, path)
      FILE.link(beside, path)
    rescue *NO_LINKS
      FILE.open(path, EXCLUSIVE, 0o600).close
      FILE.rename(beside, path)
    end

    def self.remove(path)
      FILE.unlink(path)
    rescue SystemCallError
      nil # it was renamed
    end

    def self.nanoseconds
      PROCESS.clock_gettime(PROCESS::CLOCK_MONOTONIC, :nanosecond)
    end

    private_class_method :publish, :remove, :nanoseconds
  end
end
