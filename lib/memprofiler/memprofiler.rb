# frozen_string_literal: true

# The extension. An installed gem has one, beside this file or in RubyGems' own
# folder for extensions; a checkout may have several.
require_relative "native"

if defined?(Memprofiler::Collector)
  # `memprofiler run` has loaded it, maybe by another path.
elsif File.exist?(Memprofiler::Native.path)
  require Memprofiler::Native.path
else
  begin
    require "memprofiler/memprofiler.so" # Ruby puts its own suffix for ".so"
  rescue LoadError => e
    raise unless e.path == "memprofiler/memprofiler.so" && File.exist?(File.expand_path("../../bin/setup", __dir__))

    raise LoadError, "memprofiler's extension is not built for this Ruby (#{RUBY_VERSION}): run " \
                     "#{File.expand_path("../../bin/setup", __dir__)}"
  end
end
