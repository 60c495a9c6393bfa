# frozen_string_literal: true

require_relative "version"
require_relative "errors"
require_relative "report/text" # at once: what complains may have no descriptor left

module Memprofiler
  # The command line: finds the subcommand, and turns what goes wrong into one
  # line and an exit status.
  #
  # @api private
  module CLI
    autoload :Run, File.join(__dir__, "cli/run.rb")
    autoload :Top, File.join(__dir__, "cli/top.rb")
    autoload :Merge, File.join(__dir__, "cli/merge.rb")
    autoload :Options, File.join(__dir__, "cli/options.rb")
    autoload :Files, File.join(__dir__, "cli/files.rb")

    # How it's called; a checkout's own command says so before this is loaded.
    COMMAND = "memprofiler" unless const_defined?(:COMMAND)

    # Called in a way that isn't allowed.
    class UsageError < Error; end

    HELP = <<~TEXT
      Shows which lines of a Ruby program allocate memory, and which made what is still in use.

      usage: memprofiler run [OPTION...] -- COMMAND [ARG...]
             memprofiler top [OPTION...] FILE|FOLDER...
             memprofiler merge OUT FILE|FOLDER...
             memprofiler help [SUBCOMMAND]
             memprofiler --version

      run    runs a command, and profiles every Ruby process in it
      top    prints the lines that allocated most, or that made most of what is still in use,
             from the profiles that run wrote
      merge  writes the sum of several profiles to a new file

      -h and -v are short for --help and --version.
    TEXT
    SUBCOMMANDS = %w[run top merge].freeze
    USAGE_STATUS = 2
    FAILURE_STATUS = 1
    private_constant :HELP, :SUBCOMMANDS, :USAGE_STATUS, :FAILURE_STATUS

    # @param arguments [Array<String>] of the command line
    # @return [Integer] the exit status
    def self.main(arguments)
      subcommand = arguments.first if SUBCOMMANDS.include?(arguments.first)
      name = ["memprofiler", subcommand].compact.join(" ") # what every complaint begins with
      begin
        dispatch(arguments.dup)
      rescue UsageError => e
        complain("#{name}: #{e.message} (see: #{["memprofiler help", subcommand].compact.join(" ")})")
        USAGE_STATUS
      rescue Error => e
        complain("#{name}: #{e.message}")
        FAILURE_STATUS
      rescue LoadError => e # built for another Ruby, or not at all
        complain("#{name}: memprofiler's extension can't be loaded: #{e.message.lines.first.to_s.chomp}")
        FAILURE_STATUS
      end
    end

    def self.dispatch(arguments)
      case (word = arguments.shift)
      when "run" then Run.new(arguments).call
      when "top" then Top.new(arguments).call
      when "merge" then Merge.new(arguments).call
      when "help" then help(arguments)
      when "--help", "-h" then print_out(HELP)
      when "--version", "-v" then print_out("memprofiler #{VERSION}\n")
      when nil then raise UsageError, "which subcommand? run, top or merge"
      else raise UsageError, "no subcommand or option #{word.inspect}"
      end
    end

    def self.help(arguments)
      raise UsageError, "help takes one subcommand" if arguments.size > 1

      case (name = arguments.first)
      when nil, "help", "--help", "-h" then print_out(HELP)
      when "run" then print_out(Run.help)
      when "top" then print_out(Top.help)
      when "merge" then print_out(Merge.help)
      else raise UsageError, "no subcommand #{name.inspect}"
      end
    end

    # @return [Integer] the exit status
    # @raise [WriteError]
    # @api private
    def self.print_out(text)
      $stdout.write(text)
      $stdout.flush
      0
    rescue Errno::EPIPE
      0 # whoever read it (head, a pager) has seen enough
    rescue SystemCallError => e # a full disk
      raise WriteError, "cannot write the output: #{SystemCallError.new(e.errno).message}"
    end

    # @param text [String] one line; a file's name in it may be anybody's
    # @api private
    def self.complain(text)
      Printable.say(text)
    rescue SystemCallError, IOError
      nil # there's nobody to tell
    end

    # @return [String] that names in reports may be relative to; "." where it's gone
    # @api private
    def self.current_folder
      Dir.pwd
    rescue SystemCallError
      "."
    end

    # @return [Integer, nil] columns of the terminal that the stream is; nil: it is
    #   none, and nothing should be cut
    # @api private
    def self.width(stream)
      return unless stream.tty?

      require "io/console"
      columns = stream.winsize.last
      columns if columns.positive?
    rescue LoadError, SystemCallError
      nil
    end

    private_class_method :dispatch, :help
  end
end
