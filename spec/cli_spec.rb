# frozen_string_literal: true

require "json"
require "io/console"
require "pty"
require_relative "support/command"
require_relative "support/profiles"

RSpec.describe Memprofiler::CLI, :command do
  def file(name, profile)
    File.join(@dir, name).tap { |path| profile.write(path) }
  end

  let(:heap) do
    file("heap.pb.gz", Profiles.build(["String#dup", "Shop#page /app/shop.rb:4", { "class" => "String" }] => [30, 1200, 3, 120],
                                      ["Shop#total /app/shop.rb:9", { "class" => "Array" }] => [10, 400, 10, 400]))
  end

  def names(result)
    JSON.parse(result.out)["rows"].map { |row| row["name"] }
  end

  describe "usage" do
    {
      [] => "memprofiler: which subcommand? run, top or merge (see: memprofiler help)",
      ["rum"] => 'memprofiler: no subcommand or option "rum" (see: memprofiler help)',
      ["--verbose"] => 'memprofiler: no subcommand or option "--verbose" (see: memprofiler help)',
      %w[help rum] => 'memprofiler: no subcommand "rum" (see: memprofiler help)',
      %w[top] => "memprofiler top: which FILE? (see: memprofiler help top)",
      %w[top --frobnicate x] => 'memprofiler top: no option "--frobnicate" (see: memprofiler help top)',
      %w[top --met inuse_space x] => 'memprofiler top: no option "--met" (see: memprofiler help top)',
      %w[top x --metric] => "memprofiler top: --metric needs a value (see: memprofiler help top)",
      %w[top --metric cpu x] => "memprofiler top: --metric must be one of alloc_objects, alloc_space, inuse_objects, " \
                                'inuse_space, not "cpu" (see: memprofiler help top)',
      %w[top --by=method x] => "memprofiler top: --by must be one of line, file, gem, function, class, or label:NAME, " \
                               'not "method" (see: memprofiler help top)',
      %w[top -n 0 x] => 'memprofiler top: -n must be a whole number of at least 1, not "0" (see: memprofiler help top)',
      %w[top -n -1 x] => 'memprofiler top: -n must be a whole number of at least 1, not "-1" (see: memprofiler help top)',
      ["top", "-n", "\xFF", "x"] =>
        'memprofiler top: -n must be a whole number of at least 1, not "\xFF" (see: memprofiler help top)',
      %w[top -n] => "memprofiler top: -n needs a value (see: memprofiler help top)",
      %w[top -n -- x] => 'memprofiler top: -n needs a value, not "--" (see: memprofiler help top)',
      %w[top --by --json x] => 'memprofiler top: --by needs a value, not "--json" (see: memprofiler help top)',
      %w[top --metric -- x] => 'memprofiler top: --metric needs a value, not "--" (see: memprofiler help top)',
      ["top", ""] => "memprofiler top: which FILE? (see: memprofiler help top)",
      %w[top --json=yes x] => "memprofiler top: --json takes no value (see: memprofiler help top)",
      %w[merge] => "memprofiler merge: which OUT? (see: memprofiler help merge)",
      ["merge", "", "x"] => "memprofiler merge: which OUT? (see: memprofiler help merge)",
      %w[merge out] => "memprofiler merge: which FILE, after OUT? (see: memprofiler help merge)",
      ["merge", "out", ""] => "memprofiler merge: which FILE, after OUT? (see: memprofiler help merge)",
      %w[merge --force out x] => 'memprofiler merge: no option "--force" (see: memprofiler help merge)',
      %w[run] => "memprofiler run: which COMMAND? (see: memprofiler help run)",
      %w[run --] => "memprofiler run: which COMMAND? (see: memprofiler help run)",
      ["run", "--", ""] => "memprofiler run: which COMMAND? (see: memprofiler help run)",
      **%w[0 -5 1e3 1000000001 10000000000 99999999999999999999].to_h do |number|
        [["run", "--interval", number, "--", "true"],
         "memprofiler run: --interval must be a whole number from 1 to 1000000000, not #{number.inspect} (see: memprofiler help run)"]
      end,
      %w[run --interval -- true] => 'memprofiler run: --interval needs a value, not "--" (see: memprofiler help run)',
      %w[run --output -- true] => 'memprofiler run: --output needs a value, not "--" (see: memprofiler help run)',
      %w[run --output --quiet -- true] =>
        'memprofiler run: --output needs a value, not "--quiet" (see: memprofiler help run)',
      %w[run --output= -- true] => "memprofiler run: --output must not be empty (see: memprofiler help run)",
      %w[run -q -- true] => 'memprofiler run: no option "-q" (see: memprofiler help run)'
    }.each do |arguments, message|
      it "refuses #{["memprofiler", *arguments].join(" ").dump}" do
        expect(main(*arguments).to_a).to eq([2, "", "#{message}\n"])
      end
    end

    it "allows the intervals that the collector does" do
      most = main("run", "--interval", "0", "--", "true").err[/1 to (\d+)/, 1].to_i
      expect(Memprofiler::Collector.new(interval: most)).to be_a(Memprofiler::Collector)
      expect { Memprofiler::Collector.new(interval: most + 1) }.to raise_error(ArgumentError)
    end
  end

  describe "help" do
    it "is printed to stdout" do
      [%w[--help], %w[-h], %w[help], %w[help help], %w[help --help]].each { |words| expect(main(*words).to_a).to match([0, /usage: memprofiler run/, ""]) }
      [%w[help run], %w[run --help], %w[run -h]].each { |words| expect(main(*words).to_a).to match([0, /--interval N/, ""]) }
      [%w[help merge], %w[merge --help], %w[merge -h]].each { |words| expect(main(*words).to_a).to match([0, /merge OUT FILE/, ""]) }
      [%w[help top], %w[top --help], %w[top -h]].each { |words| expect(main(*words).to_a).to match([0, /--metric METRIC/, ""]) }
    end

    it "has the version" do
      %w[--version -v].each { |word| expect(main(word).to_a).to eq([0, "memprofiler #{Memprofiler::VERSION}\n", ""]) }
    end
  end

  describe "top" do
    it "prints what made most of what is in use, by line" do
      result = main("top", heap)
      expect(result.status).to eq(0)
      expect(result.err).to eq("")
      expect(result.out).to include(<<~TABLE)
        Top retainers by line: inuse_space, 520 B in 13 objects still in use, by the line that made them
           flat  flat%    cum   cum%  line
          400 B  76.9%  400 B  76.9%  /app/shop.rb:9
          120 B  23.1%  120 B  23.1%  /app/shop.rb:4
      TABLE
    end

    it "takes a metric, a grouping and a number of rows" do
      expect(names(main("top", "--json", "--metric", "alloc_objects", heap))).to eq(%w[/app/shop.rb:4 /app/shop.rb:9])
      expect(names(main("top", heap, "--json", "--by=function"))).to eq(%w[Shop#total String#dup Shop#page])
      expect(names(main("top", "-n1", "--json", "--by", "class", heap))).to eq(%w[Array])
      expect(names(main("top", "-n", "1", "--json", "--by", "file", "--", heap))).to eq(%w[/app/shop.rb])
      expect(names(main("top", "-n", "9" * 30, "--json", heap)).size).to eq(2)
    end

    it "sums several files" do
      other = file("other.pb.gz", Profiles.build(["Shop#page /app/shop.rb:4"] => [0, 0, 9, 1000]))
      document = JSON.parse(main("top", "--json", heap, other).out)
      expect(document["rows"].map { |row| row.values_at("name", "flat") }).to eq([["/app/shop.rb:4", 1120], ["/app/shop.rb:9", 400]])
      expect(document).to include("files" => [heap, other], "total" => 1520, "unit" => "bytes", "metric" => "inuse_space", "by" => "line")
    end

    it "reads pipes" do
      pipes = %w[1 2].map { |name| "#{@dir}/#{name}".tap { |path| File.mkfifo(path) } }
      writers = pipes.map { |path| Thread.new { File.binwrite(path, File.binread(heap)) } }
      expect(JSON.parse(main("top", "--json", *pipes).out)["total"]).to eq(2 * 520)
      writers.each(&:join)
    end

    it "gives scripts numbers, not text" do
      path = file("n.pb.gz", Profiles.build({ ["a /a.rb:1"] => [640, 25_600, 640, 25_600] },
                                            period: 64, comments: { interval: 64, samples: 10, live_samples: 10 }))
      row = JSON.parse(main("top", "--json", path).out)["rows"].first
      expect(row).to include("flat" => 25_600, "cumulative" => 25_600, "share" => 1.0, "samples" => 10)
      expect(row["error"]).to be_within(0.001).of(0.6706) # see error_spec.rb
    end

    it "gives scripts all rows, unless asked for less" do
      path = file("many.pb.gz", Profiles.build(Array.new(30) { |i| [["a /a.rb:#{i + 1}"], [0, 0, 1, 40]] }.to_h))
      expect([[], %w[-n 7], %w[-n1]].map { |options| names(main("top", "--json", *options, path)).size }).to eq([30, 7, 1])
      expect(main("top", path).out.scan(%r{/a\.rb:}).size).to eq(20)
    end

    it "gives scripts the same kinds of things for one file and for several" do
      files = [5, 6].map do |pid|
        file("#{pid}.pb.gz", Profiles.build({ ["b /b.rb:1", "a /a.rb:1"] => [64, 2560, 64, 2560] }, period: 64,
                                                                                                    comments: { pid: pid, interval: 64, samples: 1, live_samples: 1, run: "a#{pid}-0" }))
      end
      one, both = [files.first(1), files].map { |given| JSON.parse(main("top", "--json", *given).out) }
      expect(one["metadata"]).to eq("processes" => 1, "pids" => [5], "same_pids" => [], "forked_pids" => [], "forked_from" => [], "intervals" => [64], "interval" => 64,
                                    "runs" => %w[a5-0], "spans" => [], "samples" => 1, "live_samples" => 1)
      expect(both["metadata"]).to eq("processes" => 2, "pids" => [5, 6], "same_pids" => [], "forked_pids" => [], "forked_from" => [], "intervals" => [64], "interval" => 64,
                                     "runs" => %w[a5-0 a6-0], "spans" => [], "samples" => 2, "live_samples" => 2)
      expect(one["error"]).to be_within(0.001).of(3.3063)
      expect(one["rows"].last).to eq("name" => "/a.rb:1", "flat" => 0, "cumulative" => 2560, "share" => 0.0, "cumulative_share" => 1.0,
                                     "samples" => 0, "cumulative_samples" => 1, "error" => nil,
                                     "cumulative_error" => one["error"])
      expect([one, both].map(&:keys)).to all(eq(%w[files metric unit by sort total error rows metadata]))
    end

    it "orders by what a row's own code allocated, or by all that it called" do
      path = file("cum.pb.gz", Profiles.build(["b /b.rb:1", "a /a.rb:1"] => [1, 40, 1, 40], ["c /c.rb:1"] => [1, 30, 1, 30]))
      orders = [[], %w[--sort flat], %w[--sort cum]].map { |options| names(main("top", "--json", *options, path)) }
      expect(orders).to eq([%w[/b.rb:1 /c.rb:1 /a.rb:1], %w[/b.rb:1 /c.rb:1 /a.rb:1], %w[/b.rb:1 /a.rb:1 /c.rb:1]])
      expect(main("top", "--sort", "cum", path).out.scan(%r{/\w\.rb:1$})).to eq(%w[/b.rb:1 /a.rb:1 /c.rb:1])
      expect(main("top", "--sort", "name", path).err).to start_with('memprofiler top: --sort must be one of flat, cum, not "name"')
    end

    it "names the file without classes among several" do
      plain = file("plain.pb.gz", Profiles.build(["a /a.rb:1"] => [1, 40, 1, 40]))
      expect(main("top", "--by", "class", heap, plain).to_a)
        .to eq([1, "", "memprofiler top: #{plain}: 1 of the 2 profiles in this sum are without class labels: leave them out, or " \
                       "collect them with flush(labels: [:class])\n"])
    end

    it "names a file that it can't read, and why" do
      File.write(bad = File.join(@dir, "bad.pb.gz"), "no profile, just text")
      File.write(empty = File.join(@dir, "empty.pb.gz"), "")
      File.binwrite(short = File.join(@dir, "short.pb.gz"), File.binread(heap)[0..-9])
      [bad, empty, short, missing = File.join(@dir, "missing")].each do |path|
        result = main("top", heap, path)
        expect([result.status, result.out]).to eq([1, ""])
        expect(result.err).to match(/\Amemprofiler top: #{Regexp.escape(path)}: .+\n\z/)
      end
      expect(main("top", missing).err).to end_with("missing: No such file or directory\n")
    end

    it "says that there are no classes, or that the file is of something else" do
      path = file("plain.pb.gz", Profiles.build(["a /a.rb:1"] => [1, 40, 1, 40]))
      expect(main("top", "--by", "class", path).to_a).to match([1, "", /\Amemprofiler top: #{Regexp.escape(path)}: the profile has no class labels/])
      cpu = Memprofiler::Profile.from_model(Profiles.build.model.merge(sample_types: [%w[cpu nanoseconds]], period_type: %w[cpu nanoseconds]))
      path = file("cpu.pb.gz", cpu)
      expect(main("top", path).to_a).to eq([1, "", "memprofiler top: #{path}: no metric inuse_space, only cpu\n"])
      expect(main("top", heap, path).err).to match(/\Amemprofiler top: these files can't be summed: #{Regexp.escape("#{path}, after #{heap}")}: the profiles' metrics differ/)
    end

    describe "what is given twice" do
      let(:parts) { [3, 5].map { |pid| Profiles.build({ ["a /a.rb:1"] => [1, 40, 1, 40] }, comments: { pid: pid, samples: pid }) } }
      let(:files) { [file("1.pb.gz", parts[0]), file("2.pb.gz", parts[1]), file("merged.pb.gz", parts.sum(parts.shift))] }

      def top(*given)
        result = main("top", "--json", *given)
        document = JSON.parse(result.out)
        [*document.values_at("total", "files"), result.err.lines.map { |line| line.delete_prefix("memprofiler top: note: ").chomp }]
      end

      it "counts a file once, by whatever names it has, and says so" do
        File.symlink(heap, link = File.join(@dir, "link"))
        expect(top(heap, heap)).to eq([520, [heap], ["#{heap} counts once, though it was given twice"]])
        expect(top(heap, link)).to eq([520, [heap], ["#{link} counts once, though it was given twice (as #{heap}, too)"]])
      end

      it "leaves out a sum of which all parts are given, and says so" do
        expect(top(*files)).to eq([80, files.first(2), ["#{files[2]} left out: the sum of #{files[0]}, #{files[1]}"]])
        expect(top(*files.first(2))).to eq([80, files.first(2), []])
        expect(top(files[2])).to eq([80, [files[2]], []])
      end

      # Of another run, maybe, as numbers of processes are used again: who named it must know.
      it "counts a sum and what may be its part both, and says so" do
        expect(top(*files.drop(1))).to eq([120, files.drop(1), ["#{files[2]} is a sum, maybe with #{files[1]} in it: these count twice"]])
        other = file("other.pb.gz", Profiles.build({ ["a /a.rb:1"] => [9, 900, 9, 900] }, comments: { pid: 3, samples: 9 }))
        expect(top(other, *files.drop(1)).first).to eq(900 + 40 + 80)
      end

      it "counts a folder's profiles, and their sum only without them" do
        files
        note = "#{@dir}: 2 profiles counted, #{files[0]}, #{files[1]}"
        expect(top(@dir)).to eq([80, files.first(2), ["#{files[2]} left out: the sum of #{files[0]}, #{files[1]}", note]])
        expect(top(@dir, files[2])).to match([80, files.first(2), include(note)])
        expect(top(@dir, "#{@dir}/.", files[0])).to match([80, files.first(2), include(note)])
        File.unlink(files[0])
        expect(top(@dir)).to eq([80, [files[2]], ["#{files[1]} left out: part of #{files[2]}", "#{@dir}: 1 profile counted, #{files[2]}"]])
      end

      # As in containers, where each run's processes may have the numbers of the last one's
      it "doesn't take another run's sum in a folder for a profile" do
        files
        [3, 5].each { |pid| file("#{pid}.2.pb.gz", Profiles.build({ ["a /a.rb:1"] => [2, 80, 2, 80] }, comments: { pid: pid, samples: 9 })) }
        file("merged.2.pb.gz", Memprofiler::Profile.sum([3, 5].map { |pid| Memprofiler::Profile.load("#{@dir}/#{pid}.2.pb.gz") }))
        total, counted, = top(@dir)
        expect([total, counted.map { |path| File.basename(path) }]).to eq([240, %w[1.pb.gz 2.pb.gz 3.2.pb.gz 5.2.pb.gz]])
      end
    end

    it "says of a folder without profiles why it can't be counted" do
      File.write("#{@dir}/.hidden.pb.gz", "")
      File.write("#{@dir}/other", "")
      expect(main("top", @dir).to_a).to eq([1, "", "memprofiler top: #{@dir}: a folder without profiles (files named *.pb.gz)\n"])
      File.write(bad = "#{@dir}/bad.pb.gz", "no profile, just text")
      expect(main("top", @dir).to_a).to match([1, "", /\Amemprofiler top: #{bad}: .+\n\z/])
    end

    it "says in a line that its output can't be written", if: File.exist?("/dev/full") do
      { ["top", heap] => "memprofiler top", ["help"] => "memprofiler" }.each do |words, name|
        _, err, status = Open3.capture3(Command::CLEAN, "sh", "-c", 'exec "$@" > /dev/full', "sh", Command::RUBY, Command::EXECUTABLE, *words)
        expect([status.exitstatus, err]).to eq([1, "#{name}: cannot write the output: No space left on device\n"])
      end
    end

    it "ends quietly when its reader has seen enough" do
      reader, writer = IO.pipe
      reader.close
      pid = Process.spawn(Command::CLEAN, Command::RUBY, Command::EXECUTABLE, "top", heap,
                          out: writer, err: File.join(@dir, "err"))
      writer.close
      Process.wait(pid)
      expect(File.read(File.join(@dir, "err"))).to eq("")
    end

    it "cuts names on a terminal only" do
      long = "/app/#{"a" * 300}.rb"
      path = file("long.pb.gz", Profiles.build(["a #{long}:77"] => [1, 40, 1, 40]))
      expect(main("top", path).out).to include("#{long}:77\n")
      reader, _, pid = PTY.spawn(Command::CLEAN, Command::RUBY, Command::EXECUTABLE, "top", path)
      reader.winsize = [24, 100]
      lines = []
      begin
        reader.each_line { |line| lines << line.chomp }
      rescue Errno::EIO
        nil # how the end of a terminal looks on Linux
      end
      Process.wait(pid)
      expect(lines.find { |line| line.end_with?(":77") }.size).to be_between(60, 100)
    end
  end
end
