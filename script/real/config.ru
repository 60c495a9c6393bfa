# frozen_string_literal: true

# What Puma serves: a page made anew for each request, and one thing in a hundred kept.
require "json"

kept = []
run(lambda do |env|
  page = { path: env["PATH_INFO"], rows: Array.new(50) { |i| { id: i, name: "row #{i}" } } }
  body = JSON.generate(page)
  kept << body if env["PATH_INFO"].end_with?("00")
  [200, { "content-type" => "application/json" }, [body]]
end)
