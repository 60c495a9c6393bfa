# frozen_string_literal: true

require_relative "answer"

module Memprofiler
  class Rack
    # Requests that wait for some seconds take a thread of the server's each, so there may be a few only.
    #
    # @api private
    class Waiting
      # @param most [Integer]
      def initialize(most)
        @most = most
        @lock = Mutex.new
        @places = {}.compare_by_identity # of each who waits: its end and its thread
        @pid = Process.pid
      end

      # Yields if there's a place, and holds that until the block's end.
      #
      # @param seconds [Integer]
      # @raise [Answer::Refusal] there is none
      def hold(seconds)
        place = Object.new
        ends = now + seconds
        @lock.synchronize do
          forget_lost
          refuse if @places.size >= @most
          @places[place] = [ends, Thread.current]
        end
        yield
      ensure # without the lock, in which a second exception might come; it is one step of the VM's
        @places.delete(place)
      end

      # @param seconds [Integer] from now, however often the thread is woken
      def sleep(seconds)
        ends = now + seconds
        while (left = ends - now).positive?
          Kernel.sleep(left)
        end
      end

      private

      # Those of the parent's threads, which a fork leaves behind, and of one that was killed on its way out
      def forget_lost
        @places.clear unless @pid == Process.pid
        @pid = Process.pid
        @places.delete_if { |_, (_, thread)| !thread.alive? }
      end

      def refuse
        left = [(@places.each_value.map(&:first).min - now).ceil, 1].max
        raise Answer::Refusal.new(429, "#{@most} request#{"s" if @most > 1} with \"seconds\" already waiting, which " \
                                       "is all there may be: try again in #{left} s", { "retry-after" => left.to_s })
      end

      def now
        Process.clock_gettime(Process::CLOCK_MONOTONIC)
      end
    end
  end
end
