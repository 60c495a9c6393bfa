# frozen_string_literal: true

module Torture
  # Two exact collectors, one for each way to see a death, and what Ruby itself says of the same objects.
  class Truth
    class Wrong < StandardError; end

    # Six deviations: of a hundred million honest checks one is further off.
    SIGMAS = 6

    # @return [Hash{Symbol => Class}] what deeds make, and nobody else; new ones whenever the collectors start, which can't know of
    #   what was there before
    attr_reader :kinds
    attr_reader :checks, :losses

    def initialize
      @checks = 0
      @losses = -1
      @collectors = %i[mark free].map { |liveness| Memprofiler::Collector.new(interval: 1, liveness: liveness) }
      begin_anew
    end

    # @param others [Array<Collector>] that sample
    # @raise [Wrong]
    def check(others)
      @checks += 1
      settled do
        # Of a collection that they can't see (GC.stress beside objspace, other Ractors) they know only that there was one, and of
        # what the VM made while it had lost the hooks (up to 3.4, for Ractors) no more.
        return begin_anew if @collectors.any? { |collector| lost?(collector.stats) }

        truth = { inuse_objects: count, inuse_space: bytes }.compact
        @collectors.each { |collector| compare(collector, truth) }
        others.select(&:running?).each { |collector| estimate(collector) }
      end
    end

    private

    def lost?(stats) = stats[:lost_collections].positive? || stats[:hooks_rearmed].positive?

    def begin_anew
      @losses += 1
      @collectors.each(&:stop)
      generation = Torture.const_set("G#{Process.pid}x#{@losses}", Module.new)
      @kinds = { plain: Class.new { def initialize(*values) = @values = values }, text: Class.new(String), list: Class.new(Array),
                 table: Class.new(Hash), pair: Struct.new(:left, :right) }
      @kinds[:sub] = Class.new(@kinds[:plain])
      @kinds.each { |name, kind| generation.const_set(name.capitalize, kind) }
      @collectors.each(&:start)
    end

    # With all finalizers done and no collection until the block is.
    def settled
      stress = GC.stress
      GC.stress = false
      3.times { GC.start }
      disabled = GC.disable
      yield
    ensure
      GC.enable unless disabled
      GC.stress = stress
    end

    # Once there was another Ractor, Ruby shows only what all may share.
    def count
      return if Torture.ractors?

      @kinds.values.to_h { |kind| [kind.name, ObjectSpace.each_object(kind).count { |object| kind == CLASS_OF.bind_call(object) }] }
    end

    def bytes
      off = ENV["TORTURE_LIE"] ? 1 : 0
      all = @kinds.transform_values { |kind| off + ObjectSpace.memsize_of_all(kind) }
      all[:plain] -= all[:sub] # which are of both kinds
      all.transform_keys { |name| @kinds[name].name }
    end

    CLASS_OF = Kernel.instance_method(:class)
    private_constant :CLASS_OF

    def compare(collector, truth)
      profile = collector.flush(labels: %i[class])
      stats = collector.stats # before anybody looks into the profile, which makes objects
      truth.each do |metric, expected|
        found = expected.transform_values { 0 }
        profile.samples.each do |sample|
          name = sample.labels["class"]
          found[name] += sample.values[metric] if found.key?(name)
        end
        next if found == expected

        wrong(collector, "#{metric}: #{found.reject { |name, n| expected[name] == n }}, Ruby: #{expected.reject { |name, n| found[name] == n }}")
      end
      totals(collector, profile, stats)
    end

    def totals(collector, profile, stats)
      wrong(collector, "dropped #{stats[:dropped_samples]}") if stats[:dropped_samples].positive?
      made = profile.total(:alloc_objects)
      unless made.between?(stats[:allocations] - 50, stats[:allocations])
        wrong(collector, "allocated #{made}, seen #{stats[:allocations]}")
      end
      return if stats[:unseen_objects].zero? || profile.metadata[:ractors]

      wrong(collector, "#{stats[:unseen_objects]} objects unseen")
    end

    def estimate(collector)
      profile = collector.flush
      stats = collector.stats
      count = profile.total(:alloc_objects)
      seen, interval = stats.values_at(:allocations, :interval)
      bound = (SIGMAS * Math.sqrt(seen * (interval - 1.0))) + (SIGMAS * interval)
      wrong(collector, "estimates #{count} of #{seen}") if (count - seen).abs > bound
    end

    def wrong(collector, what)
      raise Wrong, "#{collector.stats.slice(:liveness, :interval, :track_one_in, :lost_collections, :hooks_rearmed)}: #{what}"
    end
  end
end
