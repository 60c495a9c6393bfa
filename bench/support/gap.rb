# frozen_string_literal: true

module Bench
  # @return [Float] the longest time, in milliseconds, that a thread which always wants to run was kept from it during
  #   the block
  def self.longest_gap_ms
    done = false
    longest = 0
    started = Queue.new
    thread = Thread.new do
      started.push(true)
      last = Process.clock_gettime(Process::CLOCK_MONOTONIC, :nanosecond)
      until done
        Thread.pass
        now = Process.clock_gettime(Process::CLOCK_MONOTONIC, :nanosecond)
        longest = now - last if now - last > longest
        last = now
      end
    end
    started.pop
    10.times { Thread.pass }
    longest = 0
    yield
    done = true
    thread.join
    longest / 1e6
  end
end
