# frozen_string_literal: true

module Bench
  # A program to be measured: its repeat count for sampling profilers (1-2 s bare), and the smaller one for profilers
  # that record every object, some of which are fifty times slower than the bare run.
  Workload = Struct.new(:name, :repeats, :exact_count) do
    def path
      File.expand_path("../workloads/#{name}.rb", __dir__)
    end
  end

  WORKLOADS = [
    Workload.new("strings", 5_000_000, 500_000),
    Workload.new("json", 1_500, 400),
    Workload.new("ripper", 400, 100),
    Workload.new("erb", 5_000, 1_500),
    Workload.new("deep", 8_000_000, 500_000)
  ].freeze
end
