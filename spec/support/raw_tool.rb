# frozen_string_literal: true

require "rbconfig"
require "tmpdir"

# A C extension that hooks into the VM by itself: spec/apps/raw_tool.c, compiled for this Ruby.
module RawTool
  SOURCE = File.expand_path("../apps/raw_tool.c", __dir__)

  module_function

  # @return [Array<String>] options for a Ruby that is to require "raw_tool"
  def options
    @options ||= ["-I", build]
  end

  def build
    folder = Dir.mktmpdir("raw_tool")
    at_exit { FileUtils.remove_entry(folder) }
    config = RbConfig::CONFIG
    headers = config.values_at("rubyhdrdir", "rubyarchhdrdir").map { |path| "-I#{path}" }
    command = [*config["CC"].split, "-shared", "-fPIC", "-O1", *headers, SOURCE, "-o", File.join(folder, "raw_tool.#{config["DLEXT"]}")]
    raise "#{SOURCE} does not compile" unless system(*command)

    folder
  end
end
