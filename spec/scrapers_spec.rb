# frozen_string_literal: true

require "memprofiler"
require_relative "support/raw_pprof"
require_relative "support/server"

# What Grafana Alloy (pyroscope.scrape) and Parca ask of a target, and what they make of the answer, held against a real server.
RSpec.describe "scrapers" do
  SCRAPED = File.read(File.join(__dir__, "apps/servers.ru"))
  LEAK_SCRAPED = SCRAPED.lines.index { |line| line.end_with?("# mark: leak\n") } + 1

  # Both are Go programs, whose client asks for gzip of its own accord, and unpacks what then says content-encoding: gzip.
  SCRAPES = [
    { who: "Alloy, profile.memory", agent: "Alloy/1.10.0", path: "/debug/pprof/allocs", takes: 200..299, allocations: :cumulative },
    { who: "Alloy, profile.godeltaprof_memory", agent: "Alloy/1.10.0", path: "/debug/pprof/delta_heap", takes: 200..299, allocations: :delta },
    { who: "Parca, memory by default", agent: "conprof/0.24.0", path: "/debug/pprof/allocs", takes: 200..200, allocations: :cumulative },
    { who: "Parca with delta: true", agent: "conprof/0.24.0", path: "/debug/pprof/allocs?seconds=1", takes: 200..200, allocations: :delta },
    { who: "Parca, configured for heap", agent: "conprof/0.24.0", path: "/debug/pprof/heap", takes: 200..200, allocations: :cumulative }
  ].freeze

  before(:context) { @server = Server.start(SCRAPED) }
  after(:context) { @server&.close }

  def ask(scrape)
    @server.get(scrape[:path], { "user-agent" => scrape[:agent], "accept-encoding" => "gzip" })
  end

  def raw(scrape) = RawPprof.read(ask(scrape).body)

  def leak(count) = @server.load(Array.new(count) { Net::HTTP::Get.new("/leak") })

  # As Alloy's delta code does: samples by the addresses of their stack and by their labels, values of equal ones added.
  def by_addresses(raw)
    addresses = raw[:locations].to_h { |bytes| RawPprof.message(bytes).then { |location| [location[1].first, location[3].first] } }
    raw[:samples].each_with_object(Hash.new { |hash, key| hash[key] = [0, 0, 0, 0] }) do |bytes, sums|
      sample = RawPprof.message(bytes)
      labels = sample[3].map { |label| RawPprof.message(label).transform_values(&:first).transform_values { |index| raw[:strings][index] } }
      key = [RawPprof.numbers(sample[1]).map { |id| addresses.fetch(id) }, labels]
      sums[key] = sums[key].zip(RawPprof.numbers(sample[2])).map(&:sum)
    end
  end

  # Objects that the leak's line has made
  def leaked(raw, column)
    functions = raw[:functions].to_h { |bytes| RawPprof.message(bytes).then { |function| [function[1].first, raw[:strings][function[4].first.to_i]] } }
    lines = raw[:locations].to_h do |bytes|
      location = RawPprof.message(bytes)
      line = RawPprof.message(location[4].first)
      [location[1].first, functions[line[1].first].end_with?("/config.ru") && line[2].first == LEAK_SCRAPED]
    end
    raw[:samples].sum do |bytes|
      sample = RawPprof.message(bytes)
      RawPprof.numbers(sample[1]).any? { |id| lines[id] } ? RawPprof.numbers(sample[2])[column] : 0
    end
  end

  def value_type(raw, bytes)
    RawPprof.message(bytes).then { |type| [type[1], type[2]].map { |index| raw[:strings][index.first] } }
  end

  SCRAPES.each do |scrape|
    describe scrape[:who] do
      it "gets a status it takes, the content type, and a body which is a gzipped profile, packed once" do
        answer = ask(scrape)
        expect(scrape[:takes]).to cover(answer.code.to_i)
        # Alloy: "unexpected Content-Type", and a body that begins as HTML or JSON does, are errors.
        expect([answer["content-type"], answer["content-encoding"], answer["location"]]).to eq(["application/octet-stream", nil, nil])
        expect(answer.body.byteslice(0, 2).bytes).to eq([0x1f, 0x8b])
        expect(Zlib.gunzip(answer.body).byteslice(0, 2).bytes).not_to eq([0x1f, 0x8b])
      end

      it "gets four sample types, and period and types that never vary" do
        leak(5)
        first, second = Array.new(2) { raw(scrape) }
        # Alloy's delta code has room for four.
        expect(first[:sample_types].map { |bytes| value_type(first, bytes) })
          .to eq([%w[alloc_objects count], %w[alloc_space bytes], %w[inuse_objects count], %w[inuse_space bytes]])
        told = [first, second].map { |one| [one[:period], value_type(one, one[:period_type].first), one[:sample_types].map { |bytes| value_type(one, bytes) }] }
        expect(told.first.first(2)).to eq([[1], %w[objects count]])
        expect(told.uniq.size).to eq(1)
        expect(second[:time_nanos].first).to be > first[:time_nanos].first
        expect(first[:strings].first).to eq("")
        expect(RawPprof.numbers(first[:comments]).map { |index| first[:strings][index] }.grep(/\AexecutableInfo=/)).to eq([]) # Parca reads these
        expect(scrape[:allocations] == :delta ? second[:duration_nanos].first : second[:duration_nanos]).to scrape[:allocations] == :delta ? be_positive : eq([]).or(eq([0]))
      end

      it "gets locations with addresses of their own, which stay, and nothing that has to be symbolized" do
        leak(5)
        first, second = Array.new(2) { raw(scrape) }
        tables = [first, second].map do |one|
          names = one[:functions].to_h { |bytes| RawPprof.message(bytes).then { |f| [f[1].first, [2, 4].map { |field| one[:strings][f[field].first.to_i] }] } }
          one[:functions].each { |bytes| RawPprof.message(bytes).then { |f| expect(f[3].first.to_i == f[2].first.to_i && f[2].first.to_i.positive?).to be(false) } }
          locations = one[:locations].map { |bytes| RawPprof.message(bytes) }
          lines = locations.map { |location| location[4].map { |line| RawPprof.message(line) } }
          expect(lines.map(&:size).uniq).to eq([1]) # speedscope reads one line of a location
          expect(locations.flat_map { |location| location[3] }).to all(be_positive)
          expect([1, 3].map { |field| locations.map { |location| location[field] }.uniq.size }).to eq([locations.size] * 2)
          expect(locations.flat_map { |location| location[1] }.max).to be < 2**31
          locations.zip(lines).to_h { |location, (line)| [[*names.fetch(line[1].first), line[2].first], location[3].first] }
        end
        both = tables.first.keys & tables.last.keys
        expect(both.size).to be > 20 unless scrape[:allocations] == :delta
        expect(tables.first.slice(*both)).to eq(tables.last.slice(*both))
        mappings = first[:mappings].map { |bytes| RawPprof.message(bytes) }
        expect(mappings.map { |mapping| mapping.values_at(7, 8, 9) }).to eq([[[1], [1], [1]]])
      end

      it "gets each stack with its labels once, without a negative value" do
        leak(5)
        one = raw(scrape)
        expect(by_addresses(one).size).to eq(one[:samples].size)
        values = by_addresses(one).values.flatten
        expect(values.min || 0).to be >= 0 unless scrape[:path].include?("seconds")
        expect(by_addresses(one).values.flat_map { |four| four.first(2) }.min || 0).to be >= 0
        expect(one[:samples].flat_map { |bytes| RawPprof.message(bytes)[3] }.map { |label| one[:strings][RawPprof.message(label)[1].first] }.uniq - ["endpoint"]).to eq([])
      end

      it "gets all that was allocated between two scrapes, once" do
        raw(scrape)
        before = by_addresses(earlier = raw(scrape))
        if scrape[:allocations] == :cumulative
          leak(20)
          after = by_addresses(later = raw(scrape))
          # It takes the difference itself: what falls would be an error.
          expect(before.keys - after.keys).to eq([])
          expect(before.all? { |key, values| values.first(2).zip(after[key]).all? { |was, is| is >= was } }).to be(true)
          expect(leaked(later, 0) - leaked(earlier, 0)).to be_between(2000, 2010)
        elsif scrape[:path].include?("seconds")
          later, = @server.profile_of("/debug/pprof/allocs", -> { @server.get("/flushes").body.to_i }) { leak(20) }
          expect(later.top(:alloc_objects, by: :line).find { |row| row.name.end_with?("config.ru:#{LEAK_SCRAPED}") }.flat).to be_between(2000, 2010)
        else
          leak(20)
          expect([leaked(raw(scrape), 0), leaked(raw(scrape), 0)]).to match([be_between(2000, 2010), 0])
        end
      end
    end
  end

  # Both scrape some of these too unless they're told not to. Alloy prints the body with the status, Parca the status.
  %w[block mutex goroutine profile?seconds=14 delta_block delta_mutex fgprof?seconds=14].each do |name|
    it "#{name}, which a Ruby process has not got, is answered by 404 and a line of text, without waiting" do
      before = @server.get("/flushes").body
      answer = @server.get("/debug/pprof/#{name}", { "user-agent" => "Alloy/1.10.0" })
      expect([answer.code, answer["content-type"], answer["x-go-pprof"]]).to eq(["404", "text/plain; charset=utf-8", "1"])
      expect(answer.body).to match(%r{\AUnknown profile: there are /debug/pprof/heap, .*\n\z})
      expect(@server.get("/flushes").body).to eq(before)
    end
  end

  it "a scrape is not kept waiting by requests that wait for their seconds, as many as there may be" do
    flushes = -> { @server.get("/flushes").body.to_i }
    before = flushes.call
    waiting = Array.new(2) { Thread.new { @server.get("/debug/pprof/heap?seconds=3") } }
    sleep 0.01 until flushes.call >= before + 2
    codes = ["allocs", "heap", "delta_heap", "allocs?seconds=1"].map { |name| @server.get("/debug/pprof/#{name}").code }
    expect(waiting.map { |thread| thread.value.code }).to eq(%w[200 200])
    expect(codes).to eq(%w[200 200 200 429]) # not 2xx: an error at the scraper, and no half profile
  end
end
