# frozen_string_literal: true

require "rbconfig"
require_relative "debian_source"
require_relative "extensions"

module Suites
  # The tests of a Debian source package: where they are and how one file of them is run.
  class Suite
    attr_reader :name, :folder, :framework

    # @param source [DebianSource]
    # @param framework [Symbol] whose results are read: see recorder.rb
    # @param files [Array<String>] what is run where nothing else is asked for, as for {#files}
    # @param options [Array<String>] of `ruby`
    # @param arguments [#call] what follows them, given a test file
    # @param extensions [String, nil] glob of extconf.rb below the source
    # @param gems [Real::Install, nil] gems that the tests need
    # @param environment [Hash{String => String}] for building and running
    def initialize(name, source:, framework:, files:, options: [], arguments: ->(file) { [file] },
                   extensions: nil, gems: nil, environment: {})
      @name = name
      @source = source
      @framework = framework
      @files = files
      @options = options
      @arguments = arguments
      @extconfs = extensions
      @gems = gems
      @environment = environment
    end

    # Fetches and builds what is missing.
    #
    # @yield [what] before it's done
    def set_up
      @folder = @source.call { yield "fetching its source" }
      @gems&.call { yield "installing the gems that its tests need" }
      build { |missing| yield "#{missing} can't be built here; tests that need it fail, in all modes" } if @extconfs
    end

    # RUBYLIB: tests start Rubies that need the extensions.
    def environment
      library = @extensions ? { "RUBYLIB" => @extensions.call } : {}
      (@gems&.environment || {}).compact.merge(library, @environment)
    end

    # @param wanted [Array<String>] files, folders or globs
    # @return [Array<String>] test files below the folder
    def files(wanted)
      (wanted.empty? ? @files : wanted).flat_map do |name|
        below = File.directory?(File.join(@folder, name)) ? "/**/{test_*,*_test,*_spec}.rb" : ""
        found = Dir.glob("#{name}#{below}", base: @folder).sort
        found.reject! { |path| path.end_with?("/test_helper.rb") }
        found.empty? ? raise(Error, "#{@name} has no test #{name}") : found
      end.uniq
    end

    def command(file)
      [RbConfig.ruby, *@options, "-r#{RECORDER}", *@arguments.call(file)]
    end

    private

    def build(&)
      extensions = Extensions.new(@folder, @extconfs, environment)
      extensions.call
      extensions.missing.each(&)
      @extensions = extensions
    end
  end
end
