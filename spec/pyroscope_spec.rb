# frozen_string_literal: true

require "zlib"
require_relative "support/child"
require_relative "support/profiles"
require_relative "support/push_server"

RSpec.describe "Memprofiler::PyroscopeExporter" do
  PUSHING = <<~RUBY
    def allocate(count) = Array.new(count) { Object.new }
    def exporter(**options) = Memprofiler::PyroscopeExporter.new(url: URL, app_name: "shop.web", every: 3_600, timeout: 5, labels: [:class], **options)
    def wait_until
      300.times { yield ? (return true) : sleep(0.02) } # 6 s
      false
    end
    def failure
      yield
    rescue Memprofiler::Error => e
      [e.class, e.message]
    end
    allocate(1)
    Memprofiler.start(interval: 1)
  RUBY

  # @yield as PushServer
  def server(**options, &answer)
    @server = PushServer.new(**options, &answer)
  end

  after { @server&.close }

  def run(code, url: @server.url)
    Child.ruby("URL = #{url.dump}\n#{PUSHING}#{code}")
  end

  # Objects that `allocate` made
  def made(profile, metric = :alloc_objects)
    profile.samples.sum { |s| s.labels["class"] == "Object" && s.stack.any? { |f| f.function.end_with?("#allocate") } ? s.values[metric] : 0 }
  end

  def pushed = @server.requests.map(&:profile)

  it "sends all that Pyroscope reads, and what was allocated since the time before" do
    server
    from = Time.now.to_i
    answer = run(<<~RUBY)
      before = allocate(1_000)
      e = exporter(tags: { env: "production", region: :eu, shard: 3 }).start
      kept = allocate(50)
      answers = [e.push]
      kept += allocate(7)
      GC.start
      answers << e.push
      e.stop
      [answers, $$, e.status, Socket.gethostname, kept.size + before.size, Memprofiler.status[:services]]
    RUBY
    answers, pid, status, host, = answer.value
    requests = @server.requests
    first = requests[0]
    expect(requests.map { |r| [r.verb, r.path] }.uniq).to eq([%w[POST /ingest]])
    expect(first.query.keys).to contain_exactly("name", "from", "until", "format", "spyName")
    expect(first.series).to eq(["shop.web", { "env" => "production", "region" => "eu", "shard" => "3", "hostname" => host, "pid" => pid.to_s }])
    expect(first.query.values_at("format", "spyName")).to eq(%w[pprof memprofiler])
    times = requests.map { |r| r.query.values_at("from", "until").map { |text| Integer(text, 10) } }
    expect(times.flatten).to all(be_between(from - 1, Time.now.to_i + 1))
    expect(times.map { |pair| pair == pair.sort }).to all(be(true))
    expect(first.headers).to include("content-type" => "application/octet-stream", "user-agent" => "memprofiler/#{Memprofiler::VERSION}")
    expect(first.headers.keys & %w[authorization x-scope-orgid content-encoding]).to eq([])
    expect(first.body.b).to start_with("\x1F\x8B".b)
    expect(pushed.map(&:sample_types).uniq).to eq([{ alloc_objects: "count", alloc_space: "bytes", inuse_objects: "count", inuse_space: "bytes" }])
    expect(pushed.map { |p| made(p) }).to eq([50, 7, 0].first(pushed.size))
    expect(made(pushed[1], :inuse_objects)).to eq(1_057)
    expect(pushed.flat_map(&:samples).flat_map { |s| s.values.values }).to all(be >= 0)
    expect(pushed.map { |p| [p.model[:duration_nanos].positive?, p.time.to_i.between?(from, Time.now.to_i), p.period] }.uniq).to eq([[true, true, 1]])
    expect([answers, answer.err]).to eq([[true, true], ""])
    expect(status).to include(service: "pyroscope_exporter", running: false, url: @server.url, pushed: requests.size, failed: 0, dropped: 0, queue: 0, last_error: nil, last_push: be_a(Time))
  end

  it "authenticates by user and password, given or in the url, by token, and names the tenant; below a path" do
    server
    run(<<~RUBY)
      [{ username: "me", password: "pa:ss" }, { token: "t0ken", tenant: "team-a" }, { url: URL.sub("//", "//me:p%40ss+1@") + "/base/" }].each do |options|
        e = exporter(**options).start
        allocate(1)
        e.push
        e.stop
      end
    RUBY
    requests = @server.requests.uniq { |r| r.headers["authorization"] }
    expect(requests.map { |r| r.headers["authorization"] }).to eq(["Basic #{["me:pa:ss"].pack("m0")}", "Bearer t0ken", "Basic #{["me:p@ss+1"].pack("m0")}"])
    expect(requests.map { |r| r.headers["x-scope-orgid"] }).to eq([nil, "team-a", nil])
    expect(requests.map(&:path)).to eq(%w[/ingest /ingest /base/ingest])
  end

  it "shows no secret in messages, status or inspect, whatever the server answers" do
    server { |_, request| [401, {}, "no: #{request.headers["authorization"]} s3cret\r\nnext line"] }
    answer = run(<<~RUBY)
      require "pp"
      user = exporter(url: URL.sub("//", "//me:s3cret@")).start
      token = exporter(token: "s3cret").start
      allocate(1)
      said = [user, token].flat_map { |e| [failure { e.push }, e.inspect, e.status.inspect, e.pretty_inspect] }
      said.push(failure { exporter(url: "http://me:s3cret@").start }) rescue said.push($!.message)
      begin exporter(url: "ftp://me:s3cret@x") rescue said.push($!.message) end
      begin exporter(token: "s3cret\\n") rescue said.push($!.message) end
      begin exporter(url: URL, password: "s3cret") rescue said.push($!.message) end
      allocate(1)
      said.map(&:to_s)
    RUBY
    text = answer.value.join("\n") + answer.err
    expect(text).to include("answered 401: no: ", "[secret]", @server.url)
    expect(text).not_to match(/s3cret|#{["me:s3cret"].pack("m0")}|\bme:/)
  end

  it "pushes again and again, and a last time at exit, in each process what it did itself" do
    server
    answer = run(<<~RUBY)
      e = exporter(every: 0.05).start
      allocate(100)
      pushed = wait_until { e.status[:pushed] >= 2 }
      pid = fork do
        sleep 0.01 until Memprofiler::Background.instance_variable_get(:@running).any? && e.instance_variable_get(:@earlier)
        begun = e.status[:pushed]
        allocate(7)
        at_exit { File.write("child", Marshal.dump([begun, e.status[:dropped]])) }
      end
      Process.wait(pid)
      at_exit { allocate(3) }
      allocate(20)
      [pushed, pid, $?.exitstatus, $$]
    RUBY
    seen, child, status, parent = answer.value
    by_pid = @server.requests.group_by { |r| r.series[1]["pid"].to_i }.transform_values { |requests| requests.sum { |r| made(r.profile) } }
    expect([seen, status]).to eq([true, 0])
    expect(by_pid).to eq(parent => 123, child => 7)
    expect(answer.err).to eq("")
  end

  it "begins in a child with the fork, however soon that ends" do
    server
    answer = run(<<~RUBY)
      e = exporter.start
      allocate(1_000)
      children = [7, 0].map do |count|
        pid = fork do
          allocate(count) if count > 0
          grandchild = fork { allocate(2) } if count > 0
          allocate(1) if count > 0
          Process.wait(grandchild) if count > 0
          exit
        end
        Process.wait(pid)
        [pid, $?.exitstatus]
      end
      allocate(3)
      [children, $$]
    RUBY
    children, parent = answer.value
    by_pid = @server.requests.group_by { |r| r.series[1]["pid"].to_i }.transform_values { |requests| requests.sum { |r| made(r.profile) } }
    expect(children.map(&:last)).to eq([0, 0])
    expect([by_pid.delete(parent), by_pid.delete(children[0][0])]).to eq([1_003, 8])
    by_pid.delete(children[1][0]) # in use it has what the parent left it
    expect(by_pid.values).to eq([2])
    expect(@server.requests.map { |r| r.query.fetch("from").to_i - r.query.fetch("until").to_i }).to all(be <= 0)
    expect(answer.err).to eq("")
  end

  it "keeps what the server can't take for now, and sends it when it can, the oldest first" do
    answers = [503, [429, { "Retry-After" => "0" }], 500, 200]
    server { |number,| answers[number] || 200 }
    answer = run(<<~RUBY)
      e = exporter.start
      failures = [10, 20, 30].map { |count| allocate(count); failure { e.push } }
      queue = e.status[:queue]
      allocate(40)
      e.push
      [failures, queue, e.status.slice(:pushed, :failed, :dropped, :queue)]
    RUBY
    failures, queue, status = answer.value
    expect(failures).to eq([503, 429, 500].map { |code| [Memprofiler::PushError, "#{@server.url}: answered #{code}"] })
    expect([queue, status]).to eq([3, { pushed: 4, failed: 3, dropped: 0, queue: 0 }])
    expect(@server.requests.drop(3).first(4).map { |r| made(r.profile) }).to eq([10, 20, 30, 40])
  end

  it "drops the oldest when the queue is full, and counts it" do
    ready = false
    server { ready ? 200 : 503 }
    Dir.mktmpdir do |dir|
      mark = File.join(dir, "ready")
      watcher = Thread.new { sleep 0.01 until File.exist?(mark); ready = true; File.unlink(mark) }
      status, held = run(<<~RUBY).value
        e = exporter(queue: 3).start
        (1..7).each { |i| allocate(i * 10); failure { e.push } }
        held = e.status[:queue]
        File.write(#{mark.dump}, "")
        wait_until { !File.exist?(#{mark.dump}) }
        allocate(80)
        e.push
        [e.status.slice(:pushed, :failed, :dropped, :queue), held]
      RUBY
      watcher.join
      # With the eighth the queue is full again, and the fifth is dropped.
      expect([status, held]).to eq([{ pushed: 3, failed: 7, dropped: 5, queue: 0 }, 3])
    end
    expect(@server.requests.drop(7).first(3).map { |r| made(r.profile) }).to eq([60, 70, 80])
  end

  it "retries on its own, says a failure once, and goes on" do
    server { |number,| number < 4 ? 503 : 200 }
    answer = run(<<~RUBY)
      e = exporter(every: 0.05, queue: 1_000).start
      allocate(10)
      seen = wait_until { e.status[:pushed] >= 2 }
      [seen, e.status[:failed], e.status[:dropped], e.status[:last_error_at] < e.status[:last_push]]
    RUBY
    expect(answer.value).to eq([true, 4, 0, true])
    expect(answer.err).to eq("memprofiler: memprofiler push: #{@server.url}: answered 503 (said once; it goes on)\n")
    expect(@server.requests.drop(4).sum { |r| made(r.profile) }).to eq(10)
  end

  it "waits longer with each failure, up to 5 minutes, not always as long, and as long as it's told" do
    server
    waits, told = run(<<~RUBY).value
      e = exporter.start
      http_date = (Time.now + 100).utc.strftime("%a, %d %b %Y %H:%M:%S GMT")
      [(1..12).map { |n| Array.new(200) { e.send(:back_off, n) }.minmax }, ["7", "0", "99999", http_date, "soon", "-1", nil].map { |value| e.send(:retry_after, value) }]
    RUBY
    waits.each.with_index(1) do |(least, most), n|
      longest = [2**(n - 1), 300].min
      expect(least).to be_between(longest / 2.0, longest * 0.6)
      expect(most).to be_between(longest * 0.9, longest)
    end
    expect(told[0, 3] + told[4..]).to eq([7, 0, 300, 0, 0, 0])
    expect(told[3]).to be_between(95, 100)
  end

  it "follows no redirect, and drops what is refused for good" do
    other = PushServer.new
    server { |number,| [[302, { "Location" => other.url("/ingest") }], [422, {}, "no such tenant"]][number] || 200 }
    failures, status = run(<<~RUBY).value
      e = exporter.start
      failures = Array.new(2) { allocate(1); failure { e.push } }
      [failures, e.status.slice(:pushed, :failed, :dropped, :queue)]
    RUBY
    expect(failures.map(&:last)).to eq(["#{@server.url}: answered 302, which leads to another address; redirects are not followed: give that address as url",
                                        "#{@server.url}: answered 422: no such tenant"])
    expect(status).to eq(pushed: 0, failed: 2, dropped: 2, queue: 0)
    expect(other.requests).to eq([])
  ensure
    other&.close
  end

  {
    "hangs" => ["timeout: 0.1", ->(_, _, socket) { socket.wait_readable(10) && nil }, /Net::ReadTimeout/],
    "closes without an answer" => ["timeout: 5", ->(*) {}, /end of file reached \(EOFError\)/],
    "answers something else" => ["timeout: 5", ->(_, _, socket) { socket.write("220 mail.example ESMTP\r\n") && nil }, /wrong status line.*\(Net::HTTPBadResponse\)/],
    "answers without end" => ["timeout: 5", ->(_, _, socket) { socket.write("HTTP/1.1 200 OK\r\n\r\n") && loop { socket.write("x" * 10_000) } }, /an answer of more than 65536 bytes/]
  }.each do |what, (option, behaviour, message)|
    it "gets over a server that #{what}, at the process' end too" do
      server(&behaviour)
      answer = run(<<~RUBY)
        pid = fork { e = exporter(#{option}).start; allocate(1) }
        Process.wait(pid)
        status = $?.exitstatus
        e = exporter(#{option}).start
        allocate(1)
        [failure { e.push }, e.status.slice(:failed, :dropped, :queue), status]
      RUBY
      expect(answer.value).to match([[Memprofiler::PushError, match(message)], { failed: 1, dropped: 0, queue: 1 }, 0])
      expect(answer.err.lines.size).to be <= 2
    end
  end

  it "gets over a server that isn't there, and never holds up a program's end" do
    closed = TCPServer.new("127.0.0.1", 0).then { |s| s.addr[1].tap { s.close } }
    answer = run(<<~RUBY, url: "http://127.0.0.1:#{closed}")
      e = exporter.start
      allocate(1)
      failure { e.push }
    RUBY
    expect(answer.value).to match([Memprofiler::PushError, /\Ahttp:.*Connection refused/])
    expect(answer.err.lines.size).to eq(1)
  end

  describe "https" do
    def certificate(name)
      key = OpenSSL::PKey::RSA.new(2048)
      certificate = OpenSSL::X509::Certificate.new
      certificate.version = 2
      certificate.serial = 1
      certificate.subject = certificate.issuer = OpenSSL::X509::Name.parse("/CN=#{name}")
      certificate.public_key = key.public_key
      certificate.not_before = Time.now - 3_600
      certificate.not_after = Time.now + 3_600
      extensions = OpenSSL::X509::ExtensionFactory.new(certificate, certificate)
      certificate.add_extension(extensions.create_extension("subjectAltName", name))
      certificate.add_extension(extensions.create_extension("basicConstraints", "CA:TRUE", true))
      [certificate.sign(key, OpenSSL::Digest.new("SHA256")), key]
    end

    it "is verified: by the system's certificates or by those given, and the name" do
      Dir.mktmpdir do |dir|
        good = certificate("IP:127.0.0.1")
        other = certificate("DNS:other.example")
        [good, other].each_with_index { |(x509, _), i| File.write("#{dir}/#{i}.pem", x509.to_pem) }
        code = ->(options) { "e = exporter(#{options}).start; allocate(5); failure { e.push }" }
        server(tls: good)
        unknown = run(code.call("timeout: 5"), url: @server.url(scheme: "https")).value
        expect(unknown).to match([Memprofiler::PushError, /certificate verify failed/])
        expect(@server.requests).to eq([])
        expect(run(code.call("ca_file: #{"#{dir}/0.pem".dump}"), url: @server.url(scheme: "https")).value).to be(true)
        expect(made(@server.requests[0].profile)).to eq(5)
        @server.close
        server(tls: other)
        wrong = run(code.call("ca_file: #{"#{dir}/1.pem".dump}"), url: @server.url(scheme: "https")).value
        expect(wrong).to match([Memprofiler::PushError, /hostname|host name|certificate verify failed/i])
        expect(@server.requests).to eq([])
      end
    end
  end

  it "leaves what waits to the parent, where it's started anew in a child" do
    server { 503 }
    expect(run(<<~RUBY).value).to eq([[1, 1, 0], [0, 0, 0]])
      e = exporter.start
      allocate(1)
      failure { e.push }
      e.send(:instance_variable_get, :@background).stop(last: false)
      reader, writer = IO.pipe
      Process.wait(fork { e.start; writer << Marshal.dump(e.status.values_at(:queue, :failed, :dropped)); exit!(0) })
      [e.status.values_at(:queue, :failed, :dropped), Marshal.load(reader)]
    RUBY
  end

  it "pushes what waits, and what came since, from the daemon that a process becomes" do
    answers = [503]
    server { answers.shift || 200 }
    result = run(<<~RUBY)
      pid = fork do
        e = exporter.start
        allocate(100)
        failure { e.push }
        allocate(20)
        Process.daemon(true)
        allocate(3)
        e.push
        File.write("status", Marshal.dump([$$, e.status.values_at(:pushed, :queue, :dropped)]))
        exit!(0)
      end
      Process.wait(pid)
      wait_until { File.size?("status") }
      [pid, *Marshal.load(File.binread("status"))]
    RUBY
    pid, daemon, status = result.value
    expect(daemon).not_to eq(pid)
    expect(status).to eq([2, 0, 0])
    expect(pushed.map { |profile| made(profile) }).to eq([100, 100, 23]) # the first was refused
  end

  it "allocates next to nothing that is in a profile" do
    server
    run("e = exporter.start; 20.times { e.push }")
    expect(pushed.size).to be_between(19, 21)
    mine = pushed.flat_map(&:samples).select { |s| s.stack.any? { |f| f.file.match?(%r{/(?:net|uri|timeout|socket|openssl)\b}) } }
    expect(mine.sum { |s| s.values[:alloc_objects] }).to be < 20 * 20
  end

  it "loads Net::HTTP only when it's started, and leaves the program's random numbers alone" do
    server
    expect(run(<<~RUBY).value).to eq([false, true, true])
      e = exporter
      loaded = [!!defined?(Net::HTTP)]
      srand(3)
      expected = [rand, rand]
      srand(3)
      e.start
      e.send(:back_off, 1)
      [*loaded, !!defined?(Net::HTTP), [rand, rand] == expected]
    RUBY
  end

  describe "limits" do
    def apply(profile)
      bytes, _, merged, cut = Memprofiler::PyroscopeExporter::Limits.apply(profile.pprof_data)
      [Memprofiler::Profile.new(bytes), merged, cut]
    end

    def totals(profile) = Profiles::METRICS.map { |metric| profile.total(metric.to_sym) }

    it "leave alone what is within" do
      profile = Profiles.build({ ["a /a.rb:1", { "job" => "x" }] => [1, 40, 1, 40], ["b /b.rb:2", "a /a.rb:1"] => [2, 80, 0, 0] })
      limited, *counts = apply(profile)
      expect([limited.samples, counts]).to eq([profile.samples, [0, 0]])
    end

    it "make one of the smallest samples beyond 16,000, so that the totals stay" do
      stacks = (1..16_010).to_h { |i| [["f#{i} /a.rb:#{i}"], [i, i * 40, 0, 0]] }
      profile = Profiles.build(stacks)
      limited, *counts = apply(profile)
      expect([limited.samples.size, totals(limited), counts]).to eq([16_000, totals(profile), [11, 0]])
      other = limited.samples.find { |s| s.stack.map(&:function) == ["(other)"] }
      expect(other.values[:alloc_objects]).to eq((1..11).sum)
      expect(limited.model[:functions].size).to eq(16_000)
    end

    it "cut a stack beyond 1,000 frames next to its root" do
      deep = (1..1_500).map { |i| "f /a.rb:#{i}" }
      limited, *counts = apply(Profiles.build({ deep => [1, 40, 1, 40], deep.first(1_000) => [2, 80, 0, 0] }))
      stacks = limited.samples.map { |s| s.stack.map { |f| [f.function, f.line] } }
      expect(stacks.map(&:size)).to eq([1_000, 1_000])
      expect([stacks[0][0], stacks[0][-2..], stacks[1][-1]]).to eq([["f", 1], [["f", 999], ["(truncated)", 0]], ["f", 1_000]])
      expect(counts).to eq([0, 1])
    end

    it "bring down what is beyond 4 MiB unpacked" do
      stacks = (1..9_000).to_h { |i| [["#{"f" * 800}#{i} /a.rb:#{i}"], [i, i * 40, i, i]] }
      profile = Profiles.build(stacks)
      limited, merged, = apply(profile)
      size = Zlib.gunzip(limited.pprof_data).bytesize
      expect(size).to be_between(3 * 1024 * 1024, 4 * 1024 * 1024)
      expect([totals(limited), merged]).to eq([totals(profile), 9_001 - limited.samples.size])
    end
  end

  good = { url: "http://127.0.0.1:4040", app_name: "x" }
  no_url = "url must be http://HOST or https://HOST, as a String or a URI, with a port and a path if need be, and no more, not what was given, which is not shown"
  {
    { url: nil } => [TypeError, /\Aurl must be http:.*, not nil\z/],
    { url: "ftp://x" } => [ArgumentError, no_url], { url: "x:4040" } => [ArgumentError, no_url], { url: "http://" } => [ArgumentError, no_url],
    { url: "http://x/?a=1" } => [ArgumentError, no_url], { url: "http://x y" } => [ArgumentError, no_url], { url: "file:///etc/passwd" } => [ArgumentError, no_url],
    { app_name: "" } => [ArgumentError, /app_name must be a String of 1 to 200 letters.*, not ""\z/], { app_name: "a{b=c}" } => [ArgumentError, /app_name must be/], { app_name: :a } => [TypeError, /app_name must be a String/],
    { tags: [] } => [TypeError, "tags must be a Hash, not an instance of Array"], { tags: { "a-b" => 1 } } => [ArgumentError, /a tag's name must be letters, digits and _.*not "a-b"/],
    { tags: { __name__: 1 } } => [ArgumentError, /a tag's name/], { tags: { a: "b,c=d" } } => [ArgumentError, /tag a must be .* of 1 to 1000 characters of UTF-8, without .*, not "b,c=d"\z/],
    { tags: { a: "" } } => [ArgumentError, /tag a must be/], { tags: { a: " b" } } => [ArgumentError, /tag a must be/], { tags: { a: "\xFF" } } => [ArgumentError, /tag a/], { tags: { a: [] } } => [TypeError, /tag a must be a String, Symbol/],
    { every: 0 } => [ArgumentError, /every must be a number from 0.01/], { timeout: nil } => [TypeError, "timeout must be a number from 0.01 to 600, not nil"], { timeout: 0 } => [ArgumentError, /timeout must be a number from 0.01 to 600/],
    { queue: 0 } => [ArgumentError, "queue must be an Integer from 1 to 1000, not 0"], { queue: 1.0 } => [TypeError, /queue must be an Integer/],
    { username: 1 } => [TypeError, "username must be a String without a colon, or nil, not an instance of Integer"], { password: "s" } => [ArgumentError, "password needs a username"],
    { username: "a:b" } => [ArgumentError, "username must be a String without a colon, or nil, not what was given, which is not shown"], { username: "a", token: "b" } => [ArgumentError, /not both/],
    { url: "http://a:b@x", username: "c" } => [ArgumentError, /in the url already/], { token: "a\r\nb" } => [ArgumentError, "token must be a String of printable ASCII without blanks, or nil, not what was given, which is not shown"],
    { tenant: "é" } => [ArgumentError, "tenant must be a String of printable ASCII without blanks, or nil, not what was given, which is not shown"], { ca_file: 1 } => [TypeError, /ca_file must be a String or a Pathname/],
    { collector: 1 } => [TypeError, /collector must be/], { labels: :class } => [TypeError, /labels must be an Array/], { gc: 1 } => [TypeError, /gc must be true or false/]
  }.each do |options, (error, message)|
    it "refuses #{options}" do
      expect { Memprofiler::PyroscopeExporter.new(**good, **options) }.to raise_error(error, message)
    end
  end

  it "takes a URI and IPv6, and tags that replace its own or leave them out" do
    exporter = Memprofiler::PyroscopeExporter.new(url: URI("https://[::1]:4040/p/"), app_name: "a/b-c.d_e", tags: { "pid" => nil, hostname: "web 1" })
    expect(exporter.status).to include(url: "https://[::1]:4040/p/", name: "a/b-c.d_e{hostname=web 1}", running: false, queue: 0)
    expect { exporter.push }.to raise_error(Memprofiler::NotStartedError)
  end
end
