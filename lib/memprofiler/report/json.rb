# frozen_string_literal: true

require "json"
require_relative "../profile"
require_relative "text"

module Memprofiler
  class Report
    # The rows of Profile#top for scripts, with what Head says in words. What is
    # listed in the metadata is an Array here, however many there are. The shape is
    # in docs/reading-a-profile.md.
    module JSON
      LISTS = { pid: :pids, same_pid: :same_pids, forked_pids: :forked_pids, intervals: :intervals, run: :runs,
                forked_from: :forked_from, spans: :spans }.freeze
      private_constant :LISTS

      module_function

      # @param profile [Profile]
      # @param metric [Symbol]
      # @param by [Symbol]
      # @param count [Integer, nil] how many rows; nil: all
      # @param files [Array<String>] where the profile came from
      # @param sort [Symbol] see Profile#top
      # @return [String] one JSON object, with a newline at its end
      # @raise see Profile#top
      def generate(profile, metric, by:, count:, files:, sort: :flat)
        rows = profile.top(metric, by: by, n: count, sort: sort).map(&:to_h)
        document = { files: files, metric: metric, unit: profile.sample_types[metric], by: by, sort: sort,
                     total: profile.total(metric), error: error(profile, metric), rows: rows,
                     metadata: metadata(profile) }
        json = ::JSON.pretty_generate(utf8(document))
        # Outside of strings JSON has none of these but line feeds.
        "#{json.gsub(Text::UNSAFE) { |char| char == "\n" ? char : escape(char) }}\n"
      end

      def escape(char)
        char.encode(Encoding::UTF_16BE).unpack("n*").map { |unit| format("\\u%04x", unit) }.join
      end

      def error(profile, metric)
        column = profile.sample_types.keys.index(metric)
        Profile::Sampling.new(profile.model, profile.metadata).total_error(column)
      end

      def metadata(profile)
        metadata = profile.metadata
        lists = LISTS.to_h do |key, name|
          list = Profile::Metadata.list(metadata[key])
          [name, list.map { |item| item.match?(/\A\d{1,18}\z/) ? item.to_i : item }]
        end
        lists[:intervals] = [metadata[:interval]].compact if lists[:intervals].empty?
        { processes: 1, **metadata.except(*LISTS.keys), **lists }
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
      private_class_method :escape, :error, :metadata, :utf8
    end
  end
end
