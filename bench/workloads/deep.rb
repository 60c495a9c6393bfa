# frozen_string_literal: true

# Allocates under 100 Ruby frames: what a sample costs where stacks are deep.
count = Integer(ARGV.fetch(0))

def allocate(count)
  i = 0
  while i < count
    [i, "value #{i}"]
    i += 1
  end
end

def descend(frames, count)
  frames.zero? ? allocate(count) : descend(frames - 1, count)
end

(count / 1000).times { descend(98, 1000) }
