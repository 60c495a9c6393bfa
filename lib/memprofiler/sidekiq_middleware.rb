# frozen_string_literal: true

module Memprofiler
  # A server middleware of Sidekiq: what a job allocates bears the label `job`, its class. Of a job of
  # ActiveJob's that is the class of that job.
  #
  # @example
  #   Sidekiq.configure_server do |config|
  #     config.server_middleware { |chain| chain.add Memprofiler::SidekiqMiddleware }
  #   end
  class SidekiqMiddleware
    # Sidekiq gives each instance its configuration; there is nothing in it for us.
    #
    # @param config [Object]
    attr_writer :config

    # @param _job [Object] the worker's instance
    # @param payload [Hash{String => Object}] the job's, as it is in the queue
    # @param _queue [String] its name
    # @return [Object] what the block does
    def call(_job, payload, _queue, &)
      Memprofiler.with_labels(job: payload["wrapped"] || payload["class"], &)
    end
  end
end
