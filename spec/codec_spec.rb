# frozen_string_literal: true

require "memprofiler"
require "objspace"
require "tempfile"
require "zlib"
require_relative "support/go"
require_relative "support/profiles"

RSpec.describe "Memprofiler::Codec" do
  let(:codec) { Memprofiler::Codec }
  let(:model) do
    {
      sample_types: [%w[alloc_objects count], %w[alloc_space bytes], %w[inuse_objects count], %w[inuse_space bytes]],
      default_sample_type: "inuse_space", period_type: %w[objects count], period: 512,
      time_nanos: 1_700_000_000_123_456_789, duration_nanos: 1_500_000_000,
      comments: ["memprofiler: 0.1.0", "ruby: 3.1.2 – x86_64"], mapping: ["ruby"],
      functions: [["Foo#bar", "", "/app/foo.rb", 3], ["<main>", "", "/app/main.rb", 0],
                  ["Array#map", "", "", 0], ["block (2 levels) in Foo::Bär.baz", "", "/app/foo.rb", 20]],
      locations: [[0, 4, 0xabcdef012345], [1, 9, 1], [2, 0, (2**64) - 1], [3, 21, 2**63]],
      samples: [
        [[2, 0, 1], [3, 120, 1, 40], { "class" => "String" }],
        [[2, 0, 1], [7, 280, 7, 280], { "class" => "Array", "age" => [3, "collections"] }],
        [[3, 0, 3, 1], [2**40, 2**62, 0, 0], nil],
        [[1], [1, -(2**63), 1, (2**63) - 1], { "age" => [0, "collections"], "line" => [12, ""] }],
        [[], [1, 40, 0, 0], nil]
      ]
    }
  end

  def change(model, *path, key, value)
    changed = Marshal.load(Marshal.dump(model))
    target = path.empty? ? changed : changed.dig(*path)
    target[key] = value
    changed
  end

  def everything_in(object)
    case object
    when Hash then [object, *object.flat_map { |pair| pair.flat_map { |item| everything_in(item) } }]
    when Array then [object, *object.flat_map { |item| everything_in(item) }]
    else [object]
    end
  end

  describe ".encode and .decode" do
    it "give the model back" do
      expect(codec.decode(codec.encode(model))).to eq(model)
    end

    it "write gzip without a time, the same bytes each time" do
      bytes = codec.encode(model)
      expect(bytes).to be_frozen
      expect(bytes.encoding).to eq(Encoding::BINARY)
      expect(bytes[0, 8]).to eq("\x1f\x8b\x08\0\0\0\0\0".b)
      expect(codec.encode(codec.decode(bytes))).to eq(bytes)
    end

    it "read what is not gzipped, and several gzip files in one" do
      raw = Zlib.gunzip(codec.encode(model))
      expect(codec.decode(raw)).to eq(model)
      expect(codec.decode(Zlib.gzip(raw[0, 100]) + Zlib.gzip(raw[100..]))).to eq(model)
    end

    it "freeze all that is decoded, and make UTF-8 of every string" do
      parts = everything_in(codec.decode(codec.encode(model)))
      expect(parts).to all(be_frozen)
      strings = parts.grep(String)
      expect(strings.map(&:encoding).uniq).to eq([Encoding::UTF_8])
      expect(strings).to all(be_valid_encoding)
    end

    it "share what neighbours have in common" do
      first, second, = codec.decode(codec.encode(model))[:samples]
      expect(first[0]).to equal(second[0])
      many = change(model, :samples, Array.new(4) { |i| [[i % 2], [1, 1, 1, 1], { "class" => "C#{i % 2}" }] })
      hashes = codec.decode(codec.encode(many))[:samples].map(&:last)
      expect(hashes.map(&:object_id).uniq.size).to eq(2)
      expect(hashes).to eq([{ "class" => "C0" }, { "class" => "C1" }] * 2)
    end

    it "tell labels of different keys and the same value apart" do
      labels = [{ "class" => "x" }, { "thread" => "x" }, { "class" => "x" }, { "thread" => "x", "class" => "x" }]
      many = change(model, :samples, labels.map { |hash| [[0], [1, 1, 1, 1], hash] })
      expect(codec.decode(codec.encode(many))[:samples].map(&:last)).to eq(labels)
    end

    it "do with what must be there" do
      least = { sample_types: [["", ""]], functions: [], locations: [], samples: [] }
      expect(codec.decode(codec.encode(least)))
        .to eq(least.merge(default_sample_type: nil, period_type: nil, period: 0, time_nanos: 0, duration_nanos: 0,
                           comments: [], mapping: []))
    end

    it "hold under a collection at every allocation" do
      GC.stress = true
      decoded = codec.decode(codec.encode(model))
    ensure
      GC.stress = false
      expect(decoded).to eq(model)
    end

    it "work on large profiles in several threads" do
      stack = Array.new(300) { |i| i % 4 }
      large = change(model, :samples, Array.new(5000) { |i| [stack.rotate(i), [i, i * 40, 1, 40], nil] })
      bytes = codec.encode(large)
      results = Array.new(4) { Thread.new { codec.encode(codec.decode(bytes)) } }.map(&:value)
      expect(results).to all(eq(bytes))
    end
  end

  describe ".encode" do
    def encoded(changed)
      codec.decode(codec.encode(changed))
    end

    it "leaves out a system name that is the name" do
      expect(encoded(change(model, :functions, 1, 1, "<main>"))[:functions]).to eq(model[:functions])
      expect(encoded(change(model, :functions, 1, 1, "_Zmain"))[:functions][1][1]).to eq("_Zmain")
    end

    it "writes every string as UTF-8" do
      names = ["caf\xe9".dup.force_encoding("ISO-8859-1"), "\xff\xfe#m".b, "a\x82\xa0".dup.force_encoding("Shift_JIS"), "é".b]
      functions = names.map { |name| [name, nil, nil, 0] }
      expect(encoded(change(model, :functions, functions))[:functions].map(&:first))
        .to eq(["café", "\u{fffd}\u{fffd}#m", "aあ", "é"])
    end

    it "leaves out labels without text, and writes the first mapping" do
      expect(encoded(change(model, :samples, 0, 2, { "a" => "", "b" => "c" }))[:samples][0][2]).to eq("b" => "c")
      expect(encoded(change(model, :samples, 0, 2, {}))[:samples][0][2]).to be_nil
      expect(encoded(change(model, :mapping, %w[ruby other]))[:mapping]).to eq(["ruby"])
    end

    errors = {
      [:sample_types, nil] => [TypeError, "sample_types must be an Array of [type, unit], not NilClass"],
      [:sample_types, []] => [:encode, "sample_types must not be empty"],
      [:sample_types, 1, "x"] => [TypeError, "sample type 1: it must be [type, unit], not String"],
      [:sample_types, 1, 1, 7] => [TypeError, "sample type 1: the unit must be a String, not Integer"],
      [:sample_types, 1, ["a"]] => [:encode, "sample type 1: it must be [type, unit], not 1 elements"],
      [:period_type, "x"] => [TypeError, "period_type must be [type, unit], not String"],
      [:period, 1.5] => [TypeError, "period must be an Integer, not Float"],
      [:time_nanos, 2**63] => [:encode, "time_nanos is outside 64 bits: 9223372036854775808"],
      [:duration_nanos, -(2**63) - 1] => [:encode, "duration_nanos is outside 64 bits: -9223372036854775809"],
      [:comments, [1]] => [TypeError, "comment 0: it must be a String, not Integer"],
      [:comments, "x"] => [TypeError, "comments must be an Array of Strings, not String"],
      [:mapping, "ruby"] => [TypeError, "mapping must be an Array of file names, not String"],
      %i[default_sample_type inuse] => [TypeError, "default_sample_type must be a String, not Symbol"],
      [:functions, {}] => [TypeError, "functions must be an Array, not Hash"],
      [:functions, 2, ["x", "", ""]] => [:encode, "function 2: it must be [name, system_name, file, start_line], not 3 elements"],
      [:functions, 2, 0, nil] => [TypeError, "function 2: the name must be a String, not NilClass"],
      [:functions, 2, 3, nil] => [TypeError, "function 2: the start line must be an Integer, not NilClass"],
      [:locations, 3, 0, 4] => [:encode, "location 3: function 4 is not in the model, which has 4"],
      [:locations, 3, 1, "x"] => [TypeError, "location 3: the line must be an Integer, not String"],
      [:locations, 3, 2, -1] => [:encode, "location 3: the address is not within 0...2**64: -1"],
      [:locations, 3, 2, 2**64] => [:encode, "location 3: the address is not within 0...2**64: 18446744073709551616"],
      [:samples, nil] => [TypeError, "samples must be an Array, not NilClass"],
      [:samples, 2, 0, nil] => [TypeError, "sample 2: the stack must be an Array of locations, not NilClass"],
      [:samples, 2, 0, 1, 4] => [:encode, "sample 2: location 4 is not in the model, which has 4"],
      [:samples, 2, 0, 1, -1] => [:encode, "sample 2: location -1 is not in the model, which has 4"],
      [:samples, 2, 0, 1, 2**70] => [:encode, "sample 2: location is outside 64 bits: 1180591620717411303424"],
      [:samples, 2, 1, [1, 2, 3]] => [:encode, "sample 2: the values must be one for each sample type, not 3 elements"],
      [:samples, 2, 1, 3, 0.5] => [TypeError, "sample 2: a value must be an Integer, not Float"],
      [:samples, 2, 2, []] => [TypeError, "sample 2: the labels must be a Hash or nil, not Array"],
      [:samples, 2, 2, { a: "x" }] => [TypeError, "sample 2: a label's key must be a String, not Symbol"],
      [:samples, 2, 2, { "a" => 3 }] => [TypeError, "sample 2: a label must be a String or [Integer, unit], not Integer"],
      [:samples, 2, 2, { "a" => ["x", ""] }] => [TypeError, "sample 2: a label's number must be an Integer, not String"]
    }
    errors.each do |change, (error, message)|
      it "refuses #{change[0..-2].join(" ")} #{change[-1].inspect}: #{message}" do
        error = Memprofiler::EncodeError if error == :encode
        expect { codec.encode(change(model, *change)) }.to raise_error(error, message)
      end
    end

    it "refuses what is no model" do
      expect { codec.encode(nil) }.to raise_error(TypeError, "the model must be a Hash, not NilClass")
      expect { codec.encode({}) }.to raise_error(TypeError, /sample_types must be an Array/)
    end

    # (no_asan: its allocator keeps what is freed for a while.)
    it "gives all memory back, also when it raises", :no_asan do
      stack = Array.new(100_000, 0)
      good = change(model, :samples, [[stack, [1, 1, 1, 1], nil]])
      bad = change(good, :samples, 0, 2, 7)
      bytes = codec.encode(good)
      resident = -> { File.read("/proc/self/statm").split[1].to_i * 4096 }
      attempt = lambda do |_|
        expect { codec.encode(bad) }.to raise_error(TypeError)
        expect { codec.decode(bytes[0..-2]) }.to raise_error(Memprofiler::DecodeError)
        codec.decode(bytes, max_bytes: 1_000_000)
      end
      skip "needs /proc" unless File.exist?("/proc/self/statm")
      # As much garbage each time: what there was at most stays with the process.
      attempts = lambda do |_|
        20.times(&attempt)
        GC.start
      end
      2.times(&attempts)
      before = resident.call
      5.times(&attempts)
      expect(resident.call - before).to be < 20_000_000 # 400 kB and more would be lost each time
    end
  end

  describe ".decode" do
    def refuse(bytes, message, **options)
      expect { codec.decode(bytes, **options) }.to raise_error(Memprofiler::DecodeError, message)
    end

    let(:bytes) { codec.encode(model) }

    it "says why bytes are no profile" do
      refuse("", "empty")
      refuse(Zlib.gzip(""), "empty")
      refuse("#!/usr/bin/ruby\nputs 1\n", "not gzip and not a pprof profile")
      refuse(Zlib.gzip("some text\n"), "gzip, but no pprof profile in it")
      refuse(bytes[0..-5], "cut short")
      refuse(bytes[0, 2], "cut short")
      refuse(Zlib.gunzip(bytes)[0..-5], "cut short")
      refuse("#{bytes}\n", "garbage after the end")
      refuse(bytes.sub(/.{4}\z/mn, "\0\0\0\0".b), "damaged gzip data")
    end

    it "reads no more than max_bytes" do
      size = Zlib.gunzip(bytes).bytesize
      expect(codec.decode(bytes, max_bytes: size)).to eq(model)
      refuse(bytes, "larger than #{size - 1} bytes uncompressed", max_bytes: size - 1)
      refuse(Zlib.gzip("\0" * 10_000_000), "larger than 1000 bytes uncompressed", max_bytes: 1000)
    end

    # The estimate is found by what is refused, the truth by objspace.
    it "makes no more objects than max_model_bytes, of which its estimate is good" do
      stacks = Array.new(2_000) { |i| [Array.new(1 + (i % 40)) { |depth| "f#{i % 7}_#{depth} /app/a.rb:#{depth}" }, [1, i, 1, i]] }.to_h
      large = Array.new(2_000) { |i| [["f /app/a.rb:#{i}"], Array.new(4, (2**63) - 1 - i)] }.to_h
      [stacks, large, { ["f /app/a.rb:1"] => [1, 40, 1, 40] }].each do |samples|
        bytes = Profiles.build(samples).pprof_data
        seen = {}.compare_by_identity
        count = lambda do |object|
          next 0 if seen[object]

          seen[object] = true
          inside = object.is_a?(Array) || object.is_a?(Hash) ? object.to_a.sum(&count) : 0
          ObjectSpace.memsize_of(object) + inside
        end
        fits = lambda do |limit|
          codec.decode(bytes, max_model_bytes: limit) && true
        rescue Memprofiler::DecodeError
          false
        end
        truth = count.call(codec.decode(bytes))
        estimate = (1..10_000_000).bsearch(&fits)
        expect(estimate).to be_within((truth * 0.35) + 4_000).of(truth)
        refuse(bytes, / would take more than #{estimate - 1} bytes\z/, max_model_bytes: estimate - 1)
      end
    end

    it "refuses a small file with more samples than memory is for" do
      head = "\x32\x00\x32\x01a\x32\x01b\x0a\x04\x08\x01\x10\x02\x22\x06\x08\x01\x22\x02\x08\x01\x2a\x04\x08\x01\x10\x01".b
      refuse(head + ("\x12\x06\x0a\x01\x01\x12\x01\x01".b * 12_000_000), "its 12000000 samples, 1 locations and 3 strings would take more than 536870912 bytes")
    end

    it "names an id that leads nowhere" do
      # Two sample types' worth of a profile: a sample of location 7, and no locations.
      raw = "\x0a\x00\x12\x06\x0a\x01\x07\x12\x01\x01\x32\x00".b
      refuse(raw, "location 7 is not in the profile")
      refuse("\x0a\x02\x08\x05\x32\x00".b, "string index 5 is out of range: the profile has 1 strings")
    end

    it "checks its arguments" do
      expect { codec.decode(nil) }.to raise_error(TypeError, "bytes must be a String, not NilClass")
      expect { codec.decode(bytes, max_bytes: "1") }.to raise_error(TypeError, "max_bytes must be an Integer within 1..2147483647, not String")
      [0, -1, 2**31, 2**70].each do |limit|
        expect { codec.decode(bytes, max_bytes: limit) }
          .to raise_error(ArgumentError, "max_bytes must be within 1..2147483647, not #{limit}")
      end
      expect { codec.decode(bytes, other: 1) }.to raise_error(ArgumentError, /unknown keyword/)
    end

    it "does not change or keep its argument" do
      given = +bytes
      codec.decode(given)
      given << "x"
      expect(given.bytesize).to eq(bytes.bytesize + 1)
    end
  end

  # What it does with samples is in spec/core/test_fit.c, and in that of the exporter.
  describe ".fit" do
    let(:bytes) { codec.encode(model) }

    it "gives back what fits, and tells how many samples there are" do
      fitted = codec.fit(bytes, 1_000, 1_000, 1_000_000)
      expect(fitted).to eq([bytes, model[:samples].size, 0, 0])
      expect(fitted[0]).to be_frozen
    end

    it "makes a profile of its own of what does not" do
      fitted, samples, merged, = codec.fit(bytes, 1, 1_000, 1_000_000)
      expect([samples, merged]).to eq([model[:samples].size] * 2)
      expect(codec.decode(fitted)[:samples].map { |_, values,| values.first(2) }).to eq([[3 + 7 + (2**40) + 1 + 1, 120 + 280 + (2**62) - (2**63) + 40]])
      expect(fitted).to be_frozen
    end

    it "refuses what is no profile, and limits that are none" do
      expect { codec.fit("nothing", 1, 2, 1) }.to raise_error(Memprofiler::DecodeError)
      expect { codec.fit(nil, 1, 2, 1) }.to raise_error(TypeError, "bytes must be a String, not NilClass")
      expect { codec.fit(bytes, 0, 2, 1) }.to raise_error(ArgumentError, "samples must be within 1..2147483647, not 0")
      expect { codec.fit(bytes, 1, 1, 1) }.to raise_error(ArgumentError, "depth must be within 2..2147483647, not 1")
      expect { codec.fit(bytes, 1, 2, 2**40) }.to raise_error(ArgumentError, /size must be within 1..2147483647/)
      expect { codec.fit(bytes, 1, 2, "1") }.to raise_error(TypeError, /size must be an Integer within/)
    end
  end

  describe "beside Go's pprof", :go do
    # Go's older versions drop a sample without a stack and number locations by their first use;
    # newer ones keep both as they are.
    let(:stacked) do
      samples = model[:samples].reject { |stack, *| stack.empty? }
      order = samples.flat_map(&:first).uniq
      model.merge(locations: model[:locations].values_at(*order),
                  samples: samples.map { |stack, *rest| [stack.map { |location| order.index(location) }, *rest] })
    end

    around do |example|
      Tempfile.create(["heap", ".pb.gz"]) do |file|
        file.binmode
        file.write(codec.encode(stacked))
        file.flush
        @path = file.path
        example.run
      end
    end

    it "is read with every field in its place" do
      raw = Go.pprof("-raw", @path).force_encoding("UTF-8").gsub(/(:\d+):0 s=/, '\1 s=') # newer ones add the column
      expect(raw.lines(chomp: true)).to eq(<<~RAW.lines(chomp: true))
        Comment: memprofiler: 0.1.0
        Comment: ruby: 3.1.2 – x86_64
        PeriodType: objects count
        Period: 512
        Time: #{Time.at(0, model[:time_nanos], :nanosecond).strftime("%Y-%m-%d %H:%M:%S.%N %z %Z")}
        Duration: 1.5s
        Samples:
        alloc_objects/count alloc_space/bytes inuse_objects/count inuse_space/bytes[dflt]
                  3        120          1         40: 1 2 3#{" "}
                        class:[String]
                  7        280          7        280: 1 2 3#{" "}
                        class:[Array]
                        age:[3 collections]
         1099511627776 4611686018427387904          0          0: 4 2 4 3#{" "}
                  1 -9223372036854775808          1 9223372036854775807: 3#{" "}
                        age:[0 collections] line:[12]
        Locations
             1: 0xffffffffffffffff M=1 Array#map :0 s=0()
             2: 0xabcdef012345 M=1 Foo#bar /app/foo.rb:4 s=3()
             3: 0x1 M=1 <main> /app/main.rb:9 s=0()
             4: 0x8000000000000000 M=1 block (2 levels) in Foo::Bär.baz /app/foo.rb:21 s=20()
        Mappings
        1: 0x0/0x0/0x0 ruby  [FN][FL][LN]
      RAW
    end

    it "reads what Go writes of the same profile" do
      Tempfile.create do |copy|
        Go.pprof("-proto", "-output", copy.path, @path)
        decoded = codec.decode(File.binread(copy.path))
        expect(stacks(decoded)).to match_array(stacks(stacked))
        expect(decoded).to include(model.slice(:sample_types, :period_type, :period, :comments, :time_nanos))
      end
    end

    def stacks(model)
      model[:samples].map do |stack, values, labels|
        frames = stack.map do |location|
          function, line, address = model[:locations][location]
          [*model[:functions][function], line, address]
        end
        [frames, values, labels]
      end
    end

    it "reads a Go program's heap profile, with inlined lines" do
      profile = Go.run_program(<<~GO)
        package main

        import (
        \t"os"
        \t"runtime"
        \t"runtime/pprof"
        )

        var kept [][]byte

        func inlined() []byte { return make([]byte, 4096) }

        //go:noinline
        func keep(n int) {
        \tfor i := 0; i < n; i++ {
        \t\tkept = append(kept, inlined())
        \t}
        }

        func main() {
        \truntime.MemProfileRate = 1
        \tkeep(1000)
        \truntime.GC()
        \tpprof.WriteHeapProfile(os.Stdout)
        }
      GO
      decoded = codec.decode(profile)
      expect(decoded[:sample_types]).to eq(model[:sample_types])
      expect(decoded[:period_type]).to eq(%w[space bytes])
      expect(decoded[:period]).to eq(1)
      frames = stacks(decoded).find { |_, values, _| values[3] == 1000 * 4096 }
      expect(frames[0].map { |name, _, _, _, line| [name, line] }.first(3))
        .to eq([["main.inlined", 11], ["main.keep", 16], ["main.main", 22]])
      expect(frames[1]).to eq([1000, 4_096_000] * 2)
      expect(frames[2]["bytes"].first).to eq(4096)
    end
  end
end
