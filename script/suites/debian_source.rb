# frozen_string_literal: true

require "fileutils"
require "open3"
require "rbconfig"

module Suites
  class Error < StandardError; end

  # The source of a Debian package, unpacked in a folder of the user's cache. apt is given a configuration of
  # its own, with the sources of the archives that this machine itself installs from: no host is named here,
  # and nothing of the machine's changes.
  class DebianSource
    KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"

    # @return [Array<String>] source package and version that this Ruby was built from
    def self.of_this_ruby
      owner = run("dpkg-query", "-S", RbConfig.ruby)[/\A([^:,\s]+)/]
      run("dpkg-query", "-W", "-f", "${source:Package} ${source:Version}", owner).split
    rescue Error
      raise Error, "#{RbConfig.ruby} is of no Debian package, so its tests can't be had"
    end

    def self.run(*command, **options)
      output, status = Open3.capture2e({ "LC_ALL" => "C" }, *command, **options)
      return output if status.success?

      raise Error, "#{command.first(2).join(" ")} failed: #{output.lines.last(5).join}"
    rescue Errno::ENOENT
      raise Error, "there is no #{command.first} (of #{command.first == "dpkg-source" ? "dpkg-dev" : "apt"})"
    end

    # @param package [String]
    # @param version [String, nil] the wanted one; another one of the same release where it's gone
    def initialize(package, version = nil)
      @package = package
      @version = version
      cache = ENV["XDG_CACHE_HOME"] || File.join(Dir.home, ".cache")
      @apt = File.join(cache, "memprofiler", "sources", "apt")
      name = [package, version].compact.join("_").gsub(/[^\w.-]/, "_") # some tests take their path for a pattern
      @home = File.join(cache, "memprofiler", "sources", name)
    end

    # @return [String] the folder
    def call
      return folder if folder

      yield
      self.class.run("dpkg-source", "--version")
      set_up_apt
      FileUtils.rm_rf(@home)
      FileUtils.mkdir_p(@home)
      apt("update", "-q")
      fetch
      folder || raise(Error, "apt-get source #{@package} left no folder of its own")
    end

    private

    # dpkg-source makes it whole or not at all.
    def folder
      found = Dir[File.join(@home, "*/debian")].first
      found && File.dirname(found)
    end

    def fetch
      apt("source", "-q", "--only-source", [@package, @version].compact.join("="), chdir: @home)
    rescue Error
      raise unless @version

      apt("source", "-q", "--only-source", @package, chdir: @home)
      upstream = @version[/\A(?:\d+:)?(.*?)-/, 1]
      return if folder&.end_with?("-#{upstream}")

      FileUtils.rm_rf(@home)
      raise Error, "the archive has #{@package} #{@version} no more, and nothing else of #{upstream}"
    end

    def set_up_apt
      %w[etc lists/partial cache/archives/partial].each { |name| FileUtils.mkdir_p(File.join(@apt, name)) }
      key = " [signed-by=#{KEYRING}]" if File.exist?(KEYRING)
      lines = self.class.run("apt-get", "indextargets", "--format", "deb-src#{key} $(REPO_URI) $(RELEASE) $(COMPONENT)",
                             "Created-By: Packages", "Origin: Debian").lines.uniq
      raise Error, "apt knows no Debian archive; apt-get update may help" if lines.empty?

      File.write(File.join(@apt, "etc", "sources.list"), lines.join)
    end

    def apt(*arguments, **options)
      self.class.run("apt-get", "-o", "Dir::Etc::sourcelist=#{@apt}/etc/sources.list", "-o", "Dir::Etc::sourceparts=-",
                     "-o", "Dir::State::lists=#{@apt}/lists", "-o", "Dir::Cache=#{@apt}/cache", "-o", "APT::Sandbox::User=root",
                     *arguments, **options)
    end
  end
end
