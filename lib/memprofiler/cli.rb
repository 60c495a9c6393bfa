# frozen_string_literal: true

require_relative "version"
require_relative "errors"

module Memprofiler
  # The command line: finds the subcommand, and turns what goes wrong into one
  # line and an exit status.
  module CLI
    autoload :Run, File.join(__dir__, "cli/run.rb")
    autoload :Top, File.join(__dir__, "cli/top.rb")
    autoload :Options, File.join(__dir__, "cli/options.rb")

    # Called in a way that isn't allowed; `subcommand` is whose help to point to.
    class UsageError < Error
      attr_reader :subcommand

      def initialize(message, subcommand = nil)
        super(message)
        @subcommand = subcommand
      end
    end

    HELP = <<~TEXT
      Shows where a Ruby program allocates memory, and what holds it.

      usage: memprofiler run [OPTION...] -- COMMAND [ARG...]
             memprofiler top [OPTION...] FILE...
             memprofiler help [SUBCOMMAND]
             memprofiler --version

      run   runs a command, and profiles every Ruby process in it
      top   prints who allocated or holds most, from the profiles that run wrote
    TEXT
    USAGE_STATUS = 2
    FAILURE_STATUS = 1
    private_constant :HELP, :USAGE_STATUS, :FAILURE_STATUS

    # @param arguments [Array<String>] of the command line
    # @return [Integer] the exit status
    def self.main(arguments)
      dispatch(arguments.dup)
    rescue UsageError => e
      name = ["memprofiler", e.subcommand].compact.join(" ")
      hint = ["memprofiler help", e.subcommand].compact.join(" ")
      complain("#{name}: #{e.message} (see: #{hint})")
      USAGE_STATUS
    rescue Error => e
      complain("memprofiler: #{e.message}")
      FAILURE_STATUS
    rescue LoadError => e # built for another Ruby, or not at all
      complain("memprofiler: its extension can't be loaded: #{e.message.lines.first.to_s.chomp}")
      FAILURE_STATUS
    end

    def self.dispatch(arguments)
      case (word = arguments.shift)
      when "run" then Run.new(arguments).call
      when "top" then Top.new(arguments).call
      when "help" then help(arguments)
      when "--help", "-h" then print_out(HELP)
      when "--version" then print_out("memprofiler #{VERSION}\n")
      when nil then raise UsageError, "which subcommand? run or top"
      else raise UsageError, "no subcommand or option #{word.inspect}"
      end
    end

    def self.help(arguments)
      raise UsageError, "help takes one subcommand" if arguments.size > 1

      case (name = arguments.first)
      when nil, "help" then print_out(HELP)
      when "run" then print_out(Run.help)
      when "top" then print_out(Top.help)
      else raise UsageError, "no subcommand #{name.inspect}"
      end
    end

    # @return [Integer] the exit status
    # @api private
    def self.print_out(text)
      $stdout.write(text)
      $stdout.flush
      0
    rescue Errno::EPIPE
      0 # whoever read it (head, a pager) has seen enough
    rescue SystemCallError => e # a full disk
      complain("memprofiler: cannot write the output: #{SystemCallError.new(e.errno).message}")
      FAILURE_STATUS
    end

    # @api private
    def self.complain(text)
      $stderr.write("#{text}\n")
    rescue SystemCallError, IOError
      nil # there's nobody to tell
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
