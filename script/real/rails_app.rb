# frozen_string_literal: true

# Boots a Rails application of one file and sends it 100 requests without a server.
require "logger"
require "rails"
require "action_controller/railtie"

# The application.
class Library < Rails::Application
  config.root = __dir__
  config.eager_load = true
  config.logger = Logger.new(IO::NULL)
  config.secret_key_base = "not a secret"
  config.hosts.clear
  routes.append { get "/books/:id" => "books#show" }
end

# Its one page.
class BooksController < ActionController::Base
  def show
    render json: { id: params[:id], pages: Array.new(20) { |i| { number: i, title: "Page #{i}" } } }
  end
end

Library.initialize!
requests = Rack::MockRequest.new(Library)
responses = Array.new(100) { |i| requests.get("/books/#{i}") }
puts responses.map { |response| "#{response.status} #{response.body.size}" }.tally.sort.to_h
