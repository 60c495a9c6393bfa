# frozen_string_literal: true

# Visits to a site: much garbage, and a history of several kinds of objects that nobody ever empties. Pages are of
# 40 to 4,000 bytes.
HELD = [] unless defined?(HELD) # rubocop:disable Style/MutableConstant -- bench/accuracy runs this again and again

Visit = Struct.new(:number, :page) unless defined?(Visit)

count = Integer(ARGV.fetch(0))
count.times do |i|
  basket = Array.new(5) { |n| [n, i * 1.5] }
  lines = basket.map { |n, price| "#{n} x #{price}" }
  text = lines.join("\n")
  page = text * ((i % 40) + 1)
  HELD << page
  HELD << [i, i + 1, i + 2, i + 3, i + 4]
  HELD << { number: i, size: text.size } if i.even?
  HELD << Visit.new(i, page)
end
