# frozen_string_literal: true

require "fileutils"
require "open3"
require "rbconfig"

module Suites
  # The C extensions of a source, built against this Ruby as `make install` puts them, in a folder beside the
  # source. One that can't be had so is told and left out: its tests fail alike in all modes.
  class Extensions
    # @param source [String] folder that the package was unpacked in
    # @param extconfs [String] glob of theirs below it
    # @param environment [Hash{String => String}]
    def initialize(source, extconfs, environment)
      @source = source
      @extconfs = extconfs
      @environment = environment
      @folder = File.join(File.dirname(source), "extensions")
    end

    # @return [String] folder for the load path
    def call
      return @folder if File.exist?(done)

      FileUtils.rm_rf(@folder)
      failed = Dir.glob(@extconfs, base: @source).sort.reject { |name| built?(name) }
      File.write(done, failed.map { |name| "#{name}\n" }.join)
      @folder
    end

    # @return [Array<String>] those that couldn't be built, other platforms' too
    def missing
      File.readlines(done, chomp: true).map { |name| File.dirname(name) }
    end

    private

    def done
      File.join(@folder, "done")
    end

    def built?(name)
      work = File.join(@folder, "build", File.dirname(name))
      FileUtils.mkdir_p(work)
      ran?(work, RbConfig.ruby, "-rmkmf", File.join(@source, name)) &&
        ran?(work, "make", "install", "optflags=-O1", "top_srcdir=#{@source}", "sitearchdir=#{@folder}",
             "sitelibdir=#{@folder}")
    end

    def ran?(work, *command)
      output, status = Open3.capture2e(@environment, *command, chdir: work)
      File.write(File.join(work, "log"), output, mode: "a")
      status.success?
    end
  end
end
