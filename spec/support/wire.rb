# frozen_string_literal: true

# Bytes of protobuf, for profiles that no encoder of ours would make.
module Wire
  # @param number [Integer] negative ones as protobuf has them, in 64 bits
  def varint(number)
    number &= (1 << 64) - 1
    bytes = []
    while number > 0x7f
      bytes << ((number & 0x7f) | 0x80)
      number >>= 7
    end
    [*bytes, number].pack("C*")
  end

  def number(field, number) = varint(field << 3) + varint(number)
  def field(field, bytes) = varint((field << 3) | 2) + varint(bytes.bytesize) + bytes
end
