# frozen_string_literal: true

require_relative "../memprofiler"

Memprofiler::Rack # of the copy of the library that is in force, which below `memprofiler run` may be another one
