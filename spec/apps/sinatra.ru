# frozen_string_literal: true

# For spec/web_servers_spec.rb, which knows lines by the marks behind them.
require "sinatra/base"
require "memprofiler/rack"

KEPT = [] # rubocop:disable Style/MutableConstant

class Shop < Sinatra::Base
  set :environment, :production
  set :host_authorization, { permitted_hosts: [] }
  use Memprofiler::Rack, label: true

  before { 10.times { Object.new } } # mark: filter

  get "/posts/:slug" do
    10.times { Object.new } # mark: GET /posts/:slug
    params[:slug]
  end

  get "/passed/*" do
    10.times { Object.new } # mark: GET /passed/*
    pass
  end

  get "/passed/on" do
    10.times { Object.new } # mark: GET /passed/on
    "on"
  end

  post "/orders" do
    100.times { KEPT << Object.new } # mark: POST /orders
    "made"
  end

  get "/halted" do
    10.times { Object.new } # mark: GET /halted
    halt 403, "halted"
  end

  get "/failing" do
    10.times { Object.new } # mark: GET /failing
    raise "the app's own"
  end

  get "/streamed" do
    stream do |lines|
      10.times { Object.new } # mark: body
      3.times { |i| lines << "line #{i}\n" }
    end
  end

  get("/flushes") { Memprofiler.collector.stats[:flushes].to_s }
  get("/labels") { Memprofiler.labels.to_s }
  not_found { "nothing here, labels #{Memprofiler.labels}" }
end

# A second one, as an app has that is mounted below another
use Memprofiler::Rack, path: "/outer", start: { interval: 1 }, label: true
run Shop
