# frozen_string_literal: true

# The extension. An installed gem has one, beside this file or in RubyGems' own
# folder for extensions; a checkout may have several.
require_relative "native"

if defined?(Memprofiler::Collector)
  # `memprofiler run` has loaded it, maybe by another path.
elsif File.exist?(Memprofiler::Native.path)
  require Memprofiler::Native.path
else
  require "memprofiler/memprofiler.so" # Ruby puts its own suffix for ".so"
end
