# frozen_string_literal: true

module Torture
  # What is made, and how.
  module Making
    module_function

    # Ruby 4.0.5 reads a class' name as zeros, without a collector too, where GC.auto_compact moves the String that
    # Marshal.load reads: it has its pointer, and then allocates. A long one's bytes are elsewhere, and what follows isn't read.
    def copy(object)
      Marshal.load(Marshal.dump(object) + (RUBY_VERSION >= "4" ? "\0" * 2_000 : ""))
    end

    def one(hand)
      kinds = hand.world.truth.kinds
      n = hand.roll(1_000)
      case hand.roll(9)
      when 0 then kinds[:plain].new(n, "s#{n}")
      when 1 then kinds[:sub].allocate
      when 2 then kinds[:text].new("x" * n)
      when 3 then kinds[:list].new(n) { |i| i }
      when 4 then kinds[:table].new.merge!(n => n.to_s)
      when 5 then kinds[:pair].new(n, [n])
      when 6 then kinds[:text].new("y").dup.clone
      when 7 then copy(kinds[:pair].new(n, "z"))
      else kinds[:list].new([n, n]).concat([n] * hand.roll(200))
      end
    end

    def under(depth, hand) = depth.zero? ? hand.keep(one(hand)) : under(depth - 1, hand)
  end

  Deed.add(:make, weight: 20) { |hand| hand.roll(60).times { hand.keep(Making.one(hand)) } }
  Deed.add(:waste, weight: 12) { |hand| hand.roll(300).times { Making.one(hand) } }
  Deed.add(:let_go, weight: 6) { |hand| hand.kept.pop(hand.roll(hand.kept.size + 1)) }
  Deed.add(:deep) { |hand| Making.under(hand.roll(700), hand) }
  Deed.add(:grow) do |hand|
    hand.kept.each do |object|
      object << ("more" * 9) if object.is_a?(String) && !object.frozen?
    end
  end
  Deed.add(:shrink) { |hand| hand.kept.each { |object| object.clear if object.respond_to?(:clear) && !object.frozen? } }
  Deed.add(:share) do |hand|
    text = hand.keep(hand.world.truth.kinds[:text].new("s" * 5_000))
    hand.keep([text[100..], text.dup, text.freeze, text.byteslice(0, 4_000)])
  end
  Deed.add(:unprotected) do |hand|
    "some text" =~ /(s)(o)/
    hand.keep([$~, 1.method(:+), [1].each, Fiber.new { 1 }, binding, proc { hand }])
  end
  Deed.add(:literals) { |hand| hand.keep([1.5e300 * hand.roll(9), 2**(70 + hand.roll(9)), 1..hand.roll(9), :"sym#{hand.roll(5_000)}", /#{hand.roll(99)}/]) }
  Deed.add(:weak) do |hand|
    map = hand.keep(ObjectSpace::WeakMap.new)
    20.times { map[Making.one(hand)] = Making.one(hand) }
  end
  Deed.add(:finalizer) do |hand|
    10.times do
      object = Making.one(hand)
      ObjectSpace.define_finalizer(object, proc { [+"last words"] * 3 }) unless object.frozen?
    end
  end
  Deed.add(:walk, weight: 1) { |hand| hand.keep(ObjectSpace.each_object(hand.world.truth.kinds[:plain]).first(5)) }
  Deed.add(:sizes, weight: 1) { |_| ObjectSpace.memsize_of_all && ObjectSpace.count_objects }
end
