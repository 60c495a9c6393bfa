# frozen_string_literal: true

# Copies a short string over and over: the allocation path and little else.
count = Integer(ARGV.fetch(0))
string = +"a short string"
i = 0
while i < count
  string.dup
  i += 1
end
