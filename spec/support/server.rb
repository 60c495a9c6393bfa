# frozen_string_literal: true

require "fileutils"
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

  # The folder it runs in, with config.ru, and the process' number
  attr_reader :dir, :pid

  # @param config [String] of config.ru
  # @param arguments [Array<String>] of the gem's command; "PORT" stands for a free one
  # @param env [Hash{String => String, nil}]
  # @return [Server] to be stopped by {#close}
  def self.start(config, gem: "puma", arguments: ["-b", "tcp://127.0.0.1:0", "-t", "1:8"], env: {})
    dir = File.realpath(Dir.mktmpdir)
    new(dir, config, gem, arguments, env)
  rescue StandardError
    FileUtils.remove_entry(dir)
    raise
  end

  # The same for the time of a block.
  def self.run(config, **options)
    server = start(config, **options)
    begin
      yield server
    ensure
      server.close
    end
  end

  def initialize(dir, config, gem, arguments, env)
    @dir = dir
    File.write(File.join(dir, "config.ru"), config)
    @log = File.join(dir, "log")
    @port = free_port if arguments.include?("PORT")
    folders = Child::LOAD_PATH.flat_map { |folder| ["-I", folder] }
    @pid = spawn({ "RACK_ENV" => "none", **env }, RbConfig.ruby, *folders, Gem.bin_path(gem, gem), *arguments.map { |word| word == "PORT" ? @port.to_s : word },
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

  # Requests by several clients at once, each with a connection of its own. Not packed: of answers that
  # Rack::Deflater sends in chunks Net::HTTP 0.2.0 (Ruby 3.1) or Puma 8.0.2 mixes up one in 2,000, without us too.
  #
  # @param requests [Array<Net::HTTPRequest>]
  # @return [Array<Net::HTTPResponse>]
  def load(requests, clients: 3)
    queue = Queue.new(requests).close
    threads = Array.new(clients) do
      Thread.new do
        Net::HTTP.start("127.0.0.1", @port, nil, open_timeout: PATIENCE, read_timeout: PATIENCE) do |http|
          answers = []
          while (request = queue.pop)
            request["accept-encoding"] = "identity"
            answers << http.request(request)
          end
          answers
        end
      end
    end
    threads.flat_map(&:value)
  end

  # Asks for the profile of some seconds, and does the block between the two states that this is the difference of:
  # if the seconds were too few for it, again with more.
  #
  # @param path [String] without the seconds
  # @param flushes [#call] how many flushes the collector has done
  # @return [Array(Memprofiler::Profile, Object)] and what the block returned
  def profile_of(path, flushes, seconds: 2)
    before = flushes.call
    began = now
    asked = Thread.new { get("#{path}#{path.include?("?") ? "&" : "?"}seconds=#{seconds}") }
    sleep 0.01 until flushes.call > before || !asked.alive?
    result = yield
    in_time = now - began < seconds # no second flush by then
    answer = asked.value
    raise "#{answer.code}: #{answer.body}" unless answer.code == "200"
    raise "not done in #{seconds} s" if seconds > 60 && !in_time
    return [Memprofiler::Profile.new(answer.body), result] if in_time

    profile_of(path, flushes, seconds: seconds * 2) { yield } # rubocop:disable Style/ExplicitBlockArgument
  end

  def url(path) = "http://127.0.0.1:#{@port}#{path}"

  def close
    stop
  ensure
    FileUtils.remove_entry(@dir)
  end

  # A worker of Puma 8.0.2 on Ruby 3.3.8 now and then waits for ever in IO#close: 4 of 40 without us, 5 of 40 with.
  class Hung < StandardError; end

  # @return [Boolean] whether it came to its end
  def stop
    return true if @stopped

    @stopped = true
    Process.kill(:TERM, @pid)
    Timeout.timeout(LAST_PATIENCE) { Process.wait(@pid) }
    true
  rescue Timeout::Error
    Process.kill(:KILL, @pid)
    Process.wait(@pid)
    false
  rescue Errno::ESRCH, Errno::ECHILD
    true # it's gone already
  end

  # For what is to come of its end.
  #
  # @raise [Hung]
  def end_well
    stop or raise Hung, "no end within #{LAST_PATIENCE} s of TERM"
  end

  private

  def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)

  def free_port = TCPServer.open("127.0.0.1", 0) { |socket| socket.addr[1] }

  def wait
    ends = now + PATIENCE
    until (@port ||= log[%r{Listening on http://127\.0\.0\.1:(\d+)}, 1]&.to_i) && answers?
      raise "the server ended:\n#{log}" if Process.wait(@pid, Process::WNOHANG)
      raise "no server after #{PATIENCE} s:\n#{log}" if now > ends

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
