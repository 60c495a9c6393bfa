# frozen_string_literal: true

require "fileutils"
require "open3"
require_relative "folders"

module Bench
  # The other profilers, each pinned and installed into a folder of its own, so that what one of them depends on never
  # changes what another one loads.
  module Peers
    VERSIONS = {
      "memory_profiler" => "1.1.0",
      "stackprof" => "0.2.28",
      "vernier" => "1.12.0",
      "datadog" => "2.47.0"
    }.freeze

    module_function

    def gem_home(name)
      File.join(Bench.folder("bench-gems"), "#{name}-#{VERSIONS.fetch(name)}")
    end

    # nil when the peer is there afterwards, else one line that says why not. A refusal is kept beside the gems, so that
    # a peer which doesn't support this Ruby is not tried again on every run.
    def install(name)
      home = gem_home(name)
      refusal = File.join(home, "refused")
      return File.read(refusal) if File.exist?(refusal)
      return nil if File.exist?(File.join(home, "installed"))

      FileUtils.mkdir_p(home)
      warn "installing #{name} #{VERSIONS.fetch(name)} ..."
      output, status = Open3.capture2e("gem", "install", name, "--version", VERSIONS.fetch(name), "--install-dir", home,
                                       "--no-document")
      return FileUtils.touch(File.join(home, "installed")) && nil if status.success?

      why = reason(output)
      File.write(refusal, why) if why.include?("requires Ruby")
      why
    end

    def reason(output)
      lines = output.lines.map(&:strip).reject(&:empty?)
      line = lines.find { |l| l.match?(/requires Ruby/i) } || lines.find { |l| l.match?(/error/i) } || lines.last
      line.to_s.sub(/\AERROR:\s*/, "").sub(/\AError installing.*?:\s*/, "")
    end

    def environment(name)
      home = gem_home(name)
      { "GEM_HOME" => home, "GEM_PATH" => home }
    end
  end
end
