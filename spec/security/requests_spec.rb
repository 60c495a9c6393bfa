# frozen_string_literal: true

require "memprofiler/rack"
require "nokogiri"
require "rack"
require "rack/lint"
require "stringio"
require_relative "../support/child"
require_relative "../support/profiles"

# What comes with a request, or from a program's names, and what a browser and a terminal get to see of it.
RSpec.describe "Memprofiler::Rack before strangers" do
  let!(:collector) { Memprofiler::Collector.new(interval: 1).start }
  after { collector.stop }

  PAGES_OF_RACK = ["", "/", "/heap", "/allocs", "/delta_heap", "/cmdline", "/top", "/flamegraph", "/heap?debug=1", "/none", "/heap?seconds=x"].freeze
  # Commands of a terminal (ESC, and C1's CSI), text turned round, invisible text, a line's end
  EVIL = "\e]0;title\a\u009B31m\u202Egnp.\u2066\u200B\u{E0041}\r\n\u2028"
  UNSAFE = /[\u0000-\u0008\u000B-\u001F\u007F-\u009F\u200B-\u200F\u2028-\u202E\u2060-\u206F\u{E0000}-\u{E007F}]/

  def app(**options) = @app ||= Memprofiler::Rack::App.new(collector: collector, **options)

  def call(path, app: app(), **env)
    path, query = path.split("?", 2)
    given = { "REQUEST_METHOD" => "GET", "REMOTE_ADDR" => "127.0.0.1", "HTTP_HOST" => "localhost:9292", "SCRIPT_NAME" => "", "rack.url_scheme" => "http",
              "rack.errors" => @errors ||= StringIO.new, "PATH_INFO" => "/debug/pprof#{path}", "QUERY_STRING" => query.to_s }
    status, headers, body = app.call(given.merge(env.transform_keys(&:to_s)))
    [status, headers, body.to_a.join]
  end

  # A page without scripts, handlers or addresses of elsewhere, and with no character that isn't to be seen
  def expect_harmless(html)
    expect(html).to be_valid_encoding
    expect(html).not_to match(UNSAFE)
    page = Nokogiri::HTML(html)
    expect(page.css("*").map(&:name).uniq - %w[html head meta title style body h1 p table tr th td a code pre div br]).to eq([])
    expect(page.xpath("//@*").map(&:name).uniq - %w[lang charset href class style title]).to eq([])
    expect(page.css("a").map { |link| link["href"] }).to all(match(%r{\A/(?![/\\])}))
    expect(page.css("[style]").map { |box| box["style"] }).to all(match(/\A[a-z0-9:;%.,()]+\z/))
    page
  end

  describe "headers" do
    it "let no browser guess a type, keep an answer, or give it to another site's page" do
      PAGES_OF_RACK.each do |path|
        [{}, { REMOTE_ADDR: "10.0.0.1" }, { REQUEST_METHOD: "HEAD" }, { REQUEST_METHOD: "POST" }].each do |env|
          status, headers, = call(path, **env)
          expect([path, status, headers]).to match([path, status, include("x-content-type-options" => "nosniff", "cross-origin-resource-policy" => "same-origin")])
          expect(headers["cache-control"]).to start_with("no-store")
          expect(headers.keys.grep(/access-control|set-cookie/i)).to eq([])
          expect(headers.to_a.join).not_to match(/[\r\n]/)
          policy = headers["content-security-policy"]
          expect(policy.nil?).to be(headers["content-type"] != "text/html; charset=utf-8")
          if policy
            expect(policy).to include("default-src 'none'", "base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'")
          end
          expect(policy.to_s).not_to include("script-src")
        end
      end
    end
  end

  describe "words of the request" do
    EVIL_WORDS = ["<script>alert(1)</script>", "\"'><img src=x onerror=alert(1)>", "javascript:alert(1)", "//evil.example", "/", "//", "/\\evil.example", "\\\\evil.example", "/\t/evil.example", "'; touch evil; '", "$(touch evil)`touch evil`",
                  "a\r\nSet-Cookie: a=b", EVIL, "\xFF\xFE\x80".b, "\0", "x" * 10_000, "utf16".encode("UTF-16LE"), "utf32".encode("UTF-32BE"), "é".encode("ISO-8859-1")].freeze

    it "come back harmless, whatever they are, or not at all" do
      EVIL_WORDS.each do |word|
        { HTTP_HOST: word, SCRIPT_NAME: word, PATH_INFO: word, QUERY_STRING: word, REQUEST_METHOD: word, "rack.url_scheme": word }.each do |name, value|
          ["", "/top", "/flamegraph", "/none"].each do |page|
            path = "/debug/pprof#{page}"
            env = { PATH_INFO: path, name => value }
            status, headers, body = call("", app: app(permit: ->(_) { true }), **env)
            expect([name, word, status]).to match([name, word, be_between(200, 499)])
            expect(headers.to_a.join).not_to match(/[\r\n]/)
            html = headers["content-type"].start_with?("text/html")
            html ? expect_harmless(body) : expect(body.dup.force_encoding("UTF-8")).to(be_valid_encoding.and(satisfy { |text| !text.chomp.match?(/#{UNSAFE}|\n/) }))
          end
        end
      end
      expect(@errors.string).to eq("")
    end

    it "come back harmless where they name a label" do
      EVIL_WORDS.each do |word|
        query = "by=#{URI.encode_www_form_component("label:#{word.b}")}"
        status, headers, body = call("/top?metric=alloc_space&#{query}")
        expect([word, status, headers["content-type"]]).to eq([word, 400, "text/plain; charset=utf-8"])
        expect(body).to be_valid_encoding
        expect(body.chomp).not_to match(/#{UNSAFE}|\n/)
      end
    end

    it "are no words for a shell where a command is to be copied" do
      _, _, body = call("/", app: app(permit: ->(_) { true }), HTTP_HOST: "a'; touch evil; '$(x)`y`&|<>\\", SCRIPT_NAME: "/$(z) ")
      commands = Nokogiri::HTML(body).css("code").map(&:text).grep(/\Ago tool/)
      expect(commands.size).to eq(4)
      expect(commands.map { |command| command.sub(/'(\S*)'\z/) { $1.tr("?&", "") } }).to all(match(%r{\Ago tool pprof (?:-sample_index=inuse_space )?[A-Za-z0-9._~:/%=-]+\z}))
    end

    it "go harmless to the log, where a callable that labels requests has them in its error, and each request goes on" do
      [EVIL, "a\r\nforged: line", "\xFF\x9B31m".b, "utf16\n".encode("UTF-16LE"), nil, Object.new].each do |word|
        error = Class.new(StandardError) do
          define_method(:message) { word }
          def self.name = "Evil\e[2J"
          def self.to_s = name
        end
        middleware = Memprofiler::Rack.new(->(_) { [200, {}, ["mine"]] }, collector: collector, label: ->(_) { raise error })
        answers = nil
        log = StringIO.new
        before = $stderr
        begin
          $stderr = log
          answers = Array.new(2) { middleware.call({ "PATH_INFO" => "/a", "REQUEST_METHOD" => "GET" })[2] }
        ensure
          $stderr = before
        end
        expect(answers).to eq([["mine"], ["mine"]])
        said = log.string.dup.force_encoding("UTF-8")
        expect(said).to be_valid_encoding.and(match(/\Amemprofiler: the label of requests: .*\(said once; requests go on without\)\n\z/))
        expect(said.chomp).not_to match(/#{UNSAFE}|\n/)
      end
    end

    it "in other encodings reach the app as they are, be there labels or not" do
      ["/debug/pprof/heap".encode("UTF-16LE"), "/x".encode("UTF-16BE"), "/x".encode("UTF-32LE"), "/\xFF".b, nil].each do |path|
        [nil, true].each do |label|
          middleware = Memprofiler::Rack.new(->(env) { [200, {}, [env["PATH_INFO"].equal?(path)]] }, collector: collector, label: label)
          expect(middleware.call({ "PATH_INFO" => path, "REQUEST_METHOD" => "GET" })[2]).to eq([true])
        end
      end
    end
  end

  describe "names of the program" do
    NAMES = ["<script>alert(1)</script>", "\"'><img src=x onerror=alert(1)>", "#{EVIL}x", "\u202E\u0007", "a&amp;b"].freeze

    it "are text in each page, on one line" do
      kept = NAMES.map do |name|
        Memprofiler.with_labels("l" => name) { eval("Array.new(10) { Object.new }", binding, "/#{name}.rb", 1) }
      end
      ["/top?metric=alloc_space&by=line&n=10000", "/top?metric=alloc_space&by=file&n=10000", "/top?metric=alloc_space&by=label:l", "/flamegraph?metric=alloc_objects", "/"].each do |path|
        status, _, body = call(path)
        expect([path, status]).to eq([path, 200])
        page = expect_harmless(body)
        unless path == "/"
          expect(page.text + page.xpath("//@title").text).to include("<script>alert(1)</script>", "onerror=alert(1)", "a&amp;b")
        end
      end
      _, _, text = call("/heap?debug=1")
      expect(text).not_to match(UNSAFE)
      expect(text.lines.grep_v(/\A(?:heap profile: .*|\d+: \d+ \[\d+: \d+\] @.*|#.*|)\n\z/)).to eq([])
      expect(kept.size).to eq(5)
    end

    it "are so on the pages of a profile that has them, too" do
      stacks = NAMES.each_with_index.to_h { |name, i| [["#{name}#f", "C /#{name.delete(" \r\n")}.rb:#{i + 1}"], [900, 90_000, 900, 90_000]] }
      profile = Profiles.build(stacks)
      how = { metric: :alloc_space, count: 100, sort: :flat }
      %i[line file gem function].each do |by|
        expect_harmless(Memprofiler::Rack::Pages.top(profile, "/debug/pprof", by: by, **how))
      end
      page = expect_harmless(Memprofiler::Rack::FlameGraph.page(profile, "/debug/pprof", :alloc_space))
      expect(page.css("div[title]").map { |box| box["title"].lines.size }).to all(eq(3))
    end
  end

  it "says in the program's log what went wrong, on lines of its own" do
    status, _, body = call("/heap", app: app(permit: ->(_) { raise "a#{EVIL}\nFATAL: forged" }))
    expect([status, body]).to eq([500, "memprofiler: RuntimeError\n"])
    expect(@errors.string).not_to match(UNSAFE)
    expect(@errors.string.lines.grep(/\AFATAL/)).to eq([])
  end

  describe "who is let in without permit" do
    def status(**env) = call("/heap", **env)[0]

    it "is nobody by a header, whatever it says" do
      named = %w[X_FORWARDED_FOR X_FORWARDED_HOST X_FORWARDED_PROTO X_FORWARDED_PORT X_FORWARDED FORWARDED FORWARDED_FOR X_ORIGINAL_FORWARDED_FOR X_ORIGINAL_HOST
                 X_ORIGINAL_URL VIA CF_CONNECTING_IP CDN_LOOP X_REAL_IP TRUE_CLIENT_IP CLIENT_IP X_CLIENT_IP X_CLUSTER_CLIENT_IP FASTLY_CLIENT_IP FLY_CLIENT_IP
                 PROXY_CLIENT_IP WL_PROXY_CLIENT_IP X_AZURE_CLIENTIP X_REMOTE_IP X_REMOTE_ADDR X_ORIGINATING_IP X_PROXYUSER_IP X_ENVOY_EXTERNAL_ADDRESS X_ENVOY_INTERNAL
                 X_ARR_LOG_ID TAILSCALE_USER_LOGIN X_VARNISH X_HOST DO_CONNECTING_IP]
      named.each do |name|
        ["127.0.0.1", "::1", "localhost", "", "for=127.0.0.1;host=localhost"].each do |value|
          from_elsewhere = status(REMOTE_ADDR: "203.0.113.9", "HTTP_#{name}": value)
          expect([name, value, from_elsewhere, status("HTTP_#{name}": value)]).to eq([name, value, 403, 403])
        end
      end
      expect(status(HTTP_USER_AGENT: "Go-http-client/1.1", HTTP_ACCEPT_ENCODING: "gzip", HTTP_HOSTNAME: "x", HTTP_AUTHORIZATION: "x", HTTP_X_CLIENT_DATA: "x", HTTP_X_REQUEST_ID: "1")).to eq(200)
    end

    it "is no peer but this machine, however its address is written" do
      ["203.0.113.9", "0.0.0.0", "::", "::ffff:203.0.113.9", "::ffff:0:127.0.0.1", "127.0.0.1, 203.0.113.9", "203.0.113.9, 127.0.0.1", "127.0.0.1:80", " 127.0.0.1", "127.0.0.1 ",
       "127.1", "2130706433", "0x7f.0.0.1", "localhost", "fe80::1%lo", "/run/app.sock", "unix:", "", nil, "127.0.0.1".encode("UTF-16LE"), "::1\n10.0.0.1", "[::1]"].each do |address|
        expect([address, status(REMOTE_ADDR: address)]).to eq([address, 403])
      end
    end

    it "is no browser that was led here by a name (DNS rebinding)" do
      ["evil.example", "evil.example:9292", "127.0.0.1.evil.example", "127.0.0.1.evil.example:9292", "localhost.evil.example", "evil-localhost", "localhost@evil.example",
       "evil.example@localhost", "user:pw@127.0.0.1", "0.0.0.0", "0.0.0.0:9292", "[::]", "[::]:9292", "127.0.0.1:80:80", "localhost/", "localhost?", "localhost#", "localhost\\", "local host", " localhost",
       "localhost, evil.example", "[::1].evil.example", "::1", "[::ffff:10.0.0.1]", "127.0.0.1%00.evil.example", "localhost\0", "http://localhost", "1localhost", "loсalhost",
       "localhost".encode("UTF-16LE"), "10.0.0.1", "2130706433", "127.1"].each do |host|
        expect([host, status(HTTP_HOST: host)]).to eq([host, 403])
      end
      ["localhost", "LOCALHOST:80", "Localhost.", "app.localhost:3000", "127.0.0.1", "127.255.0.1:9292", "[::1]", "[::1]:9292", "[::FFFF:127.0.0.1]:80", "", nil].each do |host|
        expect([host, status(HTTP_HOST: host)]).to eq([host, 200])
      end
    end

    it "is no page of another site, which could have collections run here" do
      before = GC.stat(:major_gc_count)
      [{ HTTP_SEC_FETCH_SITE: "cross-site" }, { HTTP_SEC_FETCH_SITE: "Cross-Site" }, { HTTP_SEC_FETCH_SITE: "cross-site", HTTP_SEC_FETCH_MODE: "navigate" },
       { HTTP_ORIGIN: "https://evil.example" }, { HTTP_ORIGIN: "null" }, { HTTP_ORIGIN: "http://localhost.evil.example" }, { HTTP_ORIGIN: "" }].each do |env|
        expect([env, call("/heap?gc=1", **env)[0], call("/heap?seconds=300", **env)[0]]).to eq([env, 403, 403])
      end
      expect(GC.stat(:major_gc_count)).to be <= before + 1 # Ruby's own may come
      [{ HTTP_SEC_FETCH_SITE: "none" }, { HTTP_SEC_FETCH_SITE: "same-origin" }, { HTTP_SEC_FETCH_SITE: "same-site" }, { HTTP_ORIGIN: "http://localhost:9292" },
       { HTTP_ORIGIN: "https://127.0.0.1" }].each do |env|
        expect([env, status(**env)]).to eq([env, 200])
      end
    end
  end
end
