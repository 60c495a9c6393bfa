# frozen_string_literal: true

# Small strings, of which half stay, and among them ten that own 1 MB each: most bytes in use are in ten objects.
HELD = [] unless defined?(HELD) # rubocop:disable Style/MutableConstant -- bench/accuracy runs this again and again

count = Integer(ARGV.fetch(0))
each = count / 10
count.times do |i|
  small = "row number #{i} of a report"
  HELD << small if i.even?
  HELD << String.new(capacity: 1_000_000) if (i % each).zero?
end
