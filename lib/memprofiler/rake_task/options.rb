# frozen_string_literal: true

require "optparse"

module Memprofiler
  class RakeTask
    # The options that this Rake was started with, as words for another one that starts in the same folder.
    #
    # What Rake keeps comes from what it has kept: that is right whoever has started it, as Rails does, and where
    # a Rakefile has emptied ARGV. What it has only done (-I, -r, -E) comes from the command line, if that is
    # one of Rake's. -C is in the folder. With the others (-n, -T, -P, -V, ...) no task runs, and this is not asked.
    #
    # @api private
    class Options
      # Of a command line, what is to be done again
      DONE = %w[--libdir --require --execute-continue].freeze
      # Those that are on or off
      SWITCHES = {
        load_system: "--system", ignore_system: "--no-system", nosearch: "--no-search", build_all: "--build-all",
        always_multitask: "--multitask", trace_rules: "--rules", ignore_deprecate: "--no-deprecation-warnings"
      }.freeze
      RAKELIB = %w[rakelib].freeze # where Rake looks anyway
      private_constant :DONE, :SWITCHES, :RAKELIB

      # @param application [Rake::Application]
      # @param arguments [Array<String>] of the command line
      def initialize(application, arguments)
        @application = application
        @options = application.options
        @arguments = arguments
      end

      # Values follow a "=": what is optional would else be taken from the next word.
      #
      # @return [Array<String>]
      def words
        switches = SWITCHES.select { |name, _| @options.public_send(name) }.values
        [*done, *rakefile, *switches, *rakelib, *trace, *loudness, *jobs, *backtrace_pattern]
      end

      private

      # Nothing else than Rake knows all of its options, and which of them have a value.
      def done
        done = []
        parser = OptionParser.new do |options|
          @application.standard_rake_options.each do |words|
            name = words.first[/\A--[a-z-]+/]
            options.on(*words.grep(String)) { |value| done << "#{name}=#{value}" if DONE.include?(name) }
          end
          options.environment("RAKEOPT") # (rake.rb doesn't let it be read again)
        end
        parser.parse(@arguments)
        done
      rescue OptionParser::ParseError
        [] # another program's
      end

      def rakefile
        file = @application.rakefile
        "--rakefile=#{file}" if file
      end

      def rakelib
        "--rakelibdir=#{@options.rakelib.join(File::PATH_SEPARATOR)}" unless @options.rakelib == RAKELIB
      end

      def trace
        kind = @options.trace ? "--trace" : ("--backtrace" if @options.backtrace)
        kind && @options.trace_output.equal?($stdout) ? "#{kind}=stdout" : kind
      end

      def loudness
        return "--silent" if @options.silent

        { true => "--verbose", false => "--quiet" }[::Rake::FileUtilsExt.verbose_flag] # nothing else: not given
      end

      def jobs
        size = @options.thread_pool_size
        statistics = @options.job_stats
        [("--jobs=#{size + 1 if size.finite?}" unless size == ::Rake.suggested_thread_count),
         ("--job-stats=#{statistics}" if statistics)].compact
      end

      def backtrace_pattern
        pattern = @options.suppress_backtrace_pattern
        "--suppress-backtrace=#{pattern.source}" if pattern
      end
    end
  end
end
