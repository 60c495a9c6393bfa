# frozen_string_literal: true

module Torture
  # Up to Ruby 3.2 the end of a compaction looks at one value more than there is on each thread's VM stack: at what
  # an earlier call left there. If that object's page was given back to the system, Ruby crashes, without
  # any profiler. So there a program compacts, or gives back pages (run.rb), by its seed.
  def self.compacts? = RUBY_VERSION >= "3.3" || ENV["RUBY_GC_HEAP_FREE_SLOTS_MAX_RATIO"] == "1.0"

  Deed.add(:collect) { |_| GC.start }
  Deed.add(:collect_young) { |_| GC.start(full_mark: false, immediate_sweep: false) }
  Deed.add(:collect_lazily) { |_| GC.start(immediate_sweep: false) }
  Deed.add(:compact, weight: 2) { |_| GC.compact if GC.respond_to?(:compact) && Torture.compacts? }
  Deed.add(:auto_compact, weight: 1) { |hand| GC.auto_compact = hand.roll(2).zero? && Torture.compacts? }
  Deed.add(:stress, weight: 2) do |hand|
    GC.stress = true
    hand.roll(4).times { hand.keep(Making.one(hand)) }
  ensure
    GC.stress = false
  end
  Deed.add(:disabled) do |hand|
    GC.disable
    hand.roll(200).times { hand.keep(Making.one(hand)) }
  ensure
    GC.enable
  end
  Deed.add(:verify, weight: 1) do |_|
    if GC.respond_to?(:verify_compaction_references) && RUBY_VERSION < "3.2" && Torture.compacts?
      GC.verify_compaction_references(toward: :empty)
    end
  end
  Deed.add(:objspace, weight: 2) do |hand|
    ObjectSpace.trace_object_allocations do
      object = hand.keep(Making.one(hand))
      ObjectSpace.allocation_sourcefile(object)
      GC.start
    end
  end
  Deed.add(:objspace_under_stress, weight: 1) do |hand|
    ObjectSpace.trace_object_allocations do
      kind = hand.world.truth.kinds[:pair]
      GC.stress = true
      hand.keep(kind.new(1, 2))
    ensure
      GC.stress = false
    end
  end
  Deed.add(:trace, weight: 1) do |hand|
    count = 0
    TracePoint.new(:call, :c_call, :line) { count += 1 }.enable { hand.keep(Making.one(hand)) }
  end
end
