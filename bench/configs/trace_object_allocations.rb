# frozen_string_literal: true

# objspace's tracing, which keeps file, line and class of every living object.
require "objspace"

module Config
  def self.start
    ObjectSpace.trace_object_allocations_start
  end

  def self.finish
    ObjectSpace.trace_object_allocations_stop
  end
end
