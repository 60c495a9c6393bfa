# frozen_string_literal: true

require "rbconfig"

module Memprofiler
  # Where a checkout keeps the extension that was built for this very Ruby. Each
  # has a folder of its own: to load what was built for another can crash.
  #
  # @api private
  module Native
    # @return [String] absolute path, whether there is a file or not
    def self.path
      names = RbConfig::CONFIG
      ruby = [RUBY_VERSION, (RUBY_REVISION[0, 10] if RUBY_PATCHLEVEL.negative?), names["arch"], names["RUBY_SO_NAME"],
              ("static" unless names["ENABLE_SHARED"] == "yes"), ("asan" if ENV["MEMPROFILER_ASAN"] == "1")]
      File.expand_path("native/#{ruby.compact.join("-")}/memprofiler/memprofiler.#{names["DLEXT"]}", __dir__)
    end
  end
end
