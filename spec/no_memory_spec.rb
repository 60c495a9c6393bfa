# frozen_string_literal: true

require_relative "support/child"
require "open3"

# malloc(3) that returns NULL to the extension, at each call in turn, once or from then on: a program
# gets an error that says so, or a drop is counted. It goes on, and what is written can be read.
# (test_faults.c does the same to each table; what Ruby itself allocates is Ruby's affair.)
RSpec.describe "Memory that runs out" do
  # NO_MEMORY=all: every call, in both ways.
  FIRST = 120
  FURTHER = 120

  before(:all) do
    @dir = Dir.mktmpdir
    source = File.expand_path("support/refuse_malloc.c", __dir__)
    @shim = "#{@dir}/refuse_malloc.so"
    @built = system(RbConfig::CONFIG["CC"], "-O1", "-fPIC", "-shared", "-o", @shim, source, %i[out err] => File::NULL)
  end
  after(:all) { FileUtils.rm_rf(@dir) }

  # Its answer: how many calls there are, and what was wrong, by call.
  NO_MEMORY_PROGRAM = <<~'RUBY'
    require "fiddle"
    require "tmpdir"
    Fiddle.dlopen(nil).then do |shim|
      types = { "refuse_from" => [[Fiddle::TYPE_UINTPTR_T] * 2, Fiddle::TYPE_VOID], "refuse_count" => [[], Fiddle::TYPE_LONG],
                "refuse_after" => [[Fiddle::TYPE_LONG, Fiddle::TYPE_INT], Fiddle::TYPE_VOID] }
      types.each { |name, type| define_method(name, &Fiddle::Function.new(shim[name], *type).method(:call)) }
    end
    code = File.foreach("/proc/self/maps").grep(/memprofiler\.so$/).map { |line| line[/\A\S+/].split("-").map { |a| a.to_i(16) } }
    refuse_from(code.map(&:first).min, code.map(&:last).max)

    def allocate(count) = Array.new(count) { |i| [Object.new, "x" * i] }

    # What fails is told, and the rest is tried all the same.
    def try
      yield
    rescue NoMemoryError, Memprofiler::Error => e
      raise "unclear: #{e.class}: #{e.message}" unless e.message.match?(/memory/)
    end

    def live(dir)
      collector = Memprofiler::Collector.new(interval: 1, max_samples: 200)
      try { collector.start }
      return collector unless collector.running?
      kept = allocate(150)
      try { Memprofiler.with_labels(job: "import") { kept.concat(allocate(20)) } }
      first = second = nil
      try { first = collector.flush(labels: %i[class age thread pid]) }
      kept << Class.new.new << eval("Object.new", binding, "eval.rb")
      GC.start
      try { second = collector.flush(labels: [:class]) }
      try { second.write("#{dir}/second.pb.gz") } if second
      try { (second - first).pprof_data } if first && second
      try { Memprofiler::Profile.load("#{dir}/second.pb.gz").top(:alloc_space) } if File.exist?("#{dir}/second.pb.gz")
      collector
    end

    # It can be stopped, still answers, and counts what it has left out; then all goes on.
    def check(collector, dir)
      if collector.running?
        collector.stop
        counted, dropped = collector.stats.values_at(:samples, :dropped_samples)
        total = collector.flush(labels: [:class]).total(:alloc_objects)
        raise "#{counted} samples, #{dropped} dropped, #{total} in the profile" unless counted > 150 && dropped.zero? && counted == total
      end
      Dir.children(dir).each { |name| Memprofiler::Profile.load("#{dir}/#{name}") }
      Dir.mkdir("#{dir}/again")
      live("#{dir}/again").stop
      raise "no second life" unless Memprofiler::Profile.load("#{dir}/again/second.pb.gz").total(:inuse_objects) >= 150
    end

    Dir.mktmpdir { |dir| live(dir).stop }
    refuse_after(-1, 0)
    Dir.mktmpdir { |dir| live(dir).stop }
    calls = refuse_count
    numbers = (0..calls).to_a
    tries = numbers.product([0, 1])
    unless ENV["NO_MEMORY"] == "all"
      tries = (numbers.first(first) + numbers.drop(first).sample(further, random: Random.new(1))).map { |n| [n, n % 2] }
    end
    wrong = tries.filter_map do |n, all|
      pid = fork do
        Dir.mktmpdir do |dir|
          refuse_after(n, all)
          collector = nil
          try { collector = live(dir) }
          refuse_after(-1, 0)
          check(collector || Memprofiler::Collector.new, dir)
        end
        exit!(0)
      rescue Exception => e
        $stderr.puts "#{n}: #{e.full_message(highlight: false)}"
        exit!(1)
      end
      _, status = Process.wait2(pid)
      [n, status.to_s] unless status.success?
    end
    [calls, wrong]
  RUBY

  # (no_asan: whose runtime has to be the first that is preloaded.)
  it "gives a clear error or a counted drop, at every call, and all goes on afterwards", :no_asan do
    skip_or_fail("needs glibc and a C compiler") unless @built && RUBY_PLATFORM.include?("linux")
    preload = [@shim, ENV["LD_PRELOAD"]].compact.join(" ")
    result = Child.ruby("first, further = #{[FIRST, FURTHER]}\n#{NO_MEMORY_PROGRAM}", env: { "LD_PRELOAD" => preload })
    calls, wrong = result.value
    expect(wrong).to be_empty, -> { "#{wrong}\n#{result.err.lines.first(40).join}" }
    expect(calls).to be > FIRST + FURTHER
  end
end
