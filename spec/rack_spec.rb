# frozen_string_literal: true

require "memprofiler/rack"
require "open3"
require "rack"
require "rack/lint"
require "stringio"
require "zlib"
require_relative "support/go"
require_relative "support/profiles"
require_relative "support/server"

RSpec.describe Memprofiler::Rack do
  before { keep(1) } # what Ruby allocates when a method runs for the first time
  let!(:collector) { Memprofiler::Collector.new(interval: 1).start }
  after { collector.stop }

  # Everything goes through Rack's own checks, on both sides.
  def stack(app = ->(_) { [200, { "content-type" => "text/plain" }, ["the app"]] }, **options)
    options = { collector: collector, **options }
    Rack::Lint.new(described_class.new(Rack::Lint.new(app), **options))
  end

  LOCAL = { "REMOTE_ADDR" => "127.0.0.1", "HTTP_HOST" => "localhost:9292" }.freeze

  def get(path, app = @app ||= stack, verb: "GET", **env)
    Rack::MockRequest.new(app).request(verb, path, LOCAL.merge(env.transform_keys(&:to_s)))
  end

  def profile(answer)
    expect(answer.status).to eq(200), answer.body
    Memprofiler::Profile.new(answer.body)
  end

  def keep(count) = Array.new(count) { Object.new }

  def made_here(profile, metric)
    profile.samples.sum { |sample| sample.stack.any? { |frame| frame.function.end_with?("#keep") } ? sample.values[metric] : 0 }
  end

  # The VM's own objects (method caches and the like) come on top, now and then.
  def about(count) = a_value_between(count, count + 8)

  describe "profiles" do
    it "are the collector's, with Go's four values and headers" do
      kept = keep(100)
      answer = get("/debug/pprof/heap?gc=1")
      expect(answer.headers.to_h).to include(
        "content-type" => "application/octet-stream", "content-disposition" => 'attachment; filename="heap"',
        "x-content-type-options" => "nosniff", "cache-control" => "no-store, no-transform", "content-length" => answer.body.bytesize.to_s
      )
      heap = profile(answer)
      expect(heap.sample_types.keys).to eq(%i[alloc_objects alloc_space inuse_objects inuse_space])
      expect([made_here(heap, :alloc_objects), made_here(heap, :inuse_objects)]).to match([about(kept.size + 1)] * 2)
      expect(heap.model.values_at(:default_sample_type, :duration_nanos, :period_type)).to eq(["inuse_space", 0, %w[objects count]])
      expect(heap.labels).to eq([])
    end

    it "collects first only when asked to" do
      expect { get("/debug/pprof/heap?gc=1") }.to change { GC.stat(:major_gc_count) }.by_at_least(1)
      get("/debug/pprof/heap")
      GC.disable
      expect { get("/debug/pprof/heap?gc=0") }.not_to(change { GC.count })
    ensure
      GC.enable
    end

    it "of allocs show allocations first, and are the same else" do
      keep(10)
      allocs = profile(get("/debug/pprof/allocs"))
      expect(allocs.model.values_at(:default_sample_type, :period_type, :period)).to eq(["alloc_space", %w[objects count], 1])
      expect(made_here(allocs, :alloc_objects)).to match(about(11))
      expect(get("/debug/pprof/allocs").headers["content-disposition"]).to include("allocs")
    end

    it "of delta_heap have what was allocated since the last request for it, and what is in use" do
      kept = keep(100)
      first = profile(get("/debug/pprof/delta_heap?gc=1"))
      kept << keep(50)
      second = profile(get("/debug/pprof/delta_heap?gc=1"))
      third = profile(get("/debug/pprof/delta_heap?gc=1"))
      expect([first, second, third].map { |delta| made_here(delta, :alloc_objects) }).to match([about(101), about(51), 0])
      expect([first, second, third].map { |delta| made_here(delta, :inuse_objects) }).to match([about(101), about(152), about(152)])
      expect(second.model[:duration_nanos]).to be_positive
      expect(second.samples.flat_map { |sample| sample.values.values }).to all(be >= 0)
    end

    it "of delta_heap go to one request each, and add up, however many clients ask at once" do
      app = stack
      get("/debug/pprof/delta_heap", app)
      kept = keep(300)
      deltas = Array.new(6) { Thread.new { Array.new(3) { profile(get("/debug/pprof/delta_heap", app)) } } }.flat_map(&:value)
      expect(deltas.sum { |delta| made_here(delta, :alloc_objects) }).to match(about(kept.size + 1))
    end

    it "of delta_heap begin anew with a collector that was started anew" do
      app = stack
      get("/debug/pprof/delta_heap", app)
      collector.stop
      collector.start
      keep(5)
      expect(made_here(profile(get("/debug/pprof/delta_heap", app)), :alloc_objects)).to match(about(6))
      expect(get("/debug/pprof/", app).status).to eq(200)
    end

    it "over some seconds are the difference" do
      kept = keep(100)
      asked = Thread.new { get("/debug/pprof/heap?seconds=1&gc=1") }
      Thread.pass until asked.status == "sleep" || asked.stop?
      kept << keep(40)
      answer = asked.value
      delta = profile(answer)
      expect(answer.headers["content-disposition"]).to eq('attachment; filename="heap-delta"')
      expect(delta.model[:duration_nanos]).to be >= 1_000_000_000
      expect(delta.metadata[:difference]).to match(/of two profiles/)
      expect(made_here(delta, :alloc_objects)).to be <= 49
      expect(kept.size).to eq(101)
      expect(profile(get("/debug/pprof/allocs?seconds=1")).model[:default_sample_type]).to eq("alloc_space")
    end

    it "have the program's labels, and no classes" do
      Memprofiler.with_labels(endpoint: "posts#index") { keep(10) }
      expect(profile(get("/debug/pprof/heap")).labels).to eq([:endpoint])
    end

    it "leave out what was done for the requests, and the profiler's own frames" do
      get("/debug/pprof/allocs")
      before = collector.flush.total(:alloc_objects)
      text = get("/debug/pprof/allocs?debug=1").body
      after = collector.flush
      expect(text.lines.size).to be > 100
      expect(after.total(:alloc_objects) - before).to be < 1_500 # most of it Rack::Lint's and MockRequest's
      expect(after.samples.flat_map(&:stack).map(&:file).grep(%r{/lib/memprofiler/})).to eq([])
    end
  end

  describe "debug=1" do
    it "is Go's text, with totals in its first line" do
      kept = keep(100)
      answer = get("/debug/pprof/heap?debug=1&gc=1")
      expect(answer.headers["content-type"]).to eq("text/plain; charset=utf-8")
      lines = answer.body.lines
      expect(lines.first).to match(%r{\Aheap profile: (\d+): (\d+) \[(\d+): (\d+)\] @ heap/2\n\z})
      rows = lines.filter_map { |line| line.match(/\A(\d+): (\d+) \[(\d+): (\d+)\] @(?: 0x\h+)*\n\z/)&.captures&.map(&:to_i) }
      expect(lines.first.scan(/\d+/).first(4).map(&:to_i)).to eq(rows.transpose.map(&:sum))
      expect(lines.grep(/^#\t0x\h+\t.*#keep\t.*rack_spec\.rb:\d+$/)).not_to be_empty
      expect(answer.body).to include("# interval: 1")
      expect(kept.size).to eq(100)
    end

    it "can't be broken by a name" do
      profile = Profiles.build({ ["a\n1: 2 [3: 4] @ 0x5 /x.rb:1"] => [1, 40, 1, 40] })
      text = described_class::App.new(collector: collector) && described_class::LegacyText.of(profile).join
      expect(text.lines.grep(/\A\d/).size).to eq(1)
    end

    it "is read by pprof, which leaves the numbers as they are" do
      skip_or_fail Go::MISSING unless Go.available?
      kept = keep(300)
      text = get("/debug/pprof/heap?debug=1&gc=1").body
      Dir.mktmpdir do |dir|
        File.write(File.join(dir, "heap.txt"), text)
        raw = Go.pprof("-raw", File.join(dir, "heap.txt"))
        sums = raw[/^Samples:\n(.*?)^Locations/m, 1].scan(/^ +(\d+) +(\d+) +(\d+) +(\d+): /).map { |row| row.map(&:to_i) }.transpose.map(&:sum)
        expected = text.lines.first.scan(/\d+/).map(&:to_i)
        expect(sums).to eq(expected.values_at(2, 3, 0, 1))
      end
      expect(kept.size).to eq(300)
    end
  end

  describe "pages" do
    it "have an index with each profile, its count and how to open it" do
      ["/debug/pprof/", "/debug/pprof"].each do |path|
        answer = get(path)
        expect([answer.status, answer.headers["content-type"]]).to eq([200, "text/html; charset=utf-8"])
        %w[heap allocs delta_heap].each do |name|
          expect(answer.body).to match(%r{<a href="/debug/pprof/#{name}">#{name}</a></td><td class="n">\d+</td>})
          expect(answer.body).to include("go tool pprof http://localhost:9292/debug/pprof/#{name}<")
        end
        expect(answer.body).not_to match(/<script|<link|<img|src=/)
      end
    end

    it "link to where the app is mounted" do
      app = Rack::URLMap.new("/internal/memory" => described_class::App.new(collector: collector))
      expect(get("/internal/memory/", app).body).to include('href="/internal/memory/heap"')
      expect(profile(get("/internal/memory/heap", app)).period).to eq(1)
      expect(get("/internal/memory/debug/pprof/heap", app).status).to eq(200)
      expect(get("/internal/memory/other", app).status).to eq(404)
    end

    it "escape what comes from outside" do
      answer = get("/debug/pprof/", described_class::App.new(collector: collector, permit: ->(_) { true }), HTTP_HOST: "<b>\"'&")
      expect(answer.body).to include("go tool pprof http://%3Cb%3E%22%27%26/debug/pprof/heap<").and not_include("<b>")
    end

    it "show a table, by whatever is asked for" do
      keep(10)
      expect(get("/debug/pprof/top").body).to include("Top retainers by line")
      expect(get("/debug/pprof/top?metric=alloc_objects&by=class&n=1000").body).to match(/ Object$/)
      Memprofiler.with_labels(endpoint: "<i>") { keep(3) }
      expect(get("/debug/pprof/top?metric=alloc_objects&by=label:endpoint").body).to include("&lt;i&gt;").and not_include("<i>")
      answers = %w[metric=x by=y by=label:none sort=z n=0 n=a].map { |query| get("/debug/pprof/top?#{query}") }
      expect(answers.map(&:status)).to eq([400] * 6)
    end

    it "say how many samples there are, and how far figures may be off, as the text for pprof does" do
      sampling = Memprofiler::Collector.new(interval: 10, seed: 1).start
      kept = keep(4_000)
      app = described_class::App.new(collector: sampling)
      graph, table, text = %w[flamegraph?metric=alloc_objects&gc=1 top?metric=alloc_objects heap?debug=1].map { |page| get("/debug/pprof/#{page}", app).body }
      sampling.stop
      objects, error, samples = graph.match(%r{ (\d+) objects in all, \+/- ([\d.]+)% \(95 %\), on (\d+) samples\.}).captures
      expect(objects.to_i).to eq(samples.to_i * 10).and be_between(3_400, 9_900)
      expect(error.to_f).to be_within(0.1).of(196 * Math.sqrt((0.9 / samples.to_f) + (1.92 * ((0.9 / samples.to_f)**2))))
      expect(graph).to match(%r{#keep\n[^"]*rack_spec.rb:\d+\n\d+ objects, \d\d\.\d%, \+/- \d+\.\d% \(95 %\), on \d+ samples"})
      expect(table).to match(%r{^samples: \d+ of allocations, .*\nerror \(95 %\): alloc_objects \+/- \d+\.\d%,}).and include("+/-  samples  line")
      expect(text).to match(%r{^# samples: \d+ of allocations, .*\n# error \(95 %\): alloc_objects \+/- \d+\.\d%,})
      expect(get("/debug/pprof/flamegraph?metric=alloc_objects").body).to match(/[\d.]+(?: k)? objects in all, exactly\./)
      expect(kept.size).to eq(4_000)
    end

    it "show a flame graph that loads nothing from elsewhere" do
      kept = keep(1000)
      answer = get("/debug/pprof/flamegraph?metric=alloc_objects&gc=1")
      expect(answer.body).to match(/<div title="[^"]*#keep\n[^"]*rack_spec.rb:\d+\n[^"]*"/)
      expect(answer.body).not_to match(/<script|<link|<img|src=|https?:/)
      expect(answer.headers["content-security-policy"]).to include("default-src 'none'")
      expect(kept.size).to eq(1000)
    end
  end

  it "says the command line, separated by NUL" do
    answer = get("/debug/pprof/cmdline")
    expect(answer.body.split("\0")).to eq([$PROGRAM_NAME, *ARGV].map(&:b))
    expect(answer.headers["content-type"]).to eq("text/plain; charset=utf-8")
  end

  it "leaves all other requests to the app" do
    ["/", "/debug", "/debug/pprofx", "/debug/pprof.html", "/x/debug/pprof/heap", "/debug/ppro"].each do |path|
      expect([path, get(path).body]).to eq([path, "the app"])
    end
    env = Rack::MockRequest.env_for("/anything")
    app = ->(given) { [200, { "a" => given.equal?(env).to_s }, []] }
    expect(described_class.new(app, collector: collector).call(env)[1]).to eq("a" => "true")
    failing = described_class.new(->(_) { raise "the app's own" }, collector: collector)
    expect { failing.call(env) }.to raise_error("the app's own")
  end

  it "can be at another path" do
    app = stack(path: "/memory")
    expect(get("/memory/heap", app).status).to eq(200)
    expect(get("/debug/pprof/heap", app).body).to eq("the app")
  end

  describe "bad input" do
    {
      "/debug/pprof/heap?seconds=abc" => [400, "invalid value for \"seconds\": must be a positive integer, at most 300"],
      "/debug/pprof/heap?seconds=0" => [400, "invalid value for \"seconds\""],
      "/debug/pprof/heap?seconds=-1" => [400, "invalid value for \"seconds\""],
      "/debug/pprof/heap?seconds=99999" => [400, "at most 300"],
      "/debug/pprof/heap?seconds=301" => [400, "at most 300"],
      "/debug/pprof/heap?seconds=1.5" => [400, "invalid value for \"seconds\""],
      "/debug/pprof/heap?seconds=#{"9" * 400}" => [400, "invalid value for \"seconds\""],
      "/debug/pprof/heap?seconds=%0A1" => [400, "invalid value for \"seconds\""],
      "/debug/pprof/heap?seconds=%FF" => [400, "seconds is not UTF-8"],
      "/debug/pprof/heap?seconds=1&debug=1" => [400, "seconds and debug are not both possible"],
      "/debug/pprof/heap?gc=yes" => [400, "invalid value for \"gc\": must be 0 or 1"],
      "/debug/pprof/heap?debug=x" => [400, "invalid value for \"debug\""],
      "/debug/pprof/delta_heap?seconds=1" => [400, "seconds is for heap and allocs"],
      "/debug/pprof/profile" => [404, "Unknown profile: there are /debug/pprof/heap, "],
      "/debug/pprof/heap/" => [404, "Unknown profile"],
      "/debug/pprof//heap" => [404, "Unknown profile"],
      "/debug/pprof/%00" => [404, "Unknown profile"]
    }.each do |path, (status, message)|
      it "#{path[0, 60]} is answered by #{status}" do
        answer = get(path)
        expect([answer.status, answer.body]).to match([status, a_string_including(message)])
        expect(answer.headers.to_h).to include("content-type" => "text/plain; charset=utf-8", "x-go-pprof" => "1",
                                               "x-content-type-options" => "nosniff", "cache-control" => "no-store")
      end
    end

    it "a query that is not well encoded is answered by 400" do
      answer = get("/debug/pprof/heap", QUERY_STRING: "seconds=%")
      expect([answer.status, answer.body]).to eq([400, "the query is not well encoded\n"])
    end

    it "other methods are answered by 405" do
      %w[POST PUT DELETE PATCH OPTIONS].each do |verb|
        answer = get("/debug/pprof/heap", verb: verb)
        expect([answer.status, answer.headers["allow"], answer.headers["x-go-pprof"]]).to eq([405, "GET, HEAD", "1"])
      end
    end

    it "HEAD has the headers, no body, and changes nothing" do
      get("/debug/pprof/delta_heap")
      keep(5)
      flushes = collector.stats[:flushes]
      ["heap", "allocs", "heap?seconds=300", "delta_heap", "heap?debug=1", "top", "flamegraph", "", "cmdline"].each do |page|
        answer = get("/debug/pprof/#{page}", verb: "HEAD")
        expect([page, answer.status, answer.body]).to eq([page, 200, ""])
      end
      expect(collector.stats[:flushes]).to eq(flushes)
      expect(made_here(profile(get("/debug/pprof/delta_heap")), :alloc_objects)).to match(about(6))
      expect(get("/debug/pprof/heap?seconds=0", verb: "HEAD").then { |answer| [answer.status, answer.body] }).to eq([400, ""])
    end

    it "a collector that does not run is answered by 503, and the index says so" do
      app = stack
      collector.stop
      %w[heap allocs delta_heap top flamegraph heap?seconds=1].each do |page|
        expect([page, get("/debug/pprof/#{page}", app).then { |answer| [answer.status, answer.body] }])
          .to eq([page, [503, "the collector does not run: it was never started, or was stopped\n"]])
      end
      expect(get("/debug/pprof/", app).then { |answer| [answer.status, answer.body] }).to match([200, /No profiles: the collector does not run/])
      never = stack(collector: Memprofiler::Collector.new)
      expect(get("/debug/pprof/heap", never).status).to eq(503)
    end

    it "a collector that stops, or is started anew, while a request waits is answered by 503" do
      [[:stop, "the collector was stopped meanwhile\n"], [:itself, "the collector was started anew meanwhile\n"]].each do |last, message|
        collector.start unless collector.running?
        app = stack
        before = collector.stats[:flushes]
        asked = Thread.new { get("/debug/pprof/heap?seconds=1", app) }
        Thread.pass until collector.stats[:flushes] > before
        collector.stop
        collector.start
        collector.public_send(last)
        expect(asked.value.then { |answer| [answer.status, answer.body] }).to eq([503, message])
      end
    end

    it "one more waiting request than there may be is answered by 429, and others go on" do
      app = stack(max_waiting: 1)
      before = collector.stats[:flushes]
      asked = Thread.new { get("/debug/pprof/heap?seconds=2", app) }
      Thread.pass until collector.stats[:flushes] > before
      answer = get("/debug/pprof/allocs?seconds=2", app)
      expect(answer.status).to eq(429)
      expect(answer.body).to match(/\A1 request with "seconds" already waiting, which is all there may be: try again in [12] s\n\z/)
      expect(answer.headers.to_h).to include("retry-after" => a_string_matching(/\A[12]\z/), "x-go-pprof" => "1")
      expect([get("/debug/pprof/heap", app).status, get("/", app).body, asked.alive?]).to eq([200, "the app", true])
      expect(asked.value.status).to eq(200)
      expect(get("/debug/pprof/heap?seconds=1", app).status).to eq(200)
    end

    # At any line of what a request does: who ends its thread ends it, and no place is lost.
    it "a request whose thread is killed is over, and leaves its place to others" do
      app = described_class::App.new(collector: collector, max_waiting: 1)
      [["rack/scrape.rb", ""], ["rack/waiting.rb", "/heap?seconds=1"]].each do |file, path|
        1.step do |nth|
          left = nth
          kill = TracePoint.new(:line, :c_return) { |at| at.path.end_with?(file) && (left -= 1).zero? && Thread.current.kill }
          ended = Thread.new { kill.enable(target_thread: Thread.current) { get("/debug/pprof#{path}", app) } }.value.nil?
          break unless left <= 0

          expect(ended).to be(true)
        end
      end
      expect(get("/debug/pprof/heap?seconds=1", app).status).to eq(200)
    end

    it "an error inside is answered by 500, and told to the log only" do
      app = stack
      allow(collector).to receive(:flush).and_raise(NoMemoryError, "secret")
      answer = get("/debug/pprof/heap", app, "rack.errors": (errors = StringIO.new))
      expect([answer.status, answer.body, answer.headers["x-go-pprof"]]).to eq([500, "memprofiler: NoMemoryError\n", "1"])
      expect(errors.string).to match(/NoMemoryError: secret\n  /)
    end
  end

  describe "who may" do
    def status(env, app = @app ||= stack)
      get("/debug/pprof/heap", app, **env).status
    end

    it "is this machine, by any of its addresses and names" do
      ["127.0.0.1", "127.8.9.10", "::1", "0:0:0:0:0:0:0:1", "::ffff:127.0.0.1"].each do |address|
        expect([address, status({ REMOTE_ADDR: address })]).to eq([address, 200])
      end
      ["localhost", "127.0.0.1:80", "[::1]:9292", "LOCALHOST", "app.localhost:1", nil, ""].each do |host|
        env = Rack::MockRequest.env_for("/debug/pprof/heap", "REMOTE_ADDR" => "::1").merge("HTTP_HOST" => host).compact
        expect([host, described_class::App.new(collector: collector).call(env)[0]]).to eq([host, 200])
      end
    end

    it "is nobody else" do
      ["10.0.0.1", "128.0.0.1", "1127.0.0.1", "127.0.0.1.evil", "::2", "::ffff:10.0.0.1", "fe80::1", "", "unix", "127.0.0.1\nx"].each do |address|
        expect([address, status({ REMOTE_ADDR: address })]).to eq([address, 403])
      end
      answer = get("/debug/pprof/heap", REMOTE_ADDR: "10.0.0.1")
      expect(answer.body).to eq("Forbidden: profiles are for requests from this machine. " \
                                "Say who may with Memprofiler::Rack's option permit: ->(env) { ... }\n")
      expect(answer.headers["x-go-pprof"]).to eq("1")
      expect(get("/debug/pprof/none", REMOTE_ADDR: "10.0.0.1").status).to eq(403)
      env = Rack::MockRequest.env_for("/debug/pprof/heap").tap { |without| without.delete("REMOTE_ADDR") }
      expect(described_class::App.new(collector: collector).call(env)[0]).to eq(403)
    end

    it "is never decided by a header in favour of who sends it" do
      %w[HTTP_X_FORWARDED_FOR HTTP_FORWARDED HTTP_X_REAL_IP HTTP_CLIENT_IP HTTP_X_CLIENT_IP HTTP_TRUE_CLIENT_IP].each do |header|
        ["127.0.0.1", "for=127.0.0.1", "::1"].each do |value|
          expect([header, status({ REMOTE_ADDR: "10.0.0.1", header => value })]).to eq([header, 403])
          expect([header, status({ header => value })]).to eq([header, 403]) # it came by a proxy
        end
      end
      expect(status({ HTTP_X_FORWARDED_HOST: "localhost" })).to eq(403)
      expect(status({ HTTP_VIA: "1.1 proxy" })).to eq(403)
    end

    it "is no page that was led here by a name, or of another site" do
      ["evil.example", "evil.example:9292", "localhost.evil.example", "127.0.0.1.evil.example", "evil.example#localhost", "notlocalhost",
       "192.168.0.1", "localhost:80\n.evil"].each do |host|
        expect([host, status({ HTTP_HOST: host }, described_class::App.new(collector: collector))]).to eq([host, 403])
      end
      expect(status({ HTTP_SEC_FETCH_SITE: "cross-site" })).to eq(403)
      expect(status({ HTTP_SEC_FETCH_SITE: "none" })).to eq(200)
    end

    it "is decided by permit alone, if that is given" do
      app = stack(permit: ->(env) { env["HTTP_AUTHORIZATION"] == "Bearer abc" })
      expect(status({ REMOTE_ADDR: "10.0.0.1", HTTP_HOST: "app.example", HTTP_AUTHORIZATION: "Bearer abc" }, app)).to eq(200)
      expect(status({}, app)).to eq(403)
      failing = stack(permit: ->(_) { raise KeyError, "secret" })
      expect(get("/debug/pprof/heap", failing, "rack.errors": StringIO.new).then { |answer| [answer.status, answer.body] })
        .to eq([500, "memprofiler: KeyError\n"])
    end
  end

  describe "options" do
    {
      { path: "debug" } => [ArgumentError, "path must be a String such as \"/debug/pprof\", of letters, digits, -, ., _ and ~, without a / at its end, not \"debug\""],
      { path: "/" } => [ArgumentError, /\Apath must be/], { path: "/a/" } => [ArgumentError, /\Apath must be/],
      { path: "" } => [ArgumentError, /\Apath must be/], { path: :a } => [TypeError, /\Apath must be .* not :a\z/],
      { max_seconds: 0 } => [ArgumentError, "max_seconds must be an Integer from 1 to 86400, not 0"],
      { max_seconds: 1.5 } => [TypeError, "max_seconds must be an Integer from 1 to 86400, not 1.5"],
      { max_waiting: 1001 } => [ArgumentError, "max_waiting must be an Integer from 1 to 1000, not 1001"],
      { permit: false } => [TypeError, /\Apermit must be a callable, .*, or nil, not false\z/],
      { permit: true } => [TypeError, "permit must be a callable, which is given the env and says whether the request is allowed, or nil, not true"],
      { collector: 1 } => [TypeError, "collector must be a Memprofiler::Collector, or nil for the process' own, not 1"],
      { start: 512 } => [TypeError, "start must be a Hash of Collector.new's options, such as { interval: 512 }, not 512"],
      { start: { interval: 1 } } => [ArgumentError, "start must not be given with a collector: it's for the process' own"],
      { label: "x" } => [TypeError, "label must be true, nil, or a callable, which is given the env and returns a name or nil, not \"x\""],
      { max_endpoints: 0 } => [ArgumentError, "max_endpoints must be an Integer from 1 to 10000, not 0"],
      { nonsense: 1 } => [ArgumentError, /unknown keyword: :nonsense/]
    }.each do |options, (error, message)|
      it "#{options.inspect[0, 60]} is refused" do
        expect { stack(**options) }.to raise_error(error, message)
      end
    end

    it "refuse an app that is none, and a collector's option that isn't allowed" do
      expect { described_class.new(nil, collector: collector) }.to raise_error(TypeError, "app must be a Rack app, which responds to call, not nil")
      expect { stack(collector: nil, start: { interval: 0 }) }.to raise_error(ArgumentError, /\Ainterval must be/)
    end

    it "start the process' own collector, unless it runs" do
      answer = Child.value(<<~RUBY)
        require "memprofiler/rack"
        app = ->(_) { [200, {}, []] }
        Memprofiler::Rack.new(app, start: { interval: 7 })
        first = Memprofiler.collector
        Memprofiler::Rack::App.new
        other = begin
          Memprofiler::Rack.new(app, start: { interval: 8 })
        rescue Memprofiler::AlreadyStartedError => e
          e.message
        end
        env = { "REQUEST_METHOD" => "GET", "PATH_INFO" => "/debug/pprof/heap", "REMOTE_ADDR" => "127.0.0.1", "QUERY_STRING" => "" }
        serving = Memprofiler::Rack.new(app)
        running = serving.call(env)[0]
        Memprofiler.stop
        stopped = serving.call(env)
        Memprofiler.start
        [first.stats[:interval], Memprofiler.collector.equal?(first), other, running, stopped[0], stopped[2].join, serving.call(env)[0]]
      RUBY
      expect(answer).to eq([7, false, "the process' collector runs already, with interval: 7, not interval: 8", 200, 503,
                            "the collector was stopped: Memprofiler.start starts it anew\n", 200])
    end

    it "of a Ruby that can't be profiled leave the app alone" do
      answer = Child.ruby(<<~RUBY)
        require "memprofiler/rack"
        def Memprofiler.start(**) = raise(Memprofiler::Error, "not on this Ruby")
        app = Memprofiler::Rack.new(->(_) { [200, {}, ["the app"]] })
        env = { "REQUEST_METHOD" => "GET", "REMOTE_ADDR" => "127.0.0.1", "QUERY_STRING" => "" }
        [app.call(env.merge("PATH_INFO" => "/"))[2], app.call(env.merge("PATH_INFO" => "/debug/pprof/heap")).values_at(0, 2)]
      RUBY
      expect(answer.value).to eq([["the app"], [503, ["the collector could not be started: not on this Ruby\n"]]])
      expect(answer.err).to include("memprofiler: the collector can't be started: not on this Ruby")
    end
  end

  describe "labels" do
    def endpoints(*paths, **options)
      app = stack(->(_) { keep(10) && [200, { "content-type" => "text/plain" }, []] }, **options)
      paths.each { |path| get(path, app) }
      collector.flush.samples.each_with_object(Hash.new(0)) do |sample, sums|
        if sample.stack.any? { |frame| frame.function.end_with?("#keep") }
          sums[sample.labels["endpoint"]] += sample.values[:alloc_objects]
        end
      end
    end

    it "are none unless asked for" do
      expect(endpoints("/posts")).to match(nil => about(11))
    end

    it "are the path with its ids left out" do
      paths = %w[/posts /posts/1 /posts/234/comments/5.json /users/0d1f6b1c-5d5a-4a5e-9c4f-0123456789ab /blobs/da39a3ee5e6b4b0d3255bfef95601890afd80709 /v2/decades]
      names = ["/posts", "/posts/:id", "/posts/:id/comments/:id.json", "/users/:id", "/blobs/:id", "/v2/decades"]
      expect(endpoints(*paths, label: true)).to match(names.to_h { |name| ["GET #{name}", about(11)] })
    end

    it "are what a callable says, if it says anything" do
      names = { "/a" => :a, "/b" => "b", "/c" => nil, "/d" => 5, "/e" => false }
      expect(endpoints(*names.keys, label: ->(env) { names[env["PATH_INFO"]] })).to match("a" => about(11), "b" => about(11), nil => about(22), "5" => about(11))
    end

    it "of a callable that fails are none, which is said once, and the app is called once" do
      expect { expect(endpoints("/a", "/b", label: ->(_) { raise KeyError, "mine" })).to match(nil => about(22)) }
        .to output("memprofiler: the label of requests: KeyError: mine (said once; requests go on without)\n").to_stderr
    end

    # A stand-in with the four things of Rails that are relied upon. (A real one: rails_spec.rb.)
    it "are set where a controller's action begins, where there are controllers" do
      answer = Child.value(<<~RUBY)
        require "memprofiler/rack"
        Request = Struct.new(:env) do
          def get_header(name) = env[name]
        end
        module ActionController
          class Base
            attr_accessor :request
            def self.controller_path = "posts"
            def available_action?(name) = name == "index"
            def process(action, *words) = [action, words, Memprofiler.labels]
          end
        end
        module ActiveSupport
          def self.on_load(name, &block) = name == :action_controller && ActionController::Base.class_eval(&block)
        end
        class Admin < ActionController::Base
          def self.controller_path = "admin/posts"
        end
        app = lambda do |env|
          controller = [ActionController::Base.new, Admin.new]
          controller.each { |one| one.request = Request.new(env) }
          [200, {}, [Memprofiler.labels, *controller.map { |one| one.process(:index, 1) }, controller[0].process("none")]]
        end
        labelled = Memprofiler::Rack.new(app, collector: Memprofiler::Collector.new, label: true)
        plain = Memprofiler::Rack.new(app, collector: Memprofiler::Collector.new)
        [labelled, plain].map { |stack| stack.call("PATH_INFO" => "/posts/1")[2] }
      RUBY
      posts, admin = %w[posts#index admin/posts#index].map { |name| [:index, [1], { endpoint: name }] }
      none = ["none", [], {}]
      expect(answer).to eq([[{}, posts, admin, none], [{}, [:index, [1], {}], [:index, [1], {}], none]])
    end

    it "of more names than there may be are (other)" do
      expect(endpoints("/a", "/b", "/c", "/a", "/d", label: true, max_endpoints: 2)).to match("GET /a" => about(22), "GET /b" => about(11), "(other)" => about(22))
    end
  end

  describe "servers" do
    CONFIG = <<~'RUBY'
      require "memprofiler/rack"
      require "rack/lint"
      require "rack/deflater"
      KEPT = []
      class Shop
        def self.leak
          100.times { KEPT << Object.new }
        end

        def self.work(count)
          count.times { |i| "garbage #{i}" }
        end
      end
      use Rack::Deflater
      use Rack::Lint
      use Memprofiler::Rack, start: { interval: 1 }, label: true
      use Rack::Lint
      run(lambda do |env|
        marker = "Object" # one String; a constant or call would bring the VM's caches for it, anew after each load
        Shop.work(2_000)
        Shop.leak if env["PATH_INFO"] == "/leak"
        [200, { "content-type" => "text/plain" }, [marker]]
      end)
    RUBY
    LEAK = CONFIG.lines.index { |line| line.include?("100.times") } + 1
    MARKER = CONFIG.lines.index { |line| line.include?("marker = ") } + 1

    # Requests without end, by several clients, until the block has its answer. (Not packed: see Server#load.)
    def under_load(server, path, clients: 3)
      done = false
      threads = Array.new(clients) { Thread.new { server.get(path, { "accept-encoding" => "identity" }) until done } }
      yield
    ensure
      done = true
      threads.each(&:join)
    end

    def line(profile, metric, number)
      profile.top(metric, by: :line).find { |row| row.name.end_with?("config.ru:#{number}") }&.flat.to_i
    end

    it "Puma serves profiles to several clients at once, in which a leak of 100 objects a request stands out" do
      Server.run(CONFIG) do |server|
        expect(server.get("/").body).to eq("Object")
        # From ?seconds= alone: Ruby has collected by itself in between.
        delta = under_load(server, "/leak") do
          others = Array.new(4) { |i| Thread.new { server.get("/debug/pprof/#{%w[heap allocs delta_heap heap?debug=1][i]}") } }
          answer = server.get("/debug/pprof/heap?seconds=3")
          expect(others.map { |thread| thread.value.code }).to eq(["200"] * 4)
          profile = Memprofiler::Profile.new(answer.body)
          expect(profile.model[:duration_nanos]).to be >= 3_000_000_000
          profile
        end
        first = delta.top(:inuse_objects, by: :line).first
        expect(first.name).to end_with("config.ru:#{LEAK}")
        requests = line(delta, :alloc_objects, MARKER)
        expect(requests).to be > 3
        # Some requests were under way at the beginning, or at the end.
        expect(line(delta, :alloc_objects, LEAK)).to be_within(350).of(100 * requests)
        expect(delta.top(:inuse_objects, by: "label:endpoint").first.name).to eq("GET /leak")

        kept = under_load(server, "/leak") { Memprofiler::Profile.new(server.get("/debug/pprof/heap?seconds=2&gc=1").body) }
        expect(line(kept, :inuse_objects, LEAK)).to be_within(350).of(line(kept, :alloc_objects, LEAK))
        none = under_load(server, "/") { Memprofiler::Profile.new(server.get("/debug/pprof/heap?seconds=1&gc=1").body) }
        expect(line(none, :inuse_objects, LEAK)).to eq(0)
      end
    end

    it "Puma behind a deflater serves what isn't packed twice, to whoever takes gzip and who doesn't" do
      Server.run(CONFIG) do |server|
        plain = server.get("/debug/pprof/heap", { "accept-encoding" => "identity" })
        packed = server.get("/debug/pprof/heap", { "accept-encoding" => "gzip" })
        expect([plain, packed].map { |answer| [answer.code, answer["content-encoding"]] }).to eq([["200", nil]] * 2)
        expect(Memprofiler::Profile.new(packed.body).period).to eq(1)
        index = server.get("/debug/pprof/", { "accept-encoding" => "gzip" })
        expect(index["content-encoding"]).to eq("gzip")
        expect(Zlib.gunzip(index.body)).to include("go tool pprof http://127.0.0.1:#{server.port}/debug/pprof/heap")
        head = server.get("/debug/pprof/heap", {}, verb: :Head)
        expect([head.code, head["content-type"], head.body]).to eq(["200", "application/octet-stream", nil])
        expect(server.get("/debug/pprof/heap", {}, verb: :Delete).code).to eq("405")
        expect(server.get("/debug/pprof/heap", { "host" => "evil.example" }).code).to eq("403")
        expect(server.get("/debug/pprof/heap", { "x-forwarded-for" => "127.0.0.1" }).code).to eq("403")
        expect(server.get("/debug/pprof/cmdline").body).to include("config.ru")
        expect(server.log).not_to match(/Error/)
      end
    end

    it "rackup serves the app alone" do
      config = "require 'memprofiler/rack'\nrun Memprofiler::Rack::App.new\n"
      Server.run(config, gem: "rackup", arguments: ["-s", "puma", "-o", "127.0.0.1", "-p", "PORT"]) do |server|
        expect(Memprofiler::Profile.new(server.get("/debug/pprof/heap").body).period).to eq(512)
        expect(server.get("/").then { |answer| [answer.code, answer.body] }).to eq(["404", "Nothing here: profiles are at /debug/pprof/\n"])
      end
    end

    it "go tool pprof fetches, and prints our errors" do
      skip_or_fail Go::MISSING unless Go.available?
      Server.run(CONFIG) do |server|
        20.times { server.get("/leak") }
        heap = Go.pprof("-top", "-sample_index=inuse_objects", server.url("/debug/pprof/heap?gc=1")).force_encoding("UTF-8")
        expect(heap).to match(/^Type: inuse_objects\n/).and match(/^ +\d+ +\S+% +\S+% +20\d\d +\S+% +Shop\.leak$/)
        expect(Go.pprof("-top", server.url("/debug/pprof/allocs"))).to include("Type: alloc_space")
        delta = under_load(server, "/leak") { Go.pprof("-top", "-sample_index=alloc_objects", server.url("/debug/pprof/heap?seconds=1")) }
        expect(delta).to match(/Shop\.leak$/).and match(/^Duration: \d/)
        expect(Go.pprof("-raw", "-symbolize=none", server.url("/debug/pprof/heap?debug=1"))).to include("inuse_space/bytes")
        _, error, status = Open3.capture3("go", "tool", "pprof", "-top", server.url("/debug/pprof/heap?seconds=0"))
        expect(error).to include("400 Bad Request").and include("invalid value for \"seconds\": must be a positive integer, at most 300")
        expect(status.success?).to be(false)
      end
    end
  end
end

RSpec::Matchers.define_negated_matcher :not_include, :include
