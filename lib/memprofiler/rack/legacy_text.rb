# frozen_string_literal: true

require_relative "../report"

module Memprofiler
  class Rack
    # A profile as Go's text of old (`debug=1`): for people, and pprof reads the numbers.
    #
    # @api private
    module LegacyText
      # Go writes samples as they are, and twice its rate behind "heap/", by which pprof makes estimates of
      # them. These are estimates, so it's told that everything was sampled.
      HEAD = "heap profile: %s @ heap/2\n"
      COLUMNS = %i[inuse_objects inuse_space alloc_objects alloc_space].freeze
      private_constant :HEAD, :COLUMNS

      module_function

      # @param profile [Profile]
      # @return [String]
      def of(profile)
        model = profile.model
        text = format(HEAD, numbers(COLUMNS.map { |metric| profile.total(metric) }))
        places = places(model)
        rows(model, profile.sample_types.keys).each { |row| text << entry(row, model[:locations], places) }
        text << model[:comments].map { |comment| "# #{printable(comment.delete_prefix("# "))}\n" }.join
      end

      # Those that hold most come first.
      def rows(model, metrics)
        columns = COLUMNS.map { |metric| metrics.index(metric) }
        rows = model[:samples].map { |stack, values, labels| [values.values_at(*columns), stack, labels] }
        rows.sort_by { |values, stack, _| [-values[1], -values[3], stack] }
      end

      def numbers(values)
        "#{values[0]}: #{values[1]} [#{values[2]}: #{values[3]}]"
      end

      def entry((values, stack, labels), locations, places)
        addresses = stack.map { |location| format(" 0x%x", locations[location][2]) }
        text = "#{numbers(values)} @#{addresses.join}\n"
        text << "# labels: #{printable(labels.inspect)}\n" if labels
        stack.each { |location| text << places[location] }
        text << "\n"
      end

      def places(model)
        model[:locations].map do |function, line, address|
          name, _, file, = model[:functions][function]
          place = "\t#{printable("#{file}:#{line}")}" unless file.empty?
          "#\t#{format("0x%x", address)}\t#{printable(name)}#{place}\n"
        end
      end

      # A name could go on in a line of its own.
      def printable(string)
        @text ||= Report::Text.new(nil, "")
        @text.printable(string)
      end
      private_class_method :rows, :numbers, :entry, :places, :printable
    end
  end
end
