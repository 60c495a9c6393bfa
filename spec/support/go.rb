# frozen_string_literal: true

require "open3"
require "tmpdir"

# Go's own reader and writer of pprof files, to check ours by.
module Go
  MISSING = "needs Go (Debian: golang-go)"

  module_function

  def available?
    return @available unless @available.nil?

    @available = !Open3.capture2e("go", "tool", "pprof", "-h").first.empty?
  rescue Errno::ENOENT
    @available = false
  end

  # @return [String] what `go tool pprof` prints
  def pprof(*arguments)
    run("tool", "pprof", *arguments)
  end

  # @return [String] what the program prints
  def run_program(source)
    Dir.mktmpdir do |dir|
      File.write(File.join(dir, "main.go"), source)
      run("run", File.join(dir, "main.go"))
    end
  end

  def run(*arguments)
    out, err, status = Open3.capture3({ "GO111MODULE" => "off", "PPROF_TMPDIR" => Dir.tmpdir }, "go", *arguments,
                                      binmode: true)
    raise "go #{arguments.first(2).join(" ")}: #{err}" unless status.success?

    out
  end
end

RSpec.configure do |config|
  config.before(:each, :go) { skip Go::MISSING unless Go.available? }
end
