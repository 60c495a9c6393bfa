# frozen_string_literal: true

# For spec/cluster_spec.rb, which finds the leak's line by its mark: workers that leak, and write files.
require "memprofiler/rack"

KEPT = [] # rubocop:disable Style/MutableConstant

Memprofiler.start(interval: 1) # what flushes files would start it with default options
use Memprofiler::Rack
every = Float(ENV.fetch("EVERY", "3600"))
Memprofiler::FileFlusher.new(dir: "profiles", every: every, keep: 1_000, gc: every > 1).start

run(lambda do |env|
  100.times { KEPT << Object.new } if env["PATH_INFO"] == "/leak" # mark: leak
  [200, { "content-type" => "text/plain" }, ["#{Process.pid} #{Memprofiler.collector.stats[:flushes]}"]]
end)
