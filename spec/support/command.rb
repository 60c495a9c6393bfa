# frozen_string_literal: true

require "memprofiler"
require "memprofiler/cli"
require "open3"
require "rbconfig"
require "fileutils"
require "stringio"
require "tmpdir"

# The command line, in this process or in one of its own.
module Command
  EXECUTABLE = File.expand_path("../../exe/memprofiler", __dir__)
  RUBY = RbConfig.ruby
  # What a process below says may not depend on who runs the specs.
  # BUNDLER_SETUP: RubyGems of Ruby 3.4 goes by it, where RUBYOPT says nothing.
  CLEAN = { "RUBYOPT" => nil, "RUBYLIB" => nil, "BUNDLER_SETUP" => nil, "LC_ALL" => "C.UTF-8" }.freeze
  Result = Struct.new(:status, :out, :err)

  # @return [Result] with an Integer status
  def main(*arguments)
    streams = [$stdout, $stderr]
    $stdout = StringIO.new
    $stderr = StringIO.new
    Result.new(Memprofiler::CLI.main(arguments), $stdout.string, $stderr.string)
  ensure
    $stdout, $stderr = streams
  end

  # @return [Result] with a Process::Status
  def memprofiler(*arguments, env: {}, dir: @dir, **options)
    out, err, status = Open3.capture3(CLEAN.merge(env), RUBY, EXECUTABLE, *arguments, chdir: dir, **options)
    Result.new(status, out, err)
  end

  # `memprofiler run -- ruby ...`, into the folder "out"
  def run_ruby(*arguments, options: [], **more)
    memprofiler("run", "--output", "out", *options, "--", RUBY, *arguments, **more)
  end

  # @return [Array<String>] paths of what the run has written
  def profiles(pattern = "*.pb.gz")
    Dir.glob(File.join(@dir, "out", pattern))
  end
end

RSpec.configure do |config|
  config.include Command, :command
  config.around(:each, :command) do |example|
    Dir.mktmpdir { |dir| (@dir = File.realpath(dir)) && example.run }
  end
end
