# frozen_string_literal: true

require "openssl"
require "socket"
require "uri"
require "memprofiler"

# An HTTP server on the loopback interface that notes what it's sent and answers as it's told.
class PushServer
  Request = Struct.new(:verb, :path, :query, :headers, :body, keyword_init: true) do
    def profile
      @profile ||= Memprofiler::Profile.new(body).tap(&:model)
    end

    # Pyroscope's way of reading `name`
    def series
      app, tags = query.fetch("name").match(/\A([^{]+)\{(.*)\}\z/).captures
      [app, tags.split(",").to_h { |tag| tag.split("=", 2) }]
    end
  end

  attr_reader :requests, :port

  # @param tls [Array(OpenSSL::X509::Certificate, OpenSSL::PKey)]
  # @yield [number, request, socket] of each request, counted from 0
  # @yieldreturn [Integer, Array(Integer, Hash, String), nil] nil: the block has dealt with the socket
  def initialize(tls: nil, &answer)
    @answer = answer || ->(*) { 200 }
    @requests = []
    @lock = Mutex.new
    @server = TCPServer.new("127.0.0.1", 0)
    @port = @server.addr[1]
    @server = with_tls(*tls) if tls
    @threads = [Thread.new { serve }]
  end

  def close
    @threads.each(&:kill)
    @server.close
  end

  def url(path = "", scheme: "http")
    "#{scheme}://127.0.0.1:#{@port}#{path}"
  end

  private

  def with_tls(certificate, key)
    context = OpenSSL::SSL::SSLContext.new
    context.cert = certificate
    context.key = key
    OpenSSL::SSL::SSLServer.new(@server, context)
  end

  def serve
    loop do
      socket = @server.accept
      @threads << Thread.new { take(socket) }
    rescue OpenSSL::SSL::SSLError, SystemCallError
      nil # who connected did not like it
    end
  end

  def take(socket)
    request = read(socket)
    number = @lock.synchronize { @requests.push(request).size - 1 } if request
    respond(socket, @answer.call(number, request, socket)) if request
  rescue SystemCallError, IOError
    nil # the client has gone
  ensure
    socket.close
  end

  def read(socket)
    verb, target = socket.gets.to_s.split
    return unless target

    headers = {}
    while (line = socket.gets.to_s.chomp) != ""
      name, value = line.split(": ", 2)
      headers[name.downcase] = value
    end
    path, query = target.split("?", 2)
    Request.new(verb: verb, path: path, query: URI.decode_www_form(query.to_s).to_h, headers: headers,
                body: socket.read(headers["content-length"].to_i))
  end

  def respond(socket, answer)
    return unless answer

    code, headers, body = answer
    head = { "Content-Length" => body.to_s.bytesize, "Connection" => "close" }.merge(headers || {})
    socket.write("HTTP/1.1 #{code} X\r\n#{head.map { |pair| "#{pair.join(": ")}\r\n" }.join}\r\n#{body}")
  end
end
