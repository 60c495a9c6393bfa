# frozen_string_literal: true

require "rbconfig"

module Bench
  ROOT = File.expand_path("../..", __dir__)

  # Whatever the benchmarks install or build lies below tmp/, which git ignores, apart for each Ruby.
  def self.folder(name)
    File.join(ROOT, "tmp", name, "#{RUBY_VERSION}-#{RbConfig::CONFIG["arch"]}")
  end
end
