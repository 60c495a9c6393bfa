# frozen_string_literal: true

require "memprofiler/rack"
require "memprofiler/report"
require "memprofiler/report/json"
require_relative "../support/command"
require_relative "../support/random_profile"

# Files that a seed makes, through all that reads one: each is shown, or refused by an error of ours. Other seeds, by hand:
# MEMPROFILER_SEEDS=100000..200000.
RSpec.describe "profiles that nobody would write" do
  WAYS = %i[line file gem function class label:thread label:é].freeze

  # An ArgumentError is a refusal where this library raised it itself.
  def survive
    yield
  rescue Memprofiler::Error
    nil
  rescue ArgumentError => e
    unless e.backtrace.first.match?(%r{/lib/memprofiler/(?:combination|refusals|arguments)\.rb:\d+:in .*(?:add|refuse|subtract|settle|model|choice|twice|no_earlier|mixture)})
      raise
    end
  end

  def read_all(profile, ways = WAYS)
    survive { profile.metadata && profile.time && profile.labels && profile.samples && profile.comments }
    report = Memprofiler::Report.new(profile, width: 60, directory: "/app")
    survive { expect(report.head).to be_valid_encoding }
    profile.sample_types.each_key do |metric|
      ways.each do |by|
        survive { profile.top(metric, by: by, sort: :cumulative) }
        survive { expect(report.table(metric, by: by, count: 1)).to be_valid_encoding }
        survive { expect(report.table(metric, by: by, sort: :cumulative)).to be_valid_encoding }
        survive { expect(JSON.parse(Memprofiler::Report::JSON.generate(profile, metric, by: by, count: nil, files: ["x"]))).to be_a(Hash) }
      end
    end
    survive { Memprofiler::Report::Head.new(profile).twice }
    show(profile) if (%i[alloc_objects alloc_space inuse_objects inuse_space] - profile.sample_types.keys).empty?
  end

  # What the pages of Rack make of it
  def show(profile)
    WAYS.each { |by| survive { Memprofiler::Rack::Pages.top(profile, "/x", metric: :inuse_space, by: by, count: 30, sort: :flat) } }
    survive { Memprofiler::Rack::FlameGraph.page(profile, "/x", :alloc_space) }
    survive { Memprofiler::Rack::LegacyText.of(profile) }
  end

  def combine(one, other)
    [-> { one - other }, -> { one + other }, -> { Memprofiler::Profile.sum([other, one, one]) }].each do |way|
      result = survive(&way)
      next unless result

      read_all(result, %i[line class])
      survive { read_all(Memprofiler::Profile.new(result.pprof_data), [:gem]) }
    end
  end

  it "are shown or refused, and end nothing" do
    first, last = (ENV["MEMPROFILER_SEEDS"] || "1..100").split("..").map { |seed| Integer(seed) }
    before = nil
    read = 0
    (first..last).each do |seed|
      profile = survive { Memprofiler::Profile.new(RandomProfile.new(seed).bytes).tap(&:model) }
      next unless profile

      read += 1
      read_all(profile)
      combine(profile, before) if before
      combine(profile, profile)
      before = profile
    rescue StandardError, ScriptError, NoMemoryError, SystemStackError => e
      raise e.class, "seed #{seed}: #{e.message}", e.backtrace
    end
    expect(read).to be > (last - first) / 3
  end

  it "are shown or refused by top and merge", :command do
    (1..12).each do |seed|
      paths = [seed, seed + 100].map { |each| "#{@dir}/#{each}".tap { |path| File.binwrite(path, RandomProfile.new(each).bytes) } }
      [["top", paths[0]], ["top", "--json", *paths], ["top", "--by", "gem", paths[0]], ["merge", "#{@dir}/sum#{seed}", *paths]].each do |words|
        answer = main(*words)
        expect([words, answer.status]).to match([words, be_between(0, 1)])
        expect(answer.err.lines).to all(match(/\Amemprofiler (?:top|merge): /))
      end
    end
  end
end
