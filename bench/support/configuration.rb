# frozen_string_literal: true

require_relative "empty_hook"
require_relative "folders"
require_relative "peers"

module Bench
  # One way of running a workload: the file in bench/configs with its name, and the gem it needs, if any.
  class Configuration
    attr_reader :name, :peer

    def initialize(name, peer: nil)
      @name = name
      @peer = peer
    end

    # nil, or why this can't run here.
    def unavailable
      @unavailable ||= peer && Peers.install(peer)
    end

    def command(workload, count)
      [RbConfig.ruby, *load_path, File.join(ROOT, "bench", "child.rb"), name, workload.path, count.to_s]
    end

    def environment
      peer ? Peers.environment(peer) : {}
    end

    private

    def load_path
      case name
      when /\Aempty_hook/ then ["-I", EmptyHook.build]
      when /\Amemprofiler/ then ["-I", File.join(ROOT, "lib")]
      else []
      end
    end
  end

  SAMPLING = [
    Configuration.new("bare"),
    Configuration.new("empty_hook"),
    Configuration.new("memprofiler_512_mark"),
    Configuration.new("memprofiler_512_free"),
    Configuration.new("stackprof_object", peer: "stackprof"),
    Configuration.new("vernier_allocations", peer: "vernier"),
    Configuration.new("datadog_allocations", peer: "datadog"),
    Configuration.new("datadog_heap", peer: "datadog")
  ].freeze

  EXACT = [
    Configuration.new("bare"),
    Configuration.new("memprofiler_exact"),
    Configuration.new("trace_object_allocations"),
    Configuration.new("memory_profiler", peer: "memory_profiler")
  ].freeze
end
