# frozen_string_literal: true

# endpoints_child.rb LEVELS WHAT: a program with 3 * 2**LEVELS stacks, answers of the endpoint or pushes of the
# exporter, and what these cost as JSON. WHAT is a path below /debug/pprof, or "push".

levels = Integer(ARGV.fetch(0))
what = ARGV.fetch(1)
require "json"
require "socket"
require "memprofiler/rack"
require_relative "gap"

# Two lines at each level, and three with an object of its own kind at the end: 3 * 2**LEVELS stacks.
def descend(bits, level, number)
  if level.zero?
    case number % 3
    when 0 then "a string that does not fit into its slot, number #{number}"
    when 1 then [number, number, number, number]
    else { number: number }
    end
  elsif bits.odd?
    descend(bits >> 1, level - 1, number)
  else # the same on another line
    descend(bits / 2, level - 1, number)
  end
end

def rss_kb(name)
  Integer(File.read("/proc/self/status")[/#{name}:\s*(\d+)/, 1])
end

# Takes what it's sent, and says no more than yes.
def serve(socket)
  length = 0
  while (line = socket.gets.to_s.chomp) != ""
    length = line[/\Acontent-length: (\d+)\z/i, 1].to_i if line.match?(/\Acontent-length/i)
  end
  socket.read(length)
  socket.write("HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
  socket.close
end

def server
  server = TCPServer.new("127.0.0.1", 0)
  pid = Process.fork { loop { serve(server.accept) } }
  [pid, "http://127.0.0.1:#{server.addr[1]}"]
end

pid, url = server if what == "push"
collector = Memprofiler::Collector.new(interval: 1, max_samples: nil).start
if what == "push"
  exporter = nil
  work = lambda do
    exporter ||= Memprofiler::PyroscopeExporter.new(url: url, app_name: "b", every: 3_600, collector: collector).start
    exporter.push
    []
  end
else
  app = Memprofiler::Rack::App.new(collector: collector)
  path, query = what.split("?", 2)
  env = { "REQUEST_METHOD" => "GET", "SCRIPT_NAME" => "", "PATH_INFO" => "/debug/pprof/#{path}",
          "QUERY_STRING" => query.to_s, "REMOTE_ADDR" => "127.0.0.1", "HTTP_HOST" => "localhost" }
  work = lambda do
    status, _, body = app.call(env)
    abort "#{what}: #{status} #{body.join}" unless status == 200
    body
  end
end

kept = []
gaps = []
cpu = added = body = nil
# Objects of all rounds come from one line: a second one would have stacks of its own.
5.times do |round|
  kept.concat(Array.new(3 * (2**levels)) { |i| descend(i / 3, levels, i) })
  collector.flush # names what is new
  GC.start
  case round
  when 0 then work.call # what is loaded, and begun from, the first time
  when 1
    before = rss_kb("VmRSS")
    File.write("/proc/self/clear_refs", "5") # VmHWM begins anew
    clock = Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID)
    body = work.call
    cpu = Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID) - clock
    added = [rss_kb("VmHWM") - before, 0].max
  else
    gaps << Bench.longest_gap_ms { work.call }
  end
end
puts JSON.generate(stacks: collector.stats.fetch(:stacks), gaps_ms: gaps, cpu_ms: cpu * 1e3, added_kb: added,
                   bytes: body.sum(&:bytesize))
if pid
  Process.kill(:KILL, pid)
  Process.wait(pid)
end
$stdout.flush
exit!(0) # no last push
