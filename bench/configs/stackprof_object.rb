# frozen_string_literal: true

# stackprof's object mode, every 512th allocation, to its results.
require "stackprof"

module Config
  def self.start
    StackProf.start(mode: :object, interval: 512)
  end

  def self.finish
    StackProf.stop
    raise "no samples" if StackProf.results.fetch(:samples).zero?
  end
end
