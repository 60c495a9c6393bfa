# frozen_string_literal: true

require "digest"
require "etc"
require "fileutils"
require "rbconfig"
require_relative "../lib/memprofiler/native"

# Builds a checkout's extension for the Ruby that runs this, with nothing but
# extconf.rb and make. Of old objects upb's alone are used again: the others take
# little time, and make can be wrong about them (a copied tree keeps its times).
class ExtensionBuild
  # Its message is one line, for the user.
  class Error < StandardError; end

  ROOT = File.expand_path("..", __dir__)
  EXT = File.join(ROOT, "ext/memprofiler")
  # What a program that we are started in has set for its own Ruby.
  CLEAN = { "RUBYOPT" => nil, "RUBYLIB" => nil, "MAKEFLAGS" => nil }.freeze

  def initialize
    @library = Memprofiler::Native.path
    @stamp = File.expand_path("../stamp", File.dirname(@library))
    ruby = File.basename(File.dirname(@stamp))
    @folder = File.join(ROOT, "tmp/checkout", ruby)
    @log = File.join(@folder, "build.log")
  end

  # Builds unless what is there is of today's sources. Safe to run several times
  # at once: the first one builds, the others wait.
  #
  # @yield when nothing is missing and the compiler is about to start, which takes long
  def call(&)
    return if fresh?

    FileUtils.mkdir_p(@folder)
    File.open(File.join(@folder, "lock"), File::RDWR | File::CREAT, 0o644) do |lock|
      lock.flock(File::LOCK_EX)
      build(&) unless fresh?
    end
  rescue SystemCallError => e
    raise Error, "memprofiler: the extension could not be built: #{e.message}"
  end

  def fresh?
    File.exist?(@library) && File.exist?(@stamp) && File.read(@stamp) == digest
  end

  # Says that the library is of today's sources.
  def stamp
    replace(@stamp) { |path| File.write(path, digest) }
  end

  private

  def build
    File.write(@log, "")
    FileUtils.rm_f(Dir["#{@folder}/*.#{RbConfig::CONFIG["OBJEXT"]}"].grep_v(%r{/(?:ruby-upb|utf8_range)\.\w+\z}))
    # A relative path, since make knows no folders with blanks in their names.
    run(RbConfig.ruby, "../../../ext/memprofiler/extconf.rb")
    yield if block_given?
    run(ENV["MAKE"] || "make", "-j#{Etc.nprocessors}")
    replace(@library) { |path| FileUtils.cp(File.join(@folder, File.basename(@library)), path) }
    stamp
  end

  def run(*command)
    return if system(CLEAN, *command, chdir: @folder, in: File::NULL, out: [@log, "a"], err: %i[child out])

    raise Error, reason
  end

  # extconf.rb ends with a line of ours where it knows what is wrong.
  def reason
    lines = File.read(@log, encoding: "UTF-8").scrub.lines.map(&:chomp)
    ours = lines.grep(/\Amemprofiler: /).last
    return ours if ours

    error = lines.find { |line| line.match?(/\berror\b|\bnot found\b|\*\*\*/i) } || lines.last
    "memprofiler: the extension could not be built (#{error.to_s.strip}); all of it: #{@log}"
  end

  def digest
    @digest ||= begin
      files = Dir.glob("{*,{core,vm,upb}/*}", base: EXT).sort.select { |name| File.file?(File.join(EXT, name)) }
      contents = files.map { |name| "#{name}\0#{Digest::SHA256.file(File.join(EXT, name))}\n" }
      Digest::SHA256.hexdigest("#{RUBY_DESCRIPTION}\n#{contents.join}")
    end
  end

  # The file appears whole: others may be loading it.
  def replace(path)
    FileUtils.mkdir_p(File.dirname(path))
    beside = "#{path}.#{Process.pid}"
    yield beside
    File.rename(beside, path)
  ensure
    FileUtils.rm_f(beside) if beside
  end
end
