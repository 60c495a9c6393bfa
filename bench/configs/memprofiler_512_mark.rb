# frozen_string_literal: true

# memprofiler, one object in 512, deaths by the mark bits; to the encoded profile.
require_relative "../support/memprofiler"

module Config
  extend MemprofilerRun

  OPTIONS = { interval: 512, liveness: :mark }.freeze
end
