# frozen_string_literal: true

require "memprofiler"
require "zlib"
require_relative "support/server"

# Started as a user does: by rackup, with one config.ru for all.
RSpec.describe "below rackup" do
  SERVERS_APP = File.read(File.join(__dir__, "apps/servers.ru"))
  LEAK_OF_SERVERS = SERVERS_APP.lines.index { |line| line.end_with?("# mark: leak\n") } + 1

  # WEBrick and Puma run requests in threads, Falcon in fibers of one thread.
  %w[webrick falcon puma].each do |name|
    describe name do
      before(:context) do
        @server = Server.start(SERVERS_APP, gem: "rackup", arguments: ["-s", name, "-o", "127.0.0.1", "-p", "PORT"])
        get("/leak", 20)
        @server.get("/debug/pprof/heap?seconds=1")
      end

      after(:context) { @server&.close }

      def get(path, count, clients: 3) = @server.load(Array.new(count) { Net::HTTP::Get.new(path) }, clients: clients)

      def flushes = -> { @server.get("/flushes").body.to_i }

      it "serves a profile, which the deflater leaves as it is" do
        plain, packed = %w[identity gzip].map { |encoding| @server.get("/debug/pprof/heap", { "accept-encoding" => encoding }) }
        [plain, packed].each do |answer|
          expect([answer.code, answer["content-type"], answer["content-encoding"], answer.body.byteslice(0, 2).bytes])
            .to eq(["200", "application/octet-stream", nil, [0x1f, 0x8b]])
          expect(Memprofiler::Profile.new(answer.body).total(:alloc_objects)).to be_positive
        end
        index = @server.get("/debug/pprof/", { "accept-encoding" => "gzip" })
        expect([index["content-encoding"], Zlib.gunzip(index.body)]).to match(["gzip", %r{go tool pprof http://127\.0\.0\.1:#{@server.port}/debug/pprof/heap}])
      end

      it "answers HEAD, and refuses what isn't allowed" do
        head = @server.get("/debug/pprof/heap", {}, verb: :Head)
        expect([head.code, head["content-type"], head.body]).to eq(["200", "application/octet-stream", nil])
        expect(@server.get("/debug/pprof/heap", {}, verb: :Delete).code).to eq("405")
        expect(@server.get("/debug/pprof/block").code).to eq("404")
        expect(@server.get("/debug/pprof/heap?seconds=0").code).to eq("400")
        expect(@server.get("/debug/pprof/heap", { "host" => "evil.example" }).code).to eq("403")
        expect(@server.get("/debug/pprof/heap", { "x-forwarded-for" => "127.0.0.1" }).code).to eq("403")
      end

      it "goes on with other requests while one waits for its seconds, and finds the leak in it" do
        delta, answers = @server.profile_of("/debug/pprof/heap?gc=1", flushes) { get("/leak", 30) }
        expect(answers.map(&:body)).to eq(["100"] * 30)
        line = delta.top(:inuse_objects, by: :line).first
        expect([File.basename(line.name), line.flat]).to eq(["config.ru:#{LEAK_OF_SERVERS}", 30 * 100])
        expect(delta.top(:inuse_objects, by: "label:endpoint").first.name).to eq("/leak")
      end

      it "serves several clients at once" do
        paths = %w[heap allocs delta_heap heap?debug=1 heap?gc=1 top] * 2
        leaks = Thread.new { get("/leak", 40) }
        answers = @server.load(paths.map { |path| Net::HTTP::Get.new("/debug/pprof/#{path}") }, clients: 6)
        expect(answers.map(&:code).tally).to eq("200" => 12)
        expect(leaks.value.map(&:code).tally).to eq("200" => 40)
      end

      it "keeps the labels of requests apart that run at once" do
        requests = Array.new(40) { |i| Net::HTTP::Get.new("/wait#{i}/x") }
        answers = @server.load(requests.shuffle(random: Random.new(1)), clients: 8)
        expect(answers.map(&:body)).to match_array(Array.new(40) { |i| { endpoint: "/wait#{i}" }.to_s })
      end
    end
  end

  it "without any option serves profiles inside what rackup adds for development" do
    Server.run(SERVERS_APP, gem: "rackup", arguments: ["-p", "PORT"], env: { "RACK_ENV" => nil }) do |server|
      answer = server.get("/debug/pprof/heap?gc=1")
      expect(Memprofiler::Profile.new(answer.body).period).to eq(1)
      expect(server.get("/debug/pprof/top").body).to include("Top retainers by line")
      expect(server.get("/leak").body).to eq("100")
      expect(server.log).not_to match(/LintError|Exception/)
    end
  end

  describe "Sinatra" do
    SINATRA = File.read(File.join(__dir__, "apps/sinatra.ru"))
    ORDERS = "config.ru:#{SINATRA.lines.index { |line| line.end_with?("# mark: POST /orders\n") } + 1}".freeze

    before(:context) do
      @server = Server.start(SINATRA)
      @server.load(Array.new(20) { Net::HTTP::Post.new("/orders") })
      @server.get("/debug/pprof/heap?seconds=1")
    end

    after(:context) { @server&.close }

    def labels(profile)
      marks = SINATRA.lines.each_with_index.filter_map { |line, i| [i + 1, $1] if line =~ /# mark: (.+)$/ }.to_h
      profile.samples.each_with_object(Hash.new { |hash, key| hash[key] = [] }) do |sample, found|
        frame = sample.stack.find { |one| one.file.end_with?("/config.ru") }
        found[marks[frame.line]] |= [sample.labels["endpoint"]] if frame && marks[frame.line]
      end
    end

    it "labels what a route makes by its pattern, and nothing else" do
      answers = %w[/posts/first-of-all /posts/second /posts/third /passed/on /halted /failing /streamed /none].map { |path| @server.get(path) }
      expect(answers.map(&:code)).to eq(%w[200 200 200 200 403 500 200 404])
      expect(answers.map(&:body).values_at(0, 3, 6, 7)).to eq(["first-of-all", "on", "line 0\nline 1\nline 2\n", "nothing here, labels {}"])
      found = labels(Memprofiler::Profile.new(@server.get("/debug/pprof/heap").body))
      routes = ["GET /posts/:slug", "GET /passed/*", "GET /passed/on", "GET /halted", "GET /failing", "POST /orders"]
      expect(found).to eq(routes.to_h { |route| [route, [route]] }.merge("filter" => [nil], "body" => [nil]))
    end

    it "has no label left by a request that failed or was halted" do
      20.times { |i| @server.get(%w[/failing /halted /none /passed/on][i % 4]) }
      answers = @server.load(Array.new(30) { Net::HTTP::Get.new("/none") }, clients: 8)
      expect(answers.map(&:body).uniq).to eq(["nothing here, labels {}"])
      expect(@server.get("/labels").body).to eq({ endpoint: "GET /labels" }.to_s)
    end

    it "shows a leak of 100 objects a request in ?seconds alone, by line and by label" do
      delta, = @server.profile_of("/debug/pprof/heap?gc=1", -> { @server.get("/flushes").body.to_i }) do
        @server.load([*Array.new(40) { Net::HTTP::Post.new("/orders") }, *Array.new(40) { Net::HTTP::Get.new("/posts/x") }])
      end
      line = delta.top(:inuse_objects, by: :line).first
      expect([File.basename(line.name), line.flat]).to eq([ORDERS, 40 * 100])
      expect(delta.top(:inuse_objects, by: "label:endpoint").first.name).to eq("POST /orders")
    end
  end
end
