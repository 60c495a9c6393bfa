# frozen_string_literal: true

module Soak
  # What the profiler may hold, from the caps that docs/memory.md gives, not from what was ever seen.
  module Bounds
    STRING = 24 + 32 # and what malloc adds to its bytes
    SLOT = 16        # of a hash index, for each of a power of two of items
    PIECE = 32

    # By table: how many items, and the bytes of one.
    TABLES = {
      frames: [2**18, 32 + SLOT], classes: [2**17, 32 + SLOT], threads: [2**16, 32 + SLOT],
      raw_stacks: [2**18, 40 + PIECE + (3 * SLOT)], stacks: [2**18, 40 + PIECE + SLOT], # raw ones have two indexes
      raw_words: [2**22, 8], words: [2**22, 8],
      raw_sites: [2**19, 56 + SLOT], sites: [2**19, 56 + SLOT],
      functions: [2**18, 32 + SLOT], locations: [2**19, 24 + SLOT],
      strings: [2**19, STRING + SLOT], string_bytes: [32 * (2**20), 1],
      label_sets: [(2**15) + (2**10), 144 + (2 * SLOT)], label_strings: [2**16, STRING + SLOT], label_bytes: [4 * (2**20), 1]
    }.freeze
    FRAME = 1_400     # bytes for each frame of max_depth: the stacks met last
    LIVE = 54         # bytes of a living sample
    FIXED = 1_000_000 # the first blocks of all tables
    # What all collectors of a process share.
    LABELS = (((2**15) + (2**10)) * (32 + (2 * SLOT))) + ((2**16) * (STRING + (2 * SLOT))) + (4 * (2**20)) + FIXED

    module_function

    # @param depth [Integer] max_depth
    # @param living [Integer] samples followed at once, at most
    def memory(depth:, living:)
      TABLES.sum { |_, (items, bytes)| items * bytes } + (FRAME * depth) + (LIVE * living) + FIXED
    end
  end
end
