# frozen_string_literal: true

require "memprofiler"

RSpec.describe Memprofiler do
  describe ".profile" do
    # The block's result is of no interest, what it kept is.
    def allocate(count, kept = [])
      count.times { kept << Object.new }
      kept
    end

    def objects(profile, metric = :alloc_objects, of: "Object")
      profile.samples.sum { |sample| sample.labels["class"] == of ? sample.values[metric] : 0 }
    end

    it "gives a profile of the block, as of a collection at its end" do
      kept = []
      profile = described_class.profile(interval: 1, labels: [:class]) do
        allocate(1000)
        allocate(300, kept)
      end
      expect(profile).to be_a(Memprofiler::Profile)
      expect(objects(profile)).to eq(1300)
      # The last values on the machine stack may keep a few of those that nobody holds.
      expect(objects(profile, :inuse_objects)).to be_between(kept.size, kept.size + 5)
    end

    it "has nothing of what came before and after" do
      before = allocate(100)
      profile = described_class.profile(interval: 1, labels: [:class]) { nil }
      after = allocate(100)
      expect(objects(profile)).to eq(0)
      expect(before.size + after.size).to eq(200)
    end

    it "takes all options of a collector" do
      options = { interval: 64, max_depth: 3, max_samples: 10, track_one_in: 2, liveness: :free, seed: 1 }
      profile = described_class.profile(**options) { allocate(10_000) }
      expect(profile.metadata).to include(interval: 64, liveness: "free")
      expect(profile.samples.map { |sample| sample.stack.size }.max).to be <= 4 # 3 and (truncated)
    end

    it "counts what finalizers allocate in the collection at its end" do
      ran = 0
      stub_const("LastWords", Class.new) # not Object: a few die later, in other examples
      finalizer = proc { Array.new(10) { LastWords.new } && ran += 1 }
      GC.disable
      profile = described_class.profile(interval: 1, labels: [:class]) do
        100.times { ObjectSpace.define_finalizer(String.new, finalizer) }
      end
      expect(ran).to be >= 90
      expect(objects(profile, of: "LastWords")).to eq(ran * 10)
    ensure
      GC.enable
    end

    it "never shows itself" do
      profile = described_class.profile(interval: 1) { allocate(10) }
      names = profile.top(:alloc_objects, by: :function).map(&:name)
      expect(names).to include(/allocate/)
      expect(names.grep(/\AMemprofiler/)).to be_empty
    end

    it "lets an exception through and stops" do
      collectors = []
      allow(Memprofiler::Collector).to receive(:new).and_wrap_original do |new, **options|
        new.call(**options).tap { |collector| collectors << collector }
      end
      expect { described_class.profile(interval: 1) { raise "mine" } }.to raise_error(RuntimeError, "mine")
      expect(catch(:out) { described_class.profile { throw :out, 3 } }).to eq(3)
      expect(collectors.map(&:running?)).to eq([false, false])
    end

    it "may be nested" do
      inner = nil
      outer = described_class.profile(interval: 1, labels: [:class]) do
        allocate(10)
        inner = described_class.profile(interval: 1, labels: [:class]) { allocate(20) }
      end
      expect([objects(outer), objects(inner)]).to eq([30, 20])
    end

    it "refuses to do without a block, and options that a collector or flush refuses" do
      expect { described_class.profile }.to raise_error(ArgumentError, "Memprofiler.profile needs a block")
      expect { described_class.profile(interval: 0) { nil } }.to raise_error(ArgumentError, /\Ainterval must be/)
      expect { described_class.profile(interval: "1") { nil } }.to raise_error(TypeError, /\Ainterval must be/)
      expect { described_class.profile(rate: 1) { nil } }.to raise_error(ArgumentError, /unknown keyword: :rate/)
      expect { described_class.profile(labels: [:colour]) { nil } }.to raise_error(ArgumentError, /\Alabels must be/)
      expect { described_class.profile(labels: :class) { nil } }.to raise_error(TypeError, /\Alabels must be/)
    end

    it "refuses options before the block runs" do
      runs = 0
      [{ labels: [:colour] }, { labels: nil }, { labels: "class" }, { interval: 0 }, { rate: 1 }].each do |options|
        expect { described_class.profile(**options) { runs += 1 } }.to raise_error(StandardError)
      end
      expect(runs).to eq(0)
    end
  end

  it "has one root for its errors" do
    classes = described_class.constants.map { |name| described_class.const_get(name) }.grep(Class)
    errors = classes.select { |klass| klass <= StandardError }
    expect(errors.map { |klass| klass.name.delete_prefix("Memprofiler::") })
      .to contain_exactly("Error", "NotStartedError", "AlreadyStartedError", "RactorError", "EncodeError", "ReadError",
                          "DecodeError", "WriteError", "PushError", "MissingLabelError")
    expect(errors).to all be <= Memprofiler::Error
  end
end
