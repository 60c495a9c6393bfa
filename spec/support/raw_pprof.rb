# frozen_string_literal: true

require "zlib"

# The protocol buffers of a pprof file, read field by field without our decoder.
module RawPprof
  PROFILE = { sample_types: 1, samples: 2, mappings: 3, locations: 4, functions: 5, strings: 6, time_nanos: 9,
              duration_nanos: 10, period_type: 11, period: 12, comments: 13, default_sample_type: 14 }.freeze

  module_function

  # @param bytes [String] gzipped
  # @return [Hash{Symbol => Array}] all values of each field
  def read(bytes)
    fields = message(Zlib.gunzip(bytes))
    PROFILE.transform_values { |number| fields[number] }
  end

  # @return [Hash{Integer => Array<Integer, String>}]
  def message(bytes)
    fields = Hash.new { |hash, key| hash[key] = [] }
    at = 0
    while at < bytes.bytesize
      tag, at = varint(bytes, at)
      value, at = varint(bytes, at)
      case tag & 7
      when 0 then nil
      when 2 then value, at = bytes.byteslice(at, value), at + value
      when 1 then next at += 7 # a double, of which varint took a byte
      else raise "wire type #{tag & 7}"
      end
      fields[tag >> 3] << value
    end
    fields
  end

  # @param values [Array<Integer, String>] of a repeated field, packed or not
  def numbers(values)
    values.flat_map do |value|
      next value if value.is_a?(Integer)

      list = []
      at = 0
      while at < value.bytesize
        number, at = varint(value, at)
        list << (number >= 2**63 ? number - (2**64) : number)
      end
      list
    end
  end

  def varint(bytes, at)
    number = shift = 0
    loop do
      byte = bytes.getbyte(at)
      at += 1
      number |= (byte & 127) << shift
      return [number, at] if byte < 128

      shift += 7
    end
  end
end
