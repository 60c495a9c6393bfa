# frozen_string_literal: true

require "net/http"
require "socket"

module Real
  # A bounded load on a server of this machine: 4 clients, 150 requests each.
  class HttpLoad
    CLIENTS = 4
    REQUESTS = 150
    STARTED_WITHIN = 60 # seconds

    attr_reader :port

    def initialize
      @port = TCPServer.open("127.0.0.1", 0) { |server| server.addr[1] }
    end

    # @return [String] which answers came, and how many of each
    def run
      wait
      Array.new(CLIENTS) { |client| Thread.new { requests(client) } }.flat_map(&:value).tally.sort.to_h.to_s
    end

    private

    def wait
      deadline = Process.clock_gettime(Process::CLOCK_MONOTONIC) + STARTED_WITHIN
      begin
        TCPSocket.open("127.0.0.1", @port).close
      rescue SystemCallError
        raise "no server on port #{@port}" if Process.clock_gettime(Process::CLOCK_MONOTONIC) > deadline

        sleep 0.1
        retry
      end
    end

    def requests(client)
      Net::HTTP.start("127.0.0.1", @port) do |http|
        Array.new(REQUESTS) do |i|
          answer = http.get("/page/#{client}#{i}")
          "#{answer.code} #{answer.body.size}"
        end
      end
    end
  end
end
