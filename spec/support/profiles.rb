# frozen_string_literal: true

require "memprofiler"

# Profiles written by hand, so that what must come out is known beforehand.
module Profiles
  METRICS = %w[alloc_objects alloc_space inuse_objects inuse_space].freeze

  module_function

  # @param stacks [Hash{Array<String> => Array<Integer>}] from a stack, innermost
  #   first, to the four values. A frame is "function" for one in C, or
  #   "function file:line"; functions of one name and file are one. A Hash at the
  #   stack's end holds labels.
  def build(stacks = {}, comments: {}, period: 1, time: 0, **more_stacks)
    stacks = stacks.merge(more_stacks) # where the braces are left out
    functions = {}
    locations = {}
    samples = stacks.map do |stack, values|
      *frames, labels = stack.last.is_a?(Hash) ? stack : [*stack, nil]
      numbers = frames.map do |frame|
        name, file, line = frame.match(%r{\A(.*?)(?: ([/(<]\S*):(\d+))?\z}m).captures
        function = [name, "", file || "", file ? 1 : 0]
        key = [functions[function] ||= functions.size, line.to_i]
        locations[key] ||= locations.size
      end
      [numbers, values, labels]
    end
    Memprofiler::Profile.from_model(
      sample_types: METRICS.map { |metric| [metric, metric.end_with?("space") ? "bytes" : "count"] },
      default_sample_type: "inuse_space", period_type: %w[objects count], period: period,
      time_nanos: time, duration_nanos: 0, mapping: ["ruby"],
      comments: comments.map { |key, value| "#{key}: #{value}" },
      functions: functions.keys, samples: samples,
      locations: locations.keys.each_with_index.map { |(function, line), i| [function, line, i + 1] }
    )
  end

  # Rows as [name, flat, cumulative]
  def rows(profile, metric = :alloc_objects, **options)
    profile.top(metric, **options).map { |row| [row.name, row.flat, row.cumulative] }
  end
end
