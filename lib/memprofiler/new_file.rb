# frozen_string_literal: true

module Memprofiler
  # Files that appear whole or not at all, readable by their owner only, and that
  # never take the place of one that is there. Used inside profiled programs too:
  # it loads no library, keeps the File that was there when it was loaded (test
  # suites replace ::File by fakes), and gives each method just what it takes:
  # Ruby asks anything else for to_str, to_int or to_hash, which a program's own
  # method_missing may answer.
  #
  # @api private
  module NewFile
    FILE = ::File
    DIR = ::Dir
    PROCESS = ::Process
    EXCLUSIVE = FILE::WRONLY | FILE::CREAT | FILE::EXCL | FILE::BINARY
    FOLDER = FILE::RDONLY | FILE::NOFOLLOW | FILE::NONBLOCK
    NO_LINKS = [Errno::EPERM, Errno::EACCES, Errno::ENOSYS, Errno::EOPNOTSUPP, Errno::EMLINK,
                NotImplementedError].freeze
    # What ends a program that writes to a file which has all it may have, or to what nobody reads any more.
    UNWRITABLE = ::Signal.list.values_at("XFSZ", "PIPE").compact.freeze
    private_constant :FILE, :DIR, :PROCESS, :EXCLUSIVE, :FOLDER, :NO_LINKS, :UNWRITABLE

    # @param path [String] where the bytes go
    # @param bytes [String]
    # @raise [SystemCallError] Errno::EEXIST when something is there already
    def self.write(path, bytes)
      file, beside = open_beside(path)
      begin
        file.binmode # Encoding.default_internal would have them transcoded
        file.sync = true # nothing is left to be written when it's closed after an error
        file.chmod(0o600) # whatever the umask is
        without_signals { file.write(bytes) }
        file.close # a full disk may say so only here
        publish(beside, path)
      ensure
        remove(beside)
        file&.close # a program's own `open` may give nothing
      end
    end

    # What a block can't write is an Errno::EFBIG or EPIPE, and not the program's end by a signal, whatever the
    # program has made of that. (Its handler is the process', so another Ractor leaves it alone.)
    def self.without_signals(&)
      Memprofiler.main_ractor? ? Memprofiler.hold_back(*UNWRITABLE, &) : yield
    end

    # Makes a folder that is its owner's alone, whatever the umask is. (That is the process': by one of ours another
    # thread's files would come out.) Somebody else's may have taken its place by the time it gets its mode, so no link
    # is followed.
    #
    # @param path [String] its parent is there
    # @raise [SystemCallError] Errno::EEXIST when something is there already
    def self.make_folder(path)
      DIR.mkdir(path, 0o700)
      give_rights(path) unless FILE.lstat(path).mode & 0o700 == 0o700 # a umask only takes away
    end

    # @return [Boolean] whether a folder has that name
    def self.folder?(path)
      FILE.directory?(path)
    end

    # What a program's files begin with. "-e" and "-" are no names, and a file's must not look like an
    # option.
    #
    # @param program [String] $0
    # @return [String]
    def self.name_of(program)
      name = FILE.basename(program.b).tr_s("^a-zA-Z0-9_.-", "_")
      name = name.delete_prefix(".") while name.start_with?(".")
      name.empty? || name.start_with?("-") ? "ruby" : name[0, 60]
    end

    # The name has no clock and no random number in it: programs stop the one in
    # their tests, and count on the sequence of the other.
    def self.open_beside(path)
      number = 0
      begin
        beside = "#{FILE.dirname(path)}/.memprofiler.#{PROCESS.pid}.#{number}"
        [FILE.open(beside, EXCLUSIVE, 0o600), beside]
      rescue Errno::EEXIST
        number += 1
        retry
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

    # (Without rights to read it only root can open it.)
    def self.give_rights(path)
      FILE.lchmod(0o700, path)
    rescue NotImplementedError, Errno::EOPNOTSUPP, Errno::ENOSYS
      FILE.open(path, FOLDER) { |folder| folder.chmod(0o700) }
    end

    private_class_method :open_beside, :publish, :remove, :give_rights
  end
end
