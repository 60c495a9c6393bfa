# frozen_string_literal: true

require "timeout"
require "zlib"
require_relative "../support/child"
require_relative "../support/command"
require_relative "../support/profiles"
require_relative "../support/wire"

# Files that somebody made to harm who opens them. More of the decoder's refusals are in codec_spec.rb and in
# spec/core/test_codec_decode.c; what no list has is for the fuzzer (rake core:fuzz).
RSpec.describe "a profile of somebody else's" do
  include Wire

  # Two strings, one sample type, one function, one location
  let(:head) { field(1, "\x08\x01\x10\x01".b) + field(6, "") + field(6, "x") + field(5, "\x08\x01\x10\x01".b) + field(4, "\x08\x01\x22\x02\x08\x01".b) }
  let(:sample) { field(2, field(1, "\x01") + field(2, "\x01")) }

  # In a process that may have no more than so many bytes; its answer is what came of it.
  def read(bytes, gigabytes: 3)
    Dir.mktmpdir do |dir|
      File.binwrite(path = File.join(dir, "x.pb.gz"), bytes)
      limit = ENV["MEMPROFILER_ASAN"] == "1" ? "" : "Process.setrlimit(:AS, #{gigabytes} << 30)"
      return Child.value(<<~RUBY)
        #{limit}
        begin
          profile = Memprofiler::Profile.load(#{path.dump})
          [profile.total(:x), profile.labels.size, profile.comments.size]
        rescue Memprofiler::DecodeError => e
          e.message.delete_prefix(#{path.dump}).delete_prefix(": ")
        rescue NoMemoryError
          "no memory"
        end
      RUBY
    end
  end

  it "is read where nothing is wrong with it" do
    expect(read(head + sample)).to eq([1, 0, 0])
  end

  it "may be packed again and again: it is unpacked once" do
    bomb = Zlib.gzip(Zlib.gzip(Zlib.gzip("\0" * 50_000_000)))
    expect(read(bomb)).to eq("gzip, but no pprof profile in it")
  end

  it "unpacks to no more than 512 MB" do
    part = Zlib.gzip("\0" * (32 << 20))
    expect(read(part * 17)).to eq("larger than #{512 << 20} bytes uncompressed")
    expect(read((Zlib.gzip("") * 300_000) + Zlib.gzip(head + sample))).to eq([1, 0, 0]) # 300,000 empty files in one
  end

  {
    "groups in groups" => [->(head, _) { head + ("\xA3\x06".b * 1_000_000) }, /not a? ?pprof|cut short|damaged|not gzip/],
    "groups in a sample" => [->(head, spec) { head + spec.field(2, "\x2B".b * 1_000_000) }, "damaged pprof profile"],
    "messages in messages" => [->(head, spec) { head + spec.field(2, (1..200).reduce("".b) { |inner, _| spec.field(3, inner) }) }, /sample 1 has 0 values for 1 types|damaged/],
    "a string that is longer than the file" => [->(head, _) { "#{head}\x32\xFF\xFF\xFF\xFF\x07".b }, "cut short"],
    "a length of 2**63" => [->(head, _) { "#{head}\x32\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01".b }, "cut short"],
    "a number without end" => [->(head, _) { head + ("\xFF".b * 1_000) }, /cut short|not gzip and not|damaged/],
    "a count of values" => [->(head, spec) { head + spec.field(2, spec.field(1, "\x01") + spec.field(2, "\x01" * 10_000_000)) }, "a message of 10000008 bytes in it; at most 1048576 are read"],
    "a stack of the same location" => [->(head, spec) { head + spec.field(2, spec.field(1, "\x01" * 60_000_000) + spec.field(2, "\x01")) }, /./],
    "labels of one sample" => [->(head, spec) { head + spec.field(2, spec.field(1, "\x01") + spec.field(2, "\x01") + (spec.field(3, "\x08\x01\x18\x01".b) * 5_000_000)) }, /./],
    "comments" => [->(head, spec) { head + ("\x6A\x01\x01".b * 10_000_000) + spec.sample }, /./],
    "samples without anything" => [->(head, _) { head + ("\x12\x03\x12\x01\x01".b * 20_000_000) }, /./]
  }.each do |what, (make, answer)|
    it "may have no more #{what} than memory is for" do
      got = read(make.call(head, self))
      expect(got).to be_an(Array).or(match(answer))
      expect(got).not_to eq("no memory")
    end
  end

  it "has no name that crashes the look for programs of RubyGems: one with a NUL", :command do
    Profiles.build({ ["f /json.rb:2", "g /x/\0y/bin/rake:3"] => [1, 40, 1, 40], ["f /a.rb:1"] => [1, 90, 1, 90] }).write("#{@dir}/x.pb.gz")
    expect(main("top", "-n", "1", "--metric", "inuse_space", "#{@dir}/x.pb.gz")).to have_attributes(status: 0, err: "", out: include("/x/\\x00y/bin/rake:3"))
  end

  it "has no comment that is taken for a number and is none", :command do
    evil = { "processes" => "abc", "interval" => "x", "samples" => "-5", "live_samples" => "1.5", "heap_bytes" => "many", "track_one_in" => "all", "processes_without_class" => "some" }
    [evil, { "processes" => "2", "samples" => "3" }].each_with_index { |comments, i| Profiles.build({ ["a /a.rb:1"] => [1, 40, 1, 40] }, comments: comments).write("#{@dir}/#{i}.pb.gz") }
    expect(Memprofiler::Profile.load("#{@dir}/0.pb.gz").metadata).to eq({})
    [["#{@dir}/0.pb.gz"], ["#{@dir}/0.pb.gz", "#{@dir}/1.pb.gz"], ["#{@dir}/1.pb.gz", "#{@dir}/0.pb.gz"]].each do |paths|
      expect(main("top", *paths)).to have_attributes(status: 0, err: "")
      expect(main("top", "--json", *paths)).to have_attributes(status: 0, err: "")
    end
    expect(main("merge", "#{@dir}/sum", "#{@dir}/0.pb.gz", "#{@dir}/1.pb.gz")).to have_attributes(status: 0)
  end

  it "may be empty, and say of the heap what it likes" do
    [{ heap_bytes: 500_000_000 }, { heap_bytes: 500_000_000, heap_live_slots: "x" }, { heap_bytes: 500_000_000, heap_live_slots: 0 },
     { heap_bytes: 500_000_000, heap_live_slots: -3 }].each do |comments|
      expect(Memprofiler::Report.new(Profiles.build({}, comments: comments)).head).to match(/no object was sampled/)
    end
  end

  # As numbers of steps, not of seconds: each of these took minutes to hours.
  it "has no name that takes hours to be told a gem's", :command do
    names = ["/gems/" * 20_000, "/gems/#{"a-1" * 40_000}", "/gems/a-1#{".1" * 60_000}", "/gems/#{"-1.1.1" * 20_000}", "/bundler/gems/#{"a-1234567" * 10_000}",
             "/ruby/vendor_ruby/" * 10_000, "(eval at #{"x:1" * 40_000}", "/ruby/1.1.1/bin/#{"a" * 100_000}", "#{"/bin/" * 20_000}\n", "/é" * 60_000]
    stacks = names.each_with_index.to_h { |name, i| [["f /#{name.delete_prefix("/").tr(" ", "_")}:#{i + 1}"], [1, 40, 1, 40]] }
    Profiles.build(stacks).write("#{@dir}/x.pb.gz")
    Timeout.timeout(120) do
      %w[gem line file].each { |by| expect(main("top", "--by", by, "#{@dir}/x.pb.gz").status).to eq(0) }
    end
  end
end
