# frozen_string_literal: true

# Boots a Sinatra application and sends it 300 requests without a server.
require "sinatra/base"
require "rack/mock_request"

# The application: two pages.
class Shop < Sinatra::Base
  set :environment, :production
  set :host_authorization, { permitted_hosts: [] }

  get("/items/:id") { erb "<h1>Item <%= params[:id] %></h1><% 20.times do |i| %><p><%= i %></p><% end %>" }
  post("/items") { halt 201, { "content-type" => "text/plain" }, "made #{params["name"]}" }
end

requests = Rack::MockRequest.new(Shop)
bodies = Array.new(300) do |i|
  response = i % 3 == 2 ? requests.post("/items", params: { name: "item #{i}" }) : requests.get("/items/#{i}")
  "#{response.status} #{response.body.size}"
end
puts bodies.tally.sort.to_h
