# frozen_string_literal: true

require "rake"
require "rake/tasklib"
require "rbconfig"
require "shellwords"
require_relative "arguments"
require_relative "printable"

module Memprofiler
  # Defines two Rake tasks:
  #
  # - `rake memprofile` runs a script below `memprofiler run`: its profile is written and the report
  #   printed. `rake memprofile SCRIPT=path ARGS="a 'b c'"` takes another one, or other arguments (split as
  #   a shell does it, and never given to one).
  # - `rake memprofile:task[db:seed]` does so with a task of the same Rakefile, in a Rake of its own, which gets
  #   the folder, environment (`VAR=value`) and options of this one; `[db:seed,a,b]`, or `[db:seed[a,b]]`, are its
  #   arguments. A dry run (`-n`) runs neither.
  #
  # What fails fails the task, with the same exit status, and has its profile all the same.
  #
  # @example in a Rakefile
  #   require "memprofiler/rake_task"
  #   Memprofiler::RakeTask.new { |t| t.script = "bin/import" }
  class RakeTask < ::Rake::TaskLib
    autoload :Options, File.join(__dir__, "rake_task/options.rb")

    INTERVALS = (1..1_000_000_000) # the collector's
    EXECUTABLE = File.expand_path("../../exe/memprofiler", __dir__)
    # In a process of its own, which may be below a Bundler that knows nothing of this gem
    RAKE = File.expand_path("rake_task/rake.rb", __dir__)
    SIGNALLED = 128 # and the signal's number: the exit status that a shell has for it
    private_constant :INTERVALS, :EXECUTABLE, :RAKE, :SIGNALLED

    # @return [String, Symbol] the task's name; that for tasks is NAME:task
    attr_reader :name
    # @return [String, Pathname, nil] the Ruby file to run; nil: SCRIPT must name it
    attr_accessor :script
    # @return [Array<String>] the script's arguments
    attr_accessor :args
    # @return [Integer] one object in how many is sampled, 1..1,000,000,000; 1: every object
    attr_accessor :interval
    # @return [String, Pathname, nil] folder for the profiles, made if it isn't there; nil: a new one in
    #   the current folder, memprofiler-DATE-TIME
    attr_accessor :output
    # @return [Array<String>] options of the Ruby that runs the script, or the Rake that runs the task
    attr_accessor :ruby_opts
    # @return [Boolean] whether no report is printed
    attr_accessor :quiet

    # @param name [String, Symbol]
    # @yieldparam task [RakeTask] to set its options
    # @raise [ArgumentError, TypeError] an option is not allowed: which, and what is. Options are checked
    #   here, and again when the task runs.
    def initialize(name = :memprofile)
      super()
      @name = name
      @script = @output = nil
      @args = []
      @ruby_opts = []
      @interval = 512
      @quiet = false
      check_name
      yield self if block_given?
      check
      define
    end

    private

    def define
      desc "Profile the memory of #{@script || "SCRIPT"} (SCRIPT=path ARGS=... for another one)"
      task(@name) { profile_script }
      namespace(@name) do
        desc "Profile the memory of another task"
        task(:task, [:task]) do |task, arguments|
          task.reenable # another one may come, with other arguments
          profile_task(task, arguments.to_a)
        end
      end
    end

    # Another script's arguments would be none of this one's.
    def profile_script
      check
      given = ENV["SCRIPT"].to_s
      script = given.empty? ? @script : given
      raise ArgumentError, "script must be set: t.script = \"path\", or rake #{@name} SCRIPT=path" if script.nil?
      raise ArgumentError, "script must be a file, not #{Arguments.shown(script.to_s)}" unless File.file?(script)

      args = given.empty? ? @args : []
      args = Shellwords.split(ENV["ARGS"]) if ENV["ARGS"]
      run(script.to_s, [script_path(script.to_s), *args])
    end

    # A file's name is no option of Ruby's.
    def script_path(script)
      script.start_with?("-") ? "./#{script}" : script
    end

    def profile_task(task, arguments)
      check
      wanted = wanted(arguments)
      raise ArgumentError, "which task? As in: rake \"#{task.name}[db:seed]\"" if wanted.nil?

      options = Options.new(::Rake.application, ARGV).words
      run("rake #{wanted}", [RAKE, ::Rake::VERSION, ::Rake.original_dir, *options, wanted])
    end

    # Rake has split them at commas, and taken away what kept others from being split at.
    #
    # @return [String, nil] the task as a command line names it
    def wanted(arguments)
      name, *rest = arguments.map { |word| word.gsub(/[\\,]/) { |letter| "\\#{letter}" } }
      return if name.nil? || name.strip.empty?
      return [name, *rest].join(",") if name.include?("[") # task[db:seed[a,b]]

      rest.empty? ? name : "#{name}[#{rest.join(",")}]"
    end

    def run(what, words)
      status = run_below_profiler([RbConfig.ruby, *@ruby_opts, *words])
      return if status.success?

      failed = status.signaled? ? "ended by signal #{status.termsig}" : "exit status #{status.exitstatus}"
      Printable.warn("#{@name}: #{what} failed (#{failed})")
      exit(status.exitstatus || (SIGNALLED + status.termsig))
    end

    # (In two parts, no shell gets to read the words.)
    def run_below_profiler(words)
      options = ["--interval", @interval.to_s]
      options << "--output=#{@output}" if @output
      options << "--quiet" if @quiet
      pid = Process.spawn([RbConfig.ruby, RbConfig.ruby], EXECUTABLE, "run", *options, "--", *words)
      begin
        Process.wait2(pid).last
      rescue SignalException => e
        # The profile and the report come first. A terminal has sent Ctrl-C to both.
        Process.kill(e.signo, pid) unless e.is_a?(Interrupt)
        Process.wait(pid)
        raise
      end
    end

    def check_name
      Arguments.check("name", @name, "a String or Symbol that isn't empty", String, Symbol) do
        Arguments.match?(@name, /./m)
      end
    end

    def check
      Arguments.path("script", @script, optional: true)
      Arguments.path("output", @output, optional: true)
      Arguments.words("args", @args)
      Arguments.words("ruby_opts", @ruby_opts)
      Arguments.boolean("quiet", @quiet)
      Arguments.integer("interval", @interval, INTERVALS)
    end
  end
end
