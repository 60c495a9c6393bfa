# frozen_string_literal: true

require "memprofiler"
require_relative "support/server"

# A Rails of its own under Puma. One collector has the default interval, another one every object.
RSpec.describe "in a Rails app" do
  APP = File.read(File.join(__dir__, "apps/rails.ru"))
  GETS = %w[/posts /posts/1 /admin/posts /streamed /live /refused /cellar/wines /mounted/x /anonymous /moved /failing /none /wild/some].freeze
  ORDER = Net::HTTP::Post.new("/orders")

  before(:context) do
    @server = Server.start(APP, env: { "RAILS_ENV" => "production" })
    # What Ruby and Rails make for a first request is no leak, and all names are known before the cap is met.
    2.times { ask_all }
    @server.load([ORDER] * 50)
  end

  after(:context) { @server&.close }

  def ask_all
    GETS.each { |path| @server.get(path) }
    @server.load([ORDER], clients: 1)
  end

  def flushes = -> { @server.get("/flushes").body.to_i }

  def mark(name) = APP.lines.index { |line| line.end_with?("# mark: #{name}\n") } + 1

  def heap(path)
    answer = @server.get(path)
    expect(answer.code).to eq("200"), answer.body
    Memprofiler::Profile.new(answer.body)
  end

  # @return [Hash{String => Array<String, nil>}] from a mark to the labels of what was made there
  def labels(profile)
    marks = APP.lines.each_with_index.filter_map { |line, i| [i + 1, $1] if line =~ /# mark: (.+)$/ }.to_h
    profile.samples.each_with_object(Hash.new { |hash, key| hash[key] = [] }) do |sample, found|
      frame = sample.stack.find { |one| one.file.end_with?("/config.ru") }
      found[marks[frame.line]] |= [sample.labels["endpoint"]] if frame && marks[frame.line]
    end
  end

  it "a leak of 100 objects a request is the top row of ?seconds, by line and by label, and all its objects are there at interval 1" do
    delta, answers = @server.profile_of("/exact/pprof/heap?gc=1", flushes) { @server.load([ORDER, Net::HTTP::Get.new("/posts")] * 40) }
    expect(answers.map(&:code).tally).to eq("201" => 40, "200" => 40)
    line = delta.top(:inuse_objects, by: :line).first
    expect([File.basename(line.name), line.flat]).to eq(["config.ru:#{mark("leak")}", 40 * 100])
    expect(delta.top(:inuse_objects, by: "label:endpoint").first.name).to eq("orders#create")
    requests = delta.top(:alloc_objects, by: :line).find { |row| row.name.end_with?("config.ru:#{mark("request")}") }
    expect(requests.flat).to be_between(40, 45) # the VM fills a line's caches anew, now and then
  end

  # Each object is sampled by a coin of its own (gaps are geometric), with probability 1/512, and a sample stands for 512:
  # the estimate of n objects has sigma = sqrt(n * (512 - 1)). Here n = 30,000: 3,915, or 13 %. More than 5 sigma
  # off is 1 run in 1,700,000.
  it "the same is found at the default interval, within the sampling's error" do
    @server.get("/exact/stop") # as a service runs
    delta, answers = @server.profile_of("/debug/pprof/heap?gc=1", flushes) { @server.load([ORDER] * 300) }
    expect(answers.map(&:code).tally).to eq("201" => 300)
    expect(delta.period).to eq(512)
    line = delta.top(:inuse_objects, by: :line).first
    expect(File.basename(line.name)).to eq("config.ru:#{mark("leak")}")
    expect(line.flat).to be_within(5 * Math.sqrt(30_000 * 511)).of(30_000)
    label = delta.top(:inuse_objects, by: "label:endpoint").first
    expect(label.name).to eq("orders#create")
    expect(label.flat).to be >= line.flat
  ensure
    @server.get("/exact/start")
  end

  it "what actions make has their label, and what else is made has none" do
    ask_all
    found = labels(heap("/exact/pprof/heap"))
    %w[posts#index posts#show posts#streamed posts#failing admin/posts#index cellar/wines#index (anonymous)#show live#show].each do |name|
      expect([name, found[name]]).to eq([name, [name]])
    end
    expect(found.slice("leak", "request")).to eq("leak" => ["orders#create"], "request" => ["orders#create"])
    expect(found.slice("body", "mounted")).to eq("body" => [nil], "mounted" => [nil])
    expect(found).not_to have_key("refused")
  end

  it "no label outlives its request, whatever became of that" do
    40.times { |i| expect(@server.get(%w[/failing /refused /none /wild/some /closed/x][i % 5]).code).to eq(%w[500 403 404 200 404][i % 5]) }
    answers = @server.load([Net::HTTP::Get.new("/mounted/x")] * 40, clients: 8)
    expect(answers.map(&:body).uniq).to eq(["mounted at /mounted, labels {}"])
  end

  it "routes that don't exist, and actions that a path makes up, take no names" do
    40.times { |i| %w[/closed/up /up /posts/1/up].each { |path| expect(@server.get("#{path}#{i}").code).to eq("404") } }
    expect(heap("/exact/pprof/heap").samples.map { |sample| sample.labels["endpoint"] }.grep(/up\d/)).to eq([])
  end

  it "there are no more names than max_endpoints allows" do
    40.times { |i| expect(@server.get("/wild/a#{i}").body).to eq("a#{i}") }
    ask_all
    found = labels(heap("/exact/pprof/heap"))
    expect(found.values.flatten.compact.uniq.size).to be_between(25, 31)
    expect(found["wild"]).to include("(other)", "wild#some")
    expect(found.slice("posts#index", "leak")).to eq("posts#index" => ["posts#index"], "leak" => ["orders#create"])
  end

  it "the answers are those of the app without the middleware" do
    volatile = %w[date x-request-id x-runtime]
    told = lambda do |server|
      GETS.map { |path| server.get(path) }.push(server.load([ORDER], clients: 1).first, server.get("/posts", {}, verb: :Head)).map do |answer|
        [answer.code, answer.each_header.to_h.except(*volatile), answer.body&.gsub(server.port.to_s, "PORT")]
      end
    end
    Server.run(APP, env: { "RAILS_ENV" => "production", "PLAIN" => "1" }) do |plain|
      expect(plain.get("/debug/pprof/heap").code).to eq("404")
      with, without = [@server, plain].map { |server| told[server].map { |code, headers, body| [code, headers.transform_values { |v| v.gsub(server.port.to_s, "PORT") }, body] } }
      expect(with).to eq(without)
    end
  end
end
