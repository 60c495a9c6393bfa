# frozen_string_literal: true

require "memprofiler"

# What the configurations of memprofiler share; each has its OPTIONS.
module MemprofilerRun
  def start
    @collector = Memprofiler::Collector.new(**self::OPTIONS)
    @collector.start
  end

  def finish
    profile = @collector.flush
    @collector.stop
    raise "memprofiler made an empty profile" if profile.pprof_data.empty?

    profile
  end
end
