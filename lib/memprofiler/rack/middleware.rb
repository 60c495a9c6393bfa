# frozen_string_literal: true

require_relative "app"
require_relative "endpoint_labels"

module Memprofiler
  # Serves profiles of a running program, as Go's net/http/pprof does, so that `go tool pprof` and the
  # scrapers for Go's profiles can read them. Needs no gem, and goes with Rack 2 and 3.
  #
  # @example config.ru
  #   require "memprofiler/rack"
  #   use Memprofiler::Rack
  # @example Rails, in config/application.rb
  #   config.middleware.use Memprofiler::Rack, label: true
  class Rack
    # @param app [#call]
    # @param label [true, #call, nil] gives what the app allocates a label `endpoint`. true: under Rails
    #   "posts#index", from the controller's action on; under Sinatra its route, "GET /posts/:slug", from
    #   there on; else "GET /posts/:id", made of the path, in which what looks like an id is ":id". A callable
    #   is given the env before the app is called, and returns the name, nil or false for none; what it raises is
    #   said once, and the request goes on without a label. nil: no labels
    # @param max_endpoints [Integer] how many names there may be, 1..10,000; from then on a new one is "(other)"
    # @param options [Hash{Symbol => Object}] what {App#initialize} takes
    # @raise [ArgumentError, TypeError] naming the option and what is allowed
    # @raise [AlreadyStartedError] see {App#initialize}
    def initialize(app, label: nil, max_endpoints: EndpointLabels::MAX, **options)
      Options.label(label)
      Arguments.integer("max_endpoints", max_endpoints, 1..10_000)
      @app = Options.app(app)
      @endpoint = App.new(**options)
      @path = @endpoint.path
      @labels = label && EndpointLabels.new(label, max_endpoints)
    end

    # @param env [Hash]
    # @return [Array(Integer, Hash, #each)] the app's own answer, or a profile
    def call(env)
      return @endpoint.call(env) if @endpoint.serves?(env["PATH_INFO"])

      @labels ? @labels.call(@app, env) : @app.call(env)
    end
  end
end
