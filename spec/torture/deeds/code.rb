# frozen_string_literal: true

module Torture
  # Code and classes that come and go.
  Deed.add(:eval_method) do |hand|
    n = hand.roll(40)
    eval("def self.evaluated#{n}(hand) = hand.keep(Making.one(hand))", binding, "evaluated_#{hand.roll(1_000)}.rb", hand.roll(500) + 1)
    __send__("evaluated#{n}", hand)
  end
  Deed.add(:define_method) do |hand|
    n = hand.roll(1_000)
    hand.keep(Class.new { define_method(:make) { |other| other.keep([Making.one(other), n]) } }.new).make(hand)
  end
  Deed.add(:singleton) do |hand|
    object = hand.world.truth.kinds[:plain].new
    def object.made(hand) = hand.keep(Making.one(hand))
    object.made(hand)
    hand.keep(object)
    Class.new { class << self; def made(hand) = hand.keep(Making.one(hand)); end }.made(hand)
  end
  Deed.add(:refinement) do |hand|
    hand.keep(Module.new { refine(String) { def refined = [1] } })
    eval("module Refined#{hand.roll(20)}; refine(Integer) { def refined = [self.to_s] }; end", TOPLEVEL_BINDING)
  end
  Deed.add(:named_and_dropped) do |hand|
    name = "Dropped#{hand.roll(10)}"
    space = Thread.current[:space] ||= Module.new
    space.__send__(:remove_const, name) if space.const_defined?(name)
    space.const_set(name, Class.new { def self.make(hand) = hand.keep([new, Making.one(hand)]) }).make(hand)
  end
  Deed.add(:anonymous) { |hand| 10.times { hand.keep(Class.new(hand.roll(2).zero? ? Object : String).new) } }
  Deed.add(:redefine) do |hand|
    space = Thread.current[:redefined] ||= Class.new
    space.class_eval("def again(hand) = hand.keep([#{hand.roll(9)}, Making.one(hand)])", __FILE__, __LINE__)
    space.new.again(hand)
    space.__send__(:remove_method, :again)
  end
  Deed.add(:missing) do |hand|
    Class.new { def method_missing(*rest) = rest; def respond_to_missing?(*) = true }.new.whatever(Making.one(hand), &:itself)
  end
  Deed.add(:errors) do |hand|
    5.times do
      raise ArgumentError, "no #{hand.roll(9)}"
    rescue ArgumentError => e
      hand.keep([e, e.backtrace, e.backtrace_locations])
    end
    catch(:out) { throw :out, hand.keep(Making.one(hand)) }
    proc { next hand.keep([1]) }.call
  end
  Deed.add(:too_deep, weight: 1) do |_|
    down = ->(n) { [down.call(n + 1)] }
    down.call(0)
  rescue SystemStackError
    nil
  end
end
