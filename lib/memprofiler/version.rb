# frozen_string_literal: true

module Memprofiler
  VERSION = "0.1.0"
end
