# frozen_string_literal: true

require "memprofiler"
require_relative "support/command"
require_relative "support/server"

# Puma with two workers, each of which keeps 100 objects a request.
RSpec.describe "in Puma's cluster mode", :command do
  CLUSTER = File.read(File.join(__dir__, "apps/cluster.ru"))
  PUMA = ["-b", "tcp://127.0.0.1:0", "-t", "1:4", "-w", "2"].freeze
  LEAK_OF_WORKERS = CLUSTER.lines.index { |line| line.end_with?("# mark: leak\n") } + 1

  # From the beginning where Puma hung at its end: a worker that has to be killed writes no file.
  # (Puma has no option for the latter, and preloads of its own accord.)
  def cluster(preload: false, env: {}, &block)
    attempts ||= 0
    File.write("#{@dir}/puma.rb", "preload_app! #{preload}")
    Server.run(CLUSTER, arguments: [*PUMA, "-C", "#{@dir}/puma.rb"], env: env, &block)
  rescue Server::Hung
    (attempts += 1) < 5 ? retry : raise
  end

  # @return [Hash{Integer => Integer}] requests that each worker has answered
  def leak(server, count)
    server.load(Array.new(count) { Net::HTTP::Get.new("/leak") }, clients: 4).map { |answer| answer.body.to_i }.tally
  end

  # Each by a connection of its own, which any worker may take.
  def pid_and_flushes(server) = server.get("/").body.split.map(&:to_i)

  # Until each of some number of workers has had requests, and each of them had some
  def leak_in_all(server, workers: 2)
    sums = Hash.new(0)
    leak(server, 60).each { |pid, count| sums[pid] += count } until sums.size >= workers
    sums
  end

  # Objects in use that the leak's line made (in files, which have classes: without the VM's caches of that line)
  def leaked(profile)
    profile.samples.sum do |sample|
      frame = sample.stack.find { |one| one.file.end_with?("/config.ru") }
      [nil, "Object"].include?(sample.labels["class"]) && frame&.line == LEAK_OF_WORKERS ? sample.values[:inuse_objects] : 0
    end
  end

  def files(server, pid = "*") = Dir.glob("#{server.dir}/profiles/puma*.#{pid}.*.pb.gz")

  def pids(profile) = profile.samples.map { |sample| sample.labels["pid"] }.uniq.map(&:to_i)

  # @return [Memprofiler::Profile, Hash{Integer => Integer}] of one worker over some seconds, and the requests that workers had meanwhile
  def delta(server, seconds = 2)
    before = Hash.new(0)
    before.store(*pid_and_flushes(server)) until before.size == 2
    began = Process.clock_gettime(Process::CLOCK_MONOTONIC)
    asked = Thread.new { server.get("/debug/pprof/heap?gc=1&seconds=#{seconds}") }
    loop { break if pid_and_flushes(server).then { |pid, flushes| flushes > before[pid] } || !asked.alive? }
    requests = leak(server, 60)
    in_time = Process.clock_gettime(Process::CLOCK_MONOTONIC) - began < seconds # no second flush by then
    profile = Memprofiler::Profile.new(asked.value.body)
    in_time ? [profile, requests] : delta(server, seconds * 2)
  end

  { "with preload_app!" => true, "without preload_app!" => false }.each do |how, preload|
    it "#{how} each worker has its leak, its pid and its file, and their sum has all" do
      cluster(preload: preload) do |server|
        requests = leak_in_all(server)
        workers = requests.keys

        over_seconds, meanwhile = delta(server)
        expect(workers).to include(pid = over_seconds.metadata[:pid].to_i)
        expect(leaked(over_seconds)).to eq(100 * meanwhile.fetch(pid, 0))
        server.end_well
        expect(server.log).not_to match(/WARNING|Error/)

        all = files(server).to_h { |path| [path, Memprofiler::Profile.load(path)] }
        own, others = all.partition { |path, _| workers.include?(path[/\.(\d+)\.\d+T/, 1].to_i) }.map(&:to_h)
        expect(own.size).to eq(2)
        expect(own.to_h { |path, profile| [path[/\.(\d+)\.\d+T/, 1].to_i, pids(profile)] }).to eq(workers.to_h { |worker| [worker, [worker]] })
        expect(others.values.map { |profile| [pids(profile), leaked(profile)] }).to eq(preload ? [[[server.pid], 0]] : [])

        expect(own.values.sum { |profile| leaked(profile) }).to be >= 100 * requests.values.sum
        expect(main("merge", "#{@dir}/all.pb.gz", *own.keys).status).to eq(0)
        sum = Memprofiler::Profile.load("#{@dir}/all.pb.gz")
        expect(leaked(sum)).to eq(own.values.sum { |profile| leaked(profile) })
        expect(sum.top(:inuse_objects, by: :line).first.name).to end_with("config.ru:#{LEAK_OF_WORKERS}")
        expect(main("top", "--by", "label:pid", "--metric", "inuse_objects", "#{@dir}/all.pb.gz").out).to include(*workers.map(&:to_s))
      end
    end
  end

  it "a file has all of its worker's requests, and none of the other's" do
    cluster do |server|
      requests = leak_in_all(server)
      server.end_well
      found = requests.to_h { |worker, _| [worker, files(server, worker).map { |path| leaked(Memprofiler::Profile.load(path)) }] }
      expect(found).to eq(requests.transform_values { |count| [100 * count] })
    end
  end

  it "a phased restart leaves the old workers' files whole, with all that they did" do
    cluster do |server|
      requests = leak_in_all(server)
      old = requests.keys
      Process.kill(:USR1, server.pid)
      began = Process.clock_gettime(Process::CLOCK_MONOTONIC)
      until (requests.keys - old).size == 2
        raise Server::Hung if Process.clock_gettime(Process::CLOCK_MONOTONIC) - began > Server::LAST_PATIENCE

        answer = server.get("/leak")
        requests[answer.body.to_i] += 1
      end
      server.end_well
      found = requests.to_h { |worker, _| [worker, files(server, worker).map { |path| leaked(Memprofiler::Profile.load(path)) }] }
      expect(found).to eq(requests.transform_values { |count| [100 * count] })
    end
  end

  it "a worker that is killed leaves whole files, and the next one goes on" do
    cluster(env: { "EVERY" => "0.05" }) do |server|
      killed, other = leak_in_all(server).keys
      leak(server, 20) until files(server, killed).size >= 3
      Process.kill(:KILL, killed)
      seen = []
      until (seen - [killed, other]).any?
        begin
          seen |= [server.get("/leak").body.to_i]
        rescue EOFError, SystemCallError
          nil # it was the killed one's
        end
      end
      following = (seen - [killed, other]).first
      server.get("/leak") until files(server, following).any?
      server.end_well
      profiles = [killed, other, following].to_h { |pid| [pid, files(server, pid).map { |path| Memprofiler::Profile.load(path) }.sort_by(&:time)] }
      expect(profiles.transform_values { |list| list.flat_map { |profile| pids(profile) }.uniq }).to eq([killed, other, following].to_h { |pid| [pid, [pid]] })
      expect(profiles[killed].map { |profile| profile.total(:alloc_objects) }).to all(be_positive).and(satisfy { |totals| totals == totals.sort })
    end
  end
end
