# frozen_string_literal: true

# A Rails app for spec/rails_spec.rb, which knows lines by the marks behind them.
require "logger"
require "rails"
require "action_controller/railtie"
require "memprofiler/rack"

KEPT = [] # rubocop:disable Style/MutableConstant
EXACT = Memprofiler::Collector.new(interval: 1)

# An action in a thread of its own, to which Rails gives what is local to the request's
class LiveController < ActionController::Base
  include ActionController::Live

  def show
    10.times { Object.new } # mark: live#show
    3.times { |i| response.stream.write("line #{i}\n") }
  ensure
    response.stream.close
  end
end

class PostsController < ActionController::API
  before_action(only: :refused) { head :forbidden }

  def index
    10.times { Object.new } # mark: posts#index
    render json: Array.new(20) { |i| { id: i, title: "Post #{i}" } }
  end

  def show
    10.times { Object.new } # mark: posts#show
    render json: { id: params[:id] }
  end

  def refused
    10.times { Object.new } # mark: refused
  end

  def failing
    10.times { Object.new } # mark: posts#failing
    raise "the app's own"
  end

  # Its body is made when the action has ended.
  def streamed
    10.times { Object.new } # mark: posts#streamed
    self.response_body = Enumerator.new do |lines|
      10.times { Object.new } # mark: body
      3.times { |i| lines << "line #{i}\n" }
    end
  end
end

class OrdersController < ActionController::API
  def create
    marker = Object.new # mark: request
    Array.new(50) { |i| "garbage #{i}" }
    100.times { KEPT << Object.new } # mark: leak
    render json: { made: marker.class.name }, status: :created
  end
end

module Admin
  class PostsController < ActionController::API
    def index
      10.times { Object.new } # mark: admin/posts#index
      render json: []
    end
  end
end

# Has any action.
class WildController < ActionController::API
  def action_missing(name)
    10.times { Object.new } # mark: wild
    render plain: name
  end
end

module Cellar
  class Engine < Rails::Engine
    # There is no folder "lib" to be found.
    def self.find_root(_) = Pathname.pwd

    isolate_namespace Cellar
  end

  class WinesController < ActionController::API
    def index
      10.times { Object.new } # mark: cellar/wines#index
      render json: []
    end
  end

  Engine.routes.append { get "wines" => "wines#index" }
end

MOUNTED = lambda do |env|
  10.times { Object.new } # mark: mounted
  [200, { "content-type" => "text/plain" }, ["mounted at #{env["SCRIPT_NAME"]}, labels #{Memprofiler.labels}"]]
end

# (A constant would give it a name.)
NAMELESS = [Class.new(ActionController::API) do
  def show
    10.times { Object.new } # mark: (anonymous)#show
    render plain: "anonymous"
  end
end].freeze

class Shop < Rails::Application
  config.load_defaults 7.2
  config.api_only = true
  config.eager_load = true
  config.consider_all_requests_local = false
  config.logger = Logger.new(IO::NULL)
  config.secret_key_base = "not a secret"
  unless ENV["PLAIN"]
    config.middleware.use Memprofiler::Rack, label: true, max_endpoints: 30
    config.middleware.use Memprofiler::Rack, path: "/exact/pprof", collector: EXACT
  end

  routes.append do
    get "posts" => "posts#index"
    get "posts/:id" => "posts#show"
    get "refused" => "posts#refused"
    get "failing" => "posts#failing"
    get "streamed" => "posts#streamed"
    get "live" => "live#show"
    post "orders" => "orders#create"
    namespace(:admin) { get "posts" => "posts#index" }
    get "wild/:action", controller: "wild"
    get "closed/:action", controller: "posts"
    get "anonymous" => NAMELESS.first.action(:show)
    get "moved" => redirect("/posts")
    mount Cellar::Engine => "/cellar"
    mount MOUNTED => "/mounted"
    get "exact/:to" => lambda { |env|
      EXACT.public_send(env["action_dispatch.request.path_parameters"].fetch(:to))
      [200, {}, []]
    }
    get "flushes" => ->(_) { [200, {}, [[Memprofiler.collector, EXACT].sum { |collector| collector.stats[:flushes] }.to_s]] }
  end
end

Shop.initialize!
EXACT.start # booting takes three times as long with it
run Shop
