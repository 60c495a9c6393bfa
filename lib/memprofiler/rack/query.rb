# frozen_string_literal: true

require "uri"
require_relative "answer"

module Memprofiler
  class Rack
    # What stands behind the "?", checked. Of a name that comes twice the first counts, as in Go; an empty value is
    # as none.
    #
    # @api private
    class Query
      # @param string [String, nil] env["QUERY_STRING"]
      # @raise [Answer::Refusal]
      def initialize(string)
        @values = {}
        string.to_s.b.split("&").each do |pair|
          name, value = pair.split("=", 2).map { |part| URI.decode_www_form_component(part) }
          @values[name] ||= value unless value.nil? || value.empty?
        end
      rescue ArgumentError # a "%" with no two digits behind it
        raise Answer::Refusal.new(400, "the query is not well encoded")
      end

      # @return [String, nil]
      def [](name)
        value = @values[name]
        return value if value.nil? || value.valid_encoding?

        raise Answer::Refusal.new(400, "#{name} is not UTF-8")
      end

      # @return [Boolean]
      def on?(name)
        value = self[name]
        return false if value.nil?
        return value.to_i.positive? if value.match?(/\A\d{1,9}\z/)

        raise Answer::Refusal.new(400, "invalid value for \"#{name}\": must be 0 or 1")
      end

      # @param range [Range<Integer>]
      # @return [Integer, nil]
      def integer(name, range)
        value = self[name]
        return if value.nil?

        number = value.to_i if value.match?(/\A\d{1,18}\z/)
        return number if number && range.cover?(number)

        allowed = "a positive integer, at most #{range.end}"
        raise Answer::Refusal.new(400, "invalid value for \"#{name}\": must be #{allowed}")
      end
    end
  end
end
