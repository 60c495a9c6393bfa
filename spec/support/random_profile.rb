# frozen_string_literal: true

require "memprofiler"
require_relative "wire"

# A pprof file that a seed makes, byte by byte: what it has is what nobody would write but to harm, or by a fault.
class RandomProfile
  include Wire

  KEYS = %w[interval track_one_in dropped_samples untracked_samples thinned_samples truncated_stacks overflow_stacks lost_collections lost_samples hooks_rearmed
            unseen_objects memprofiler intervals processes difference same_pid forked_pids stopped ractors jit samples collections own_objects live_samples
            tracked_objects heap_live_slots heap_bytes heap_bytes_before pid run forked_from ruby liveness processes_without_class other].freeze
  WORDS = ["", "0", "1", "2", "-1", "512", "5772, 5787", "999999999999999999", "1000000000000000000", "-999999999999999999", "abc", "1.5", "1e9", " 1", "1 ", "1\n2", "\0", "%s %d %%",
           "\xFF", "é", "of two profiles, 1.000 s apart", "00000000-00000001"].freeze
  NAMES = ["", "a", "Array#map", "(truncated)", "(overflow)", "<internal:kernel>", "/app/a.rb", "/x/\0y/bin/rake", "/usr/bin/rake", "\0", "\xFF\xFE", "/gems/\xFF-1/x.rb", "/gems/rake-1/exe/rake",
           "/gems/a-1.2/lib/\xE9.rb", "\e[31m", "\u009B", "\r\n", "(eval at /x\xFF:1)", "(eval at :1)", "x.so", "Memprofiler.start", "/ruby/3.1.2/bundler/\xFF", "é/bin/rake", "a:1",
           "/x/#{"y" * 300}/bin/rake", "/dev/full", "/bin", "class", "thread", "pid", "\u202E\u{E0041}", "%s"].freeze
  VALUES = [0, 1, -1, 2, 5, 40, 1 << 20, (1 << 63) - 1, -(1 << 63), (1 << 62), 1 << 53].freeze
  METRICS = %w[alloc_objects alloc_space inuse_objects inuse_space].freeze

  # @return [String] bytes of a pprof file
  attr_reader :bytes

  def initialize(seed)
    @random = Random.new(seed)
    @strings = { "" => 0 }
    @bytes = profile
  end

  private

  def profile
    types = sample_types
    functions = @random.rand(1..4)
    locations = @random.rand(1..5)
    mappings = @random.rand(2)
    body = types.map { |type, unit| field(1, number(1, string(type)) + number(2, string(unit))) }
    body += Array.new(@random.rand(6)) { field(2, sample(locations, types.size)) }
    body += (1..mappings).map { |id| field(3, number(1, id) + number(2, value) + number(3, value) + number(5, name)) }
    body += (1..locations).map { |id| field(4, location(id, functions, mappings)) }
    body += (1..functions).map { |id| field(5, number(1, id) + number(2, name) + number(3, name) + number(4, name) + number(5, line)) }
    body += head
    (body + @strings.keys.map { |text| field(6, text.b) }).join
  end

  def sample_types
    return METRICS.map { |metric| [metric, metric.end_with?("space") ? "bytes" : "count"] } if @random.rand(3).positive?

    Array.new(@random.rand(4)) { [pick([*METRICS, *NAMES]), pick(["bytes", "count", *NAMES])] }
  end

  def sample(locations, width)
    width += 1 if odd?(30)
    stack = Array.new(@random.rand(5)) { odd?(60) ? 99 : @random.rand(1..locations) }
    small = odd?(2)
    values = Array.new(width) { small ? @random.rand(0..100) : value }
    labels = Array.new(odd?(2) ? @random.rand(4) : 0) { field(3, label) }
    field(1, stack.map { |id| varint(id) }.join) + field(2, values.map { |each| varint(each) }.join) + labels.join
  end

  def label
    key = number(1, string(pick(["class", "age", "thread", "pid", "endpoint", *NAMES])))
    odd?(3) ? key + number(3, value) + number(4, name) : key + number(2, name)
  end

  def location(id, functions, mappings)
    lines = Array.new(odd?(8) ? @random.rand(3) : 1) { field(4, number(1, odd?(60) ? 99 : @random.rand(1..functions)) + number(2, line)) }
    number(1, id) + number(2, odd?(20) ? 9 : mappings) + number(3, value) + lines.join
  end

  def head
    parts = Array.new(@random.rand(10)) { number(13, string(comment)) }
    parts << number(9, value) << number(10, value) if odd?(2)
    unless odd?(4)
      parts << field(11, number(1, string(pick(["objects", *NAMES]))) + number(2, string(pick(["count", *NAMES]))))
    end
    parts << number(12, value) unless odd?(4)
    parts << number(14, name) if odd?(5)
    parts
  end

  def comment
    odd?(8) ? pick(NAMES) : "#{pick(["", "# "])}#{pick(KEYS)}: ".b + pick(WORDS).b
  end

  def name = string(pick(NAMES))
  def value = odd?(2) ? pick(VALUES) : @random.rand(1_000)
  def line = odd?(6) ? pick(VALUES) : @random.rand(1..99)
  def odd?(one_in) = @random.rand(one_in).zero?
  def pick(list) = list[@random.rand(list.size)]
  def string(text) = @strings[text.b] ||= @strings.size
end
