# frozen_string_literal: true

# For spec/web_servers_spec.rb and spec/scrapers_spec.rb, which find the leak's line by its mark.
require "memprofiler/rack"
require "rack/deflater"

KEPT = [] # rubocop:disable Style/MutableConstant

use Rack::Deflater
use Memprofiler::Rack, start: { interval: 1 }, label: ->(env) { env["PATH_INFO"][%r{\A/\w+}] }
run(lambda do |env|
  body = case env["PATH_INFO"]
         when "/leak"
           100.times { KEPT << Object.new } # mark: leak
           "100"
         when "/flushes" then Memprofiler.collector.stats[:flushes].to_s
         else # others run meanwhile
           before = Memprofiler.labels
           sleep 0.02
           [before, Memprofiler.labels].uniq.join(" and ")
         end
  [200, { "content-type" => "text/plain" }, [body]]
end)
