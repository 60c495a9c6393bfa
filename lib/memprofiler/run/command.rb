# frozen_string_literal: true

require_relative "relay_thread"

module Memprofiler
  module Run
    # The command as a child process that can't tell it is one: same terminal,
    # same process group, same streams, and every signal reaches it once. When it
    # stops this process stops, and when one of the two goes on the other does, so
    # that a shell's job control sees the command.
    class Command
      FIRST_LINE = 256 # bytes: what a system reads of it
      private_constant :FIRST_LINE

      # The command could not be started; `status` is what a shell would exit with.
      class NotStarted < StandardError
        attr_reader :status

        def initialize(message, status)
          super(message)
          @status = status
        end
      end

      # @param words [Array<String>] the program and its arguments
      # @param environment [Hash{String => String}] variables on top of ours
      def initialize(words, environment)
        @program, *@arguments = words
        @environment = environment
      end

      # Runs the command to its end, then the block. From then on no signal of those
      # that were passed on ends this process: all that it has still to do is to end
      # as the command did.
      #
      # @param meanwhile [Proc] what can be done while the command runs, and need not
      #   come to its end; what it raises is nobody's
      # @return [Process::Status]
      # @raise [NotStarted]
      def run(meanwhile:, &at_end)
        @relay = relay
        @pid = spawn
        let_go_of_streams
        @relay.start(@pid)
        in_background(meanwhile)
        status = wait
        @relay.afterwards(&at_end)
        status
      ensure
        @relay&.stop
      end

      # @return [Boolean] whether the program is a Ruby, or a script for one, as far
      #   as its name and its first line tell
      def ruby?
        path = candidates.find { |candidate| File.file?(candidate) }
        return false unless path
        return true if [path, File.realpath(path)].any? { |name| ruby_name?(name) }

        line = File.open(path, "rb") { |file| file.gets("\n", FIRST_LINE) }.to_s
        line.start_with?("#!") && line[2..].split.any? { |word| ruby_name?(word) }
      rescue SystemCallError
        false # it has gone, or may be executed only
      end

      private

      def relay
        RelayThread.new
      rescue ThreadError
        raise NotStarted.new("#{@program}: #{Errno::EAGAIN.new.message}", 126)
      rescue SystemCallError => e
        raise NotStarted.new("#{@program}: #{SystemCallError.new(e.errno).message}", 126)
      end

      def spawn
        # In two parts, so that no shell gets to read the words; and whatever
        # files we were given are for the command.
        Process.spawn(@environment, [@program, @program], *@arguments, close_others: false)
      rescue Errno::ENOENT
        raise NotStarted.new("#{@program}: command not found", 127) unless found?

        raise NotStarted.new("#{@program}: cannot be executed", 126)
      rescue SystemCallError => e
        raise NotStarted.new("#{@program}: #{SystemCallError.new(e.errno).message}", 126)
      end

      # A file without the x bit, or a script whose interpreter isn't there, is
      # something else than no file; the system says ENOENT to all.
      def found?
        candidates.any? { |path| @program.include?("/") ? File.exist?(path) : File.file?(path) }
      end

      # Where the system looks for the program
      def candidates
        return [@program] if @program.include?("/")

        ENV["PATH"].to_s.split(File::PATH_SEPARATOR).map { |folder| File.join(folder, @program) }
      end

      def ruby_name?(path)
        File.basename(path.b).match?(/\A\w*ruby[\d.]*\z/)
      end

      def in_background(work)
        Thread.new do
          Thread.current.report_on_exception = false
          work.call
        end
      rescue ThreadError
        nil # there's no room for one more
      end

      # Whoever reads the command's output, or feeds it, must notice when the
      # command itself closes its end.
      def let_go_of_streams
        [$stdin, $stdout].each { |stream| stream.reopen(File::NULL) }
      end

      def wait
        loop do
          _, status = Process.wait2(@pid, Process::WUNTRACED)
          return status unless status.stopped?

          @relay.stop_with_command
        end
      end
    end
  end
end
