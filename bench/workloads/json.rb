# frozen_string_literal: true

# Parses and generates one document of some 20 kB.
require "json"

count = Integer(ARGV.fetch(0))
records = Array.new(100) do |i|
  { "id" => i, "name" => "record #{i}", "tags" => %W[a#{i} b#{i % 7} c#{i % 3}], "score" => i * 1.25,
    "nested" => { "path" => "/records/#{i}", "active" => i.even?, "parent" => nil } }
end
document = JSON.generate(records)
count.times { JSON.generate(JSON.parse(document)) }
