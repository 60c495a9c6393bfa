# frozen_string_literal: true

require "zlib"
require_relative "../support/child"
require_relative "../support/command"

# What a program's data is stays in the program: names of files, methods and classes go out, and nothing else.
RSpec.describe "what a profile says of a program's data" do
  # One in each place where data can be; as numbers tell which one came out.
  DATA_OF_PROGRAM = <<~'RUBY'
    require "memprofiler/rack"
    require "stringio"
    require "zlib"
    # Not found by who looks for it in this text's own name, nor in the file of a fork.
    @places = []
    def secret(place) = "zq" + "7x-#{(@places |= [place]).index(place)}-"
    collector = Memprofiler.start(interval: 1)
    Secret = Struct.new(:value)
    class Keeper
      CONSTANT = []
      @@shared = []
      def initialize(value) = @value = value
      def take(value, key: nil, **rest) = [value, key, rest].inspect
      def method_missing(name, *) = name.to_s + "!"
      def respond_to_missing?(*) = true
    end
    def work
      kept = []
      kept << "#{secret(:string)}" << secret(:symbol).to_sym << (ENV["X_TOKEN"] = secret(:env)).dup
      kept << <<~TEXT << { secret(:key) => 1, secret(:symbol_key).to_sym => 2 } << [secret(:element)]
        heredoc #{secret(:heredoc)}
      TEXT
      Keeper::CONSTANT << secret(:constant)
      Keeper.class_variable_get(:@@shared) << secret(:class_variable)
      keeper = Keeper.new(secret(:ivar))
      kept << keeper << keeper.take(secret(:argument), key: secret(:keyword), secret(:any_keyword).to_sym => 1)
      kept << "a b".gsub(/\w/) { secret(:gsub_block) } << "a".gsub("a", secret(:gsub)) << Regexp.new(secret(:regexp))
      kept << Secret.new(secret(:struct)) << StringIO.new(secret(:io)).read << secret(:utf16).encode("UTF-16LE")
      kept << (begin raise KeyError.new(secret(:message), key: secret(:exception_key)) rescue $!.full_message end)
      kept << (begin {}.fetch(secret(:missing_key)) rescue $!.message end) << eval("'#{secret(:code)}'.dup")
      local = secret(:local)
      kept << proc { local } << binding.tap { |b| b.local_variable_set(:other, secret(:binding)) }
      Thread.new { Thread.current[:a] = secret(:thread_local); Thread.current.thread_variable_set(:b, secret(:thread_variable)) }.join
      Thread.new(secret(:thread_argument)) { |given| kept << given.upcase.downcase }.join
      kept << Fiber.new { |given| given + "!" }.tap { |f| f.resume(secret(:fiber)) }
      kept << (catch(secret(:tag)) { |tag| throw tag, secret(:thrown) }) << format("%s", secret(:format))
      kept << keeper.public_send(secret(:missing_method)) << ObjectSpace::WeakMap.new.tap { |map| map[secret(:weak)] = 1 }
      kept << $stdin.class << (ARGV << secret(:argv)).last.dup << "#{secret(:large)}#{"x" * 100_000}" << Comparable.instance_methods
      $global = secret(:global)
      kept
    end
  RUBY

  def outputs(code)
    Child.value(<<~RUBY)
      #{DATA_OF_PROGRAM}
      kept = work
      #{code}
    RUBY
  end

  it "has none of it in any output, whatever labels are asked for" do
    found, sizes, argv = outputs(<<~'RUBY')
      env = { "REQUEST_METHOD" => "GET", "REMOTE_ADDR" => "127.0.0.1", "HTTP_COOKIE" => secret(:cookie), "HTTP_AUTHORIZATION" => secret(:authorization),
              "rack.errors" => (log = StringIO.new) }
      app = Memprofiler::Rack::App.new
      get = ->(path, query = "") { app.call(env.merge("PATH_INFO" => "/debug/pprof#{path}", "QUERY_STRING" => query))[2].join }
      profile = collector.flush(labels: %i[class age thread pid], gc: true, heap: true)
      flusher = Memprofiler::FileFlusher.new(dir: "profiles", labels: %i[class age thread pid])
      file = flusher.flush
      require "memprofiler/report/json"
      texts = {
        profile: Zlib.gunzip(profile.pprof_data), file: Zlib.gunzip(File.binread(file)), name: file, comments: profile.comments.join("\n"),
        heap: Zlib.gunzip(get.("/heap", "gc=1")), allocs: Zlib.gunzip(get.("/allocs")), delta: Zlib.gunzip(get.("/delta_heap")),
        debug: get.("/heap", "debug=1"), index: get.("/"), flamegraph: get.("/flamegraph", "metric=alloc_objects"),
        status: Memprofiler.status.inspect, stats: collector.stats.inspect, inspect: [collector, profile, flusher].inspect, log: log.string,
        head: Memprofiler::Report.new(profile).head
      }
      %i[line file gem function class].each do |by|
        texts[:"page_#{by}"] = get.("/top", "metric=alloc_space&n=10000&by=#{by}")
        texts[:"table_#{by}"] = Memprofiler::Report.new(profile).table(:alloc_space, by: by)
        texts[:"json_#{by}"] = Memprofiler::Report::JSON.generate(profile, :alloc_space, by: by, count: nil, files: [])
      end
      sign = "zq" + "7x"
      forms = [sign, sign.encode("UTF-16LE").b, [sign].pack("m0")[0, 4], sign.inspect]
      [texts.select { |_, text| forms.any? { |form| text.b.include?(form.b) } }.keys, texts.transform_values(&:bytesize).slice(:profile, :debug, :page_class, :json_line).values,
       get.("/cmdline").include?(sign)]
    RUBY
    expect(found).to eq([])
    expect(sizes).to all(be > 3_000)
    expect(argv).to be(true) # as Go's: the command line is what that page is for
  end

  # Names are names, wherever a program has them from; so it is seen here that the search above finds what is there.
  it "has names, be they made of data: methods, classes, files of eval, threads, labels" do
    there = outputs(<<~RUBY)
      kept << Object.new.instance_eval("def zq7x_method = Array.new(3) { 'x' * 50 }; zq7x_method") << eval("Array.new(3) { +'y' }", nil, "zq7x-file")
      Object.const_set(:Zq7xClass, Class.new)
      kept << Zq7xClass.new
      Thread.new { Thread.current.name = "zq7x-thread"; kept << Object.new }.join
      Memprofiler.with_labels("zq7x-label" => "zq7x-value") { kept << Object.new }
      text = Zlib.gunzip(collector.flush(labels: %i[class thread]).pprof_data)
      %w[zq7x_method zq7x-file Zq7xClass zq7x-thread zq7x-label zq7x-value].reject { |name| text.include?(name) }
    RUBY
    expect(there).to eq([])
  end

  it "has none of it below `memprofiler run`, nor has what that says", :command do
    File.write("#{@dir}/program.rb", <<~'RUBY')
      kept = Array.new(50) { |i| "#{DATA.read.chomp} #{ENV["X_TOKEN"]} #{ARGV[0]} #{$stdin.read} #{i}" }
      at_exit { kept.size }
      raise ArgumentError, kept.first
      __END__
      zq7x-data
    RUBY
    result = run_ruby("program.rb", "zq7x-argument", options: ["--interval", "1"], env: { "X_TOKEN" => "zq7x-env" }, stdin_data: "zq7x-stdin")
    ours = result.err[/^memprofiler 0.*/m]
    expect(result.err.delete_suffix(ours)).to include("zq7x-data zq7x-env zq7x-argument zq7x-stdin 0 (ArgumentError)") # the program's own
    expect(ours).to include("program.rb:1").and match(/\A(?!.*zq7x)/m)
    expect(Zlib.gunzip(File.binread(profiles.first))).to include("program.rb").and match(/\A(?!.*zq7x)/mn)
  end

  it "is not in the exporter's words, though the server says it" do
    answer = Child.ruby(<<~'RUBY')
      require "socket"
      require "net/http"
      server = TCPServer.new("127.0.0.1", 0)
      # A server that says what it was told, as no HTTP
      Thread.new do
        loop do
          socket = server.accept
          head = +""
          while (line = socket.gets) && line != "\r\n" do head << line end
          socket.write("#{head[/^Authorization: .*$/i].chomp} #{head[/Basic (.*)\r/, 1].to_s.unpack1("m")[/:(.*)/n, 1]}\r\n".b)
          socket.close
        end
      end
      url = "http://127.0.0.1:#{server.addr[1]}"
      Memprofiler.start(interval: 1)
      said = []
      [{ token: "zq7x-token" }, { username: "me", password: "pa  ss\tword" }, { username: "me", password: "p\xE4ss".dup.force_encoding("ISO-8859-1") }].each do |options|
        e = Memprofiler::PyroscopeExporter.new(url: url, app_name: "x", every: 3_600, timeout: 5, **options).start
        Array.new(10) { Object.new }
        error = begin e.push rescue $! end
        said << error.detailed_message if error.respond_to?(:detailed_message)
        said << error.full_message << error.cause.inspect << e.status.inspect << e.inspect << error.class.name
        e.stop
      end
      said
    RUBY
    said = [*answer.value, answer.err].join("\n")
    expect(said).to include("PushError", "[secret]", "HTTPBadResponse")
    expect(said.b).not_to match(/zq7x|pa +ss|ss\\tword|p\xE4ss|p\\xE4ss|#{Regexp.union(["me:pa  ss\tword"].pack("m0"), ["me:p\xE4ss".b].pack("m0"))}/n)
  end
end
