# frozen_string_literal: true

require "fileutils"
require "open3"
require_relative "folders"

module Bench
  # Builds the extension in bench/empty_hook when its source is newer than what was built.
  module EmptyHook
    SOURCE = File.expand_path("../empty_hook", __dir__)

    module_function

    # The folder to add to the load path.
    def build
      folder = Bench.folder("bench-empty-hook")
      built = File.join(folder, "empty_hook.#{RbConfig::CONFIG["DLEXT"]}")
      sources = Dir[File.join(SOURCE, "*.{c,rb}")]
      return folder if File.exist?(built) && sources.all? { |source| File.mtime(source) <= File.mtime(built) }

      FileUtils.mkdir_p(folder)
      run(folder, RbConfig.ruby, File.join(SOURCE, "extconf.rb"))
      run(folder, "make", "clean", "all")
      folder
    end

    def run(folder, *command)
      output, status = Open3.capture2e(*command, chdir: folder)
      abort "bench: #{command.join(" ")} failed:\n#{output}" unless status.success?
    end
  end
end
