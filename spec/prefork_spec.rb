# frozen_string_literal: true

require_relative "support/child"

# The ways in which known programs fork, without these: what their children say of what they inherited and of what they did.
RSpec.describe Memprofiler::Collector, "in children forked as" do
  FORKING = <<~RUBY
    require "socket"
    def boot(count) = Array.new(count) { Object.new }
    def work(count) = Array.new(count) { Object.new }
    def made(profile, by, metric = :alloc_objects)
      profile.samples.sum { |s| s.labels["class"] == "Object" && s.stack.any? { |f| f.function.end_with?("#" + by) } ? s.values[metric] : 0 }
    end
    # What this process has booted, and done; whose it is; and which of it it keeps.
    def said
      profile = Memprofiler.collector.flush(labels: %i[class pid], gc: true)
      pids = profile.samples.map { |s| s.labels["pid"] }.uniq
      [made(profile, "boot"), made(profile, "work"), pids == [$$.to_s], made(profile, "work", :inuse_objects)]
    end
    boot(1) && work(1)
    Memprofiler.start(interval: 1)
    BOOTED = boot(100)
  RUBY

  def forking(code) = Child.ruby(FORKING + code).value

  it "Unicorn forks its workers, which share a socket and are many requests old when they end" do
    workers, master = forking(<<~RUBY)
      server = TCPServer.new("127.0.0.1", 0)
      pids = Array.new(2) do
        fork do
          kept = []
          while (client = server.accept)
            order = client.gets.chomp
            kept << work(10) if order == "work"
            client.puts(Marshal.dump(order == "work" ? [$$, kept.size] : [$$, kept.size, said]).dump)
            client.close
            exit!(0) if order == "end"
          end
        end
      end
      ask = ->(order) { TCPSocket.open("127.0.0.1", server.addr[1]) { |s| s.puts(order); Marshal.load(s.gets.chomp.undump) } }
      40.times { ask.call("work") }
      ends = Array.new(2) { ask.call("end") }
      pids.each { |pid| Process.wait(pid) }
      [ends, said]
    RUBY
    expect(workers.map(&:first).uniq.size).to eq(2)
    expect(workers.sum { |_, requests,| requests }).to eq(40)
    workers.each { |_, requests, said| expect(said).to eq([100, requests * 10, true, requests * 10]) }
    expect(master).to eq([100, 0, true, 0])
  end

  it "Resque forks one for each job, which leaves by exit!" do
    children, parent = forking(<<~RUBY)
      children = Array.new(5) do |i|
        reader, writer = IO.pipe
        pid = fork { kept = work(i * 10); writer.write(Marshal.dump([said, kept.size])); writer.close; exit!(0) }
        writer.close
        Marshal.load(reader.read).tap { Process.wait(pid) }
      end
      [children, said]
    RUBY
    expect(children).to eq(Array.new(5) { |i| [[100, i * 10, true, i * 10], i * 10] })
    expect(parent).to eq([100, 0, true, 0])
  end

  it "parallel forks some at once, from threads, which are given work by pipes" do
    children, parent = forking(<<~RUBY)
      lock = Mutex.new # two children that have the other's pipe would wait for each other
      children = Array.new(3) do |i|
        Thread.new do
          from_parent, to_parent, pid = lock.synchronize do
            to_child, from_parent, to_parent, from_child = IO.pipe + IO.pipe
            pid = fork do
              from_parent.close
              kept = []
              kept << work(Marshal.load(to_child)) until to_child.eof?
              Marshal.dump([said, kept.size], from_child)
              from_child.close
              exit!(0)
            end
            [to_child, from_child].each(&:close)
            [from_parent, to_parent, pid]
          end
          2.times { |n| Marshal.dump((i * 10) + n, from_parent) }
          from_parent.close
          Marshal.load(to_parent).tap { Process.wait(pid) }
        end
      end.map(&:value)
      [children, said]
    RUBY
    expect(children).to eq(Array.new(3) { |i| count = (i * 20) + 1; [[100, count, true, count], 2] })
    expect(parent).to eq([100, 0, true, 0])
  end

  it "Spring forks from a server, each in a session of its own, the next from the last" do
    expect(forking(<<~RUBY)).to eq([[100, 7, true, 7], [100, 12, true, 12], [100, 0, true, 0]])
      reader, writer = IO.pipe
      server = fork do
        Process.setsid
        first = work(7)
        Marshal.dump(said, writer)
        Process.wait(fork { Process.setsid; second = work(5); Marshal.dump(said, writer); exit!(first.size + second.size == 12 ? 0 : 1) })
        exit!(0)
      end
      writer.close
      children = [Marshal.load(reader), Marshal.load(reader)]
      Process.wait(server)
      [*children, said]
    RUBY
  end
end
