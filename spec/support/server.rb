# frozen_string_literal: true

require "net/http"
require "rbconfig"
require "timeout"
require "tmpdir"
require_relative "child"

# A real server in a process of its own, on a port of 127.0.0.1 that was free.
class Server
  PATIENCE = 120 # seconds
  LAST_PATIENCE = 15 # the same, for its end

  attr_reader :port

  # @param config [String] of config.ru
  # @param arguments [Array<String>] of the gem's command; "PORT" stands for a free one
  def self.run(config, gem: "puma", arguments: ["-b", "tcp://127.0.0.1:0", "-t", "1:8"])
    Dir.mktmpdir do |dir|
      server = new(dir, config, gem, arguments)
      begin
        yield server
      ensure
        server.stop
      end
    end
  end

  def initialize(dir, config, gem, arguments)
    File.write(File.join(dir, "config.ru"), config)
    @log = File.join(dir, "log")
    @port = free_port if arguments.include?("PORT")
    folders = Child::LOAD_PATH.flat_map { |folder| ["-I", folder] }
    @pid = spawn({ "RACK_ENV" => "none" }, RbConfig.ruby, *folders, Gem.bin_path(gem, gem), *arguments.map { |word| word == "PORT" ? @port.to_s : word },
                 "config.ru", chdir: dir, in: File::NULL, %i[out err] => @log)
    wait
  end

  def log = File.read(@log, encoding: "UTF-8")

  # @return [Net::HTTPResponse]
  def get(path, headers = {}, verb: :Get)
    Net::HTTP.start("127.0.0.1", @port, nil, open_timeout: PATIENCE, read_timeout: PATIENCE) do |http|
      http.request(Net::HTTP.const_get(verb).new(path, headers))
    end
  end

  def url(path) = "http://127.0.0.1:#{@port}#{path}"

  # Puma 8.0.2 on Ruby 3.4 now and then waits for ever at its end (1 time of 37 without a collector, too).
  def stop
    Process.kill(:TERM, @pid)
    Timeout.timeout(LAST_PATIENCE) { Process.wait(@pid) }
  rescue Timeout::Error
    Process.kill(:KILL, @pid)
    Process.wait(@pid)
  rescue Errno::ESRCH, Errno::ECHILD
    nil # it's gone already
  end

  private

  def free_port = TCPServer.open("127.0.0.1", 0) { |socket| socket.addr[1] }

  def wait
    ends = Process.clock_gettime(Process::CLOCK_MONOTONIC) + PATIENCE
    until (@port ||= log[%r{Listening on http://127\.0\.0\.1:(\d+)}, 1]&.to_i) && answers?
      raise "the server ended:\n#{log}" if Process.wait(@pid, Process::WNOHANG)
      raise "no server after #{PATIENCE} s:\n#{log}" if Process.clock_gettime(Process::CLOCK_MONOTONIC) > ends

      sleep 0.05
    end
  end

  def answers?
    TCPSocket.open("127.0.0.1", @port).close
    true
  rescue Errno::ECONNREFUSED
    false
  end
end
