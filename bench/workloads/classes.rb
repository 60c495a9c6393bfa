# frozen_string_literal: true

# Instances of 100 classes, of the last ten times as many as of the first, a third of which stay; and a class without
# a name for each 500th of them.
HELD = [] unless defined?(HELD) # rubocop:disable Style/MutableConstant -- bench/accuracy runs this again and again

classes = Array.new(100) do |i|
  name = format("Small%02d", i)
  next Object.const_get(name) if Object.const_defined?(name)

  Object.const_set(name, Class.new { define_method(:initialize) { |number| @number = number } })
end
count = Integer(ARGV.fetch(0))
count.times do |i|
  # 1 + 2 + ... + 10 = 55 rounds, in which the k-th ten classes have k turns
  klass = classes[(10 * (Math.sqrt((8 * (i % 55)) + 1) - 1).div(2)) + (i / 55 % 10)]
  object = klass.new(i)
  HELD << object if (i % 3).zero?
  Class.new { attr_reader :name }.new if (i % 500).zero?
end
