# frozen_string_literal: true

require "fileutils"
require "open3"
require "rbconfig"

module Real
  # The gems of a Gemfile, in a folder of their own below tmp/, installed once for each Ruby and Gemfile.
  class Install
    class Error < StandardError; end

    attr_reader :gemfile

    # @param source [String] the Gemfile
    def initialize(folder, source: File.join(__dir__, "Gemfile"))
      @folder = folder
      @source = source
      @gemfile = File.join(folder, "Gemfile")
    end

    def call
      done = File.join(@folder, "installed")
      return if File.exist?(done) && FileUtils.identical?(@source, @gemfile)

      FileUtils.mkdir_p(@folder)
      FileUtils.rm_f([done, "#{@gemfile}.lock"])
      FileUtils.cp(@source, @gemfile)
      yield
      output, status = Open3.capture2e({ "BUNDLE_GEMFILE" => @gemfile, "BUNDLE_PATH" => File.join(@folder, "vendor") },
                                       "bundle", "install")
      raise Error, "bundle install failed:\n#{output}" unless status.success?

      FileUtils.touch(done)
    end

    def vendor
      File.join(@folder, "vendor")
    end

    # A gem's file or folder.
    def gem(name, path)
      found = Dir[File.join(home, "gems", "#{name}-[0-9]*")].first
      raise Error, "no gem #{name} below #{home}" unless found

      File.join(found, path)
    end

    # As of someone who has installed the gems: with no Bundler about.
    def environment
      { "GEM_HOME" => home, "GEM_PATH" => home, "BUNDLE_GEMFILE" => nil, "RUBYOPT" => nil, "RUBYLIB" => nil,
        "PATH" => [File.join(home, "bin"), RbConfig::CONFIG["bindir"], ENV.fetch("PATH")].join(File::PATH_SEPARATOR) }
    end

    private

    def home
      Dir[File.join(vendor, "*", "*")].first || raise(Error, "nothing is installed in #{vendor}")
    end
  end
end
