# frozen_string_literal: true

require_relative "background"
require_relative "service"

module Memprofiler
  # Pushes to Pyroscope, from a thread of its own, what was allocated since the time before (`alloc_*`)
  # and what is in use (`inuse_*`): `POST URL/ingest`, as docs/pyroscope.md has it.
  #
  # A profile that the server does not take for now waits in a queue, for a time that doubles with each
  # failure, up to 5 minutes, and is at least what the server's Retry-After says. When the queue is full,
  # the oldest is dropped. What the server refuses for good (a status of 3xx or 4xx, but 408 and 429) is
  # dropped at once; redirects are not followed. All that is counted, and the first failure said on stderr.
  #
  # A last profile is pushed at the process' end, within `timeout`. Forked children push on their own what
  # they allocate after the fork. None of the secrets is ever shown.
  #
  # @example
  #   Memprofiler::PyroscopeExporter.new(url: "http://127.0.0.1:4040", app_name: "shop.web").start
  class PyroscopeExporter < Service
    autoload :Address, File.join(__dir__, "pyroscope_exporter/address.rb")
    autoload :Limits, File.join(__dir__, "pyroscope_exporter/limits.rb")

    TIMEOUT = (0.01..600) # seconds
    QUEUE = (1..1_000)
    LONGEST = 300 # seconds between two attempts
    ANSWER = 65_536 # bytes of an answer that are read
    # For now: what the server may well take later.
    LATER = [408, 429, *500..599].freeze
    Waiting = Struct.new(:bytes, :from, :until)
    private_constant :TIMEOUT, :QUEUE, :LONGEST, :ANSWER, :LATER, :Waiting

    # @param url [String, URI] http://HOST:PORT or https://, with the path before `/ingest`, if there is
    #   one; a user and password in it count as `username` and `password`
    # @param app_name [String] the service's name: letters, digits, `_`, `.`, `/` and `-`, 1 to 200
    # @param tags [Hash{Symbol, String => String, Symbol, Integer, true, false, nil}] of all its profiles.
    #   `hostname` and `pid` are there too, so that processes can be told apart, unless they are given
    #   others, or nil, here.
    # @param every [Numeric] seconds from one profile to the next, 0.01..86,400
    # @param timeout [Numeric] seconds to connect, to send, and to wait for an answer, each; 0.01..600
    # @param queue [Integer] profiles kept at most while the server takes none, 1..1,000
    # @param username [String, nil] of basic authentication, with `password`
    # @param password [String, nil]
    # @param token [String, nil] sent as `Authorization: Bearer`
    # @param tenant [String, nil] sent as `X-Scope-OrgID`
    # @param ca_file [String, Pathname, nil] certificates that https is verified by, instead of the system's
    # @param collector [Collector, nil] nil: the process' own, see {Memprofiler.start}
    # @param labels [Array<Symbol>] see {Collector#flush}; each value of a label is a series of its own
    #   in Pyroscope, so best none
    # @param gc [Boolean] whether to run a full collection before each profile, which holds the program up
    # @raise [ArgumentError, TypeError] naming the option and what is allowed
    def initialize(url:, app_name:, tags: {}, every: 15, timeout: 10, queue: 8, username: nil, password: nil,
                   token: nil, tenant: nil, ca_file: nil, collector: nil, labels: [], gc: false) # rubocop:disable Naming/MethodParameterName
      super(every: every, collector: collector, labels: labels, gc: gc)
      @timeout = Arguments.number("timeout", timeout, TIMEOUT)
      @limit = Arguments.integer("queue", queue, QUEUE)
      ca_file = Arguments.path("ca_file", ca_file, optional: true)
      @ca_file = ca_file && File.expand_path(ca_file)
      @address = Address.new(url: url, app_name: app_name, tags: tags, username: username, password: password,
                             token: token, tenant: tenant)
      begin_anew
      # At the end the thread may be in the middle of an attempt.
      @background = Background.new(name: "memprofiler push", every: every, patience: (2 * timeout) + 5,
                                   in_child: ->(daemon) { begin_in_child(daemon) }) { |occasion| work(occasion) }
    end

    # Takes a profile and pushes it now, and what waits. In a signal handler it returns at once, and that
    # is done soon.
    #
    # @return [Boolean, nil] true; nil in a signal handler
    # @raise [PushError] naming the server and why; what it may take later stays in the queue
    # @raise [NotStartedError] it doesn't run
    def push
      raise NotStartedError, "the exporter doesn't run: start it first" unless running?

      @background.now
    end

    # @return [Hash{Symbol => Object}] `service` ("pyroscope_exporter"), `running`, `url` (without a
    #   user), `name` (of the series: application and tags), `every`; of this process: `pushed` (profiles),
    #   `failed` (attempts), `dropped` (profiles: the queue was full, or the server refused them for good),
    #   `queue` (profiles that wait), `merged_samples` and `cut_stacks` (to stay within Pyroscope's limits, see
    #   docs/pyroscope.md), `last_push` (Time or nil), `last_error` (String or nil; it stays, also after others went
    #   well) and `last_error_at` (Time or nil)
    def status
      { service: "pyroscope_exporter", running: running?, url: @address.shown, name: @address.name, every: @every,
        pushed: @pushed, failed: @failed, dropped: @dropped, queue: @queue.size, merged_samples: @merged_samples,
        cut_stacks: @cut_stacks, last_push: @last_push, last_error: @last_error,
        last_error_at: @last_error_at }
    end

    def inspect
      "#<#{self.class} #{@address.shown} #{@address.name}>"
    end

    private

    # What the parent has still to push is the parent's.
    def begin_anew
      @pid = Process.pid
      @queue = []
      @earlier = @earlier_of = nil # the moment of the last profile, and of which collector
      @pushed = @failed = @dropped = @merged_samples = @cut_stacks = @attempts = 0
      @last_push = @last_error = @last_error_at = nil
      @next_profile = @next_attempt = 0 # on the clock
      @random = Random.new # the program's own sequence stays as it is; and workers must not come all at once
    end

    def prepare
      begin_anew unless @pid == Process.pid # it did not run at the fork
      Memprofiler.own do
        require "net/http"
        require "time" # of Retry-After
        require "openssl" if @address.uri.scheme == "https"
        begin_now
      end
    end

    # A child goes on with all that its parent had: from here on it is its own. What a daemon's parent had still
    # to push nobody else does.
    def begin_in_child(daemon)
      return @pid = Process.pid if daemon

      begin_anew
      begin_now
    rescue StandardError, NoMemoryError # the thread will do it
      nil
    end

    def begin_now
      moment { |collector| [nil, collector.send(:baseline)] }
    end

    # From here on the next one counts, whatever becomes of this one.
    def moment
      @next_profile = clock + @every
      take do |collector|
        profile, @earlier = yield collector
        @earlier_of = collector
        profile
      end
    end

    def work(occasion)
      return begin_late if occasion == :forked

      take_delta if occasion != :tick || clock >= @next_profile
      send_all(occasion == :last) if occasion != :tick || clock >= @next_attempt
      @queue.empty? || :pending
    rescue StandardError => e
      @last_error = e.message
      @last_error_at = Time.now
      raise
    ensure
      schedule
    end

    def begin_late
      begin_now unless @earlier
    end

    def schedule
      times = [@next_profile, (@next_attempt unless @queue.empty?)].compact
      @background.again_in([times.min - clock, 0.01].max)
    end

    def clock
      Process.clock_gettime(Process::CLOCK_MONOTONIC)
    end

    def take_delta
      return begin_now unless @earlier

      from = @earlier.time
      profile = moment do |collector|
        before = @earlier if collector.equal?(@earlier_of)
        collector.send(:flush_since, before, labels: @labels, gc: @gc)
      end
      enqueue(profile, from, @earlier.time) if profile
    end

    def enqueue(delta, from, till)
      bytes, samples, merged, cut = Limits.apply(delta.pprof_data)
      return if samples.zero?

      @merged_samples += merged
      @cut_stacks += cut
      @queue << Waiting.new(bytes, from.to_i, till.ceil.to_i)
      return if @queue.size <= @limit

      @queue.shift
      @dropped += 1
    end

    def send_all(last)
      deadline = clock + @timeout
      until @queue.empty?
        send_one(@queue.first, last ? deadline - clock : @timeout)
        @queue.shift
        @pushed += 1
        @attempts = @next_attempt = 0
        @last_push = Time.now
        break if last && clock >= deadline
      end
    rescue StandardError => e
      failed(e)
    end

    def failed(error)
      refused = error.is_a?(Refused)
      if refused && error.for_good
        @queue.shift
        @dropped += 1
      end
      @failed += 1
      @attempts += 1
      @next_attempt = clock + [back_off(@attempts), refused ? error.delay : 0].max
      reason = refused ? error.message : @address.scrub("#{error.message} (#{error.class})")
      raise PushError, "#{@address.shown}: #{reason}", cause: nil # whose message may hold what was scrubbed here
    end

    # @return [Float] seconds: half to all of 1, 2, 4, ... (of less, where profiles come faster), 300 at most
    def back_off(attempts)
      [[@every, 1].min * (2**[attempts - 1, 20].min), LONGEST].min * (0.5 + (@random.rand / 2))
    end

    # An answer that isn't 2xx.
    #
    # @api private
    class Refused < StandardError
      attr_reader :for_good, :delay

      def initialize(message, for_good:, delay: 0)
        super(message)
        @for_good = for_good
        @delay = delay
      end
    end
    private_constant :Refused

    def send_one(profile, seconds)
      response, text = post(@address.request(profile.bytes, profile.from, profile.until), [seconds, 0.01].max)
      code = response.code.to_i
      return if code.between?(200, 299)

      if code.between?(300, 399)
        raise Refused.new("answered #{code}, which leads to another address; redirects are not followed: give that " \
                          "address as url", for_good: true)
      end
      message = "answered #{code}#{": #{text}" unless text.empty?}"
      raise Refused.new(message, for_good: !LATER.include?(code), delay: retry_after(response["Retry-After"]))
    end

    def post(request, seconds)
      http = connection(seconds)
      text = +""
      response = NewFile.without_signals { http.start { http.request(request) { |answer| read(answer, text) } } }
      [response, @address.scrub(text)]
    end

    def read(answer, text)
      answer.read_body do |part|
        text << part
        raise IOError, "an answer of more than #{ANSWER} bytes" if text.bytesize > ANSWER
      end
    end

    def connection(seconds)
      http = Net::HTTP.new(@address.uri.hostname, @address.uri.port)
      http.open_timeout = http.read_timeout = http.write_timeout = http.ssl_timeout = seconds
      http.max_retries = 0
      return http unless @address.uri.scheme == "https"

      http.use_ssl = true
      http.verify_mode = OpenSSL::SSL::VERIFY_PEER
      http.ca_file = @ca_file if @ca_file
      http
    end

    # @return [Numeric] seconds
    def retry_after(value)
      return 0 unless value

      seconds = value.match?(/\A\d{1,9}\z/) ? value.to_i : Time.httpdate(value) - Time.now
      seconds.clamp(0, LONGEST)
    rescue ArgumentError
      0
    end
  end
end
