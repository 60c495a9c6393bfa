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
        @ends = {}.compare_by_identity
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
          forget_parents
          refuse if @ends.size >= @most
          @ends[place] = ends
        end
        begin
          yield
        ensure
          @lock.synchronize { @ends.delete(place) }
        end
      end

      # @param seconds [Integer] from now, however often the thread is woken
      def sleep(seconds)
        ends = now + seconds
        while (left = ends - now).positive?
          Kernel.sleep(left)
        end
      end

      private

      # Those of the parent's threads, which a fork leaves behind
      def forget_parents
        return if @pid == Process.pid

        @ends.clear
        @pid = Process.pid
      end

      def refuse
        left = [(@ends.each_value.min - now).ceil, 1].max
        raise Answer::Refusal.new(429, "#{@most} request#{"s" if @most > 1} with \"seconds\" already waiting, which " \
                                       "is all there may be: try again in #{left} s", { "retry-after" => left.to_s })
      end

      def now
        Process.clock_gettime(Process::CLOCK_MONOTONIC)
      end
    end
  end
end
