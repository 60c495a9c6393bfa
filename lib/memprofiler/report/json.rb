# frozen_string_literal: true

require "json"
require_relative "../profile"

module Memprofiler
  class Report
    # The rows of Profile#top for scripts, with what Head says in words.
    module JSON
      module_function

      # @param profile [Profile]
      # @param metric [Symbol]
      # @param by [Symbol]
      # @param count [Integer, nil]
      # @param files [Array<String>] where the profile came from
      # @return [String] one JSON object, with a newline at its end
      # @raise see Profile#top
      def generate(profile, metric, by:, count:, files:)
        rows = profile.top(metric, by: by, n: count).map(&:to_h)
        document = { files: files, metric: metric, unit: profile.sample_types[metric], by: by,
                     total: profile.total(metric), rows: rows, metadata: profile.metadata }
        "#{::JSON.pretty_generate(utf8(document))}\n"
      end

      # File names may be in any encoding; JSON is UTF-8.
      def utf8(value)
        case value
        when Hash then value.transform_values { |element| utf8(element) }
        when Array then value.map { |element| utf8(element) }
        when String then value.dup.force_encoding(Encoding::UTF_8).scrub
        else value
        end
      end
      private_class_method :utf8
    end
  end
end
