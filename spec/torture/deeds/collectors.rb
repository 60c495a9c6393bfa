# frozen_string_literal: true

module Torture
  # The profiler itself, from any thread at any moment.
  module Collectors
    LABELS = [[], %i[class], %i[age], %i[thread], %i[class age thread pid]].freeze

    module_function

    def one(hand) = hand.world.collectors.then { |all| all[hand.roll(all.size)] unless all.empty? }

    def options(hand)
      { interval: [1, 3, 50, 512][hand.roll(4)], track_one_in: [1, 4][hand.roll(2)], max_depth: [1, 20, 512][hand.roll(3)],
        max_samples: [10, 1_000, 200_000][hand.roll(3)], liveness: %i[mark free][hand.roll(2)], seed: hand.roll(1_000) }
    end

    # What the state at that moment does not allow, others having changed it.
    def expecting
      yield
    rescue Memprofiler::NotStartedError, Memprofiler::AlreadyStartedError
      nil
    end

    def flush(hand, collector)
      profile = expecting { collector.flush(labels: LABELS[hand.roll(LABELS.size)], gc: hand.roll(4).zero?, heap: hand.roll(9).zero?) }
      return unless profile
      if profile.samples.any? { |sample| sample.values.each_value.any?(&:negative?) }
        raise Truth::Wrong, "a negative value"
      end

      hand.keep(profile) if hand.roll(5).zero?
    end
  end

  Deed.add(:new_collector, weight: 2) do |hand|
    all = hand.world.collectors
    all << Memprofiler::Collector.new(**Collectors.options(hand)).start if all.size < 6
  end
  Deed.add(:flush, weight: 4) { |hand| Collectors.one(hand)&.then { |collector| Collectors.flush(hand, collector) } }
  # As a request for a page does
  Deed.add(:read, weight: 3) do |hand|
    profile = Collectors.one(hand)&.then { |collector| Collectors.expecting { collector.flush(labels: %i[class]) } } or next
    copy = Memprofiler::Profile.new(profile.pprof_data)
    sums = [copy.samples.sum { |sample| sample.values[:alloc_objects] }, copy.total(:alloc_objects), profile.total(:alloc_objects)]
    raise Truth::Wrong, "read #{sums}" if sums.uniq.size > 1

    again = Memprofiler::Profile.new((copy - profile).pprof_data).total(:alloc_objects)
    raise Truth::Wrong, "a difference of nothing is #{again}" unless again.zero?
  end
  Deed.add(:stop, weight: 2) { |hand| Collectors.one(hand)&.stop }
  Deed.add(:start, weight: 3) { |hand| Collectors.expecting { Collectors.one(hand)&.start } }
  Deed.add(:stats) { |hand| Collectors.expecting { Collectors.one(hand)&.stats } }
  Deed.add(:drop_running, weight: 1) { |hand| hand.world.collectors.delete(Collectors.one(hand)) }
  Deed.add(:profile_block, weight: 1) { |hand| Memprofiler.profile(interval: hand.roll(9) + 1) { hand.keep(Making.one(hand)) } }
  Deed.add(:labels) do |hand|
    Memprofiler.with_labels(job: "j#{hand.roll(20)}") do
      Memprofiler.with_labels(step: "s#{hand.roll(5)}") { hand.keep(Making.one(hand)) }
      Fiber.new { hand.keep(Making.one(hand)) }.resume
    end
  end
  Deed.add(:difference, weight: 1) do |hand|
    collector = Collectors.one(hand) or next
    Collectors.expecting do
      earlier = collector.flush
      hand.keep(Making.one(hand))
      later = collector.flush
      later - earlier if earlier.metadata[:run] == later.metadata[:run]
    end
  end
  # What came since the hand's last look at a collector, whatever else is done to it.
  Deed.add(:since, weight: 3) do |hand|
    collector = Collectors.one(hand) or next
    Collectors.expecting do
      looks = Thread.current[:looks] ||= ObjectSpace::WeakMap.new
      earlier = looks[collector]
      looks[collector] = hand.keep(collector.send(:baseline, in_use: true)) # (which keeps it for a while)
      profile, = collector.send(:flush_since, earlier, labels: [[], %i[class], %i[thread pid]][hand.roll(3)], in_use: !earlier.nil? && hand.roll(2).zero?)
      negative = profile.samples.find { |sample| sample.values[:alloc_objects].negative? || sample.values[:alloc_space].negative? }
      raise Truth::Wrong, "less than nothing was allocated: #{negative.values}" if negative
    end
  end
  Deed.add(:kill_flusher, weight: 1) do |hand|
    collector = Collectors.one(hand) or next
    thread = Thread.new { 20.times { Collectors.expecting { collector.flush } } }
    thread.report_on_exception = false
    hand.roll(5).times { Thread.pass }
    thread.kill.join
  end

  class Deed
    # In a trap handler.
    def self.trapped(world)
      collector = world.collectors.sample
      Collectors.expecting { collector&.flush }
      Array.new(10) { +"trapped" }
    end
  end
end
