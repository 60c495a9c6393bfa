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
      PART = 64 * 1024 # bytes
      private_constant :HEAD, :COLUMNS, :PART

      module_function

      # @param profile [Profile]
      # @return [Array<String>] its parts: one String of a hundred megabytes would be moved again and again as it grows
      def of(profile)
        model = profile.model
        pieces = Profile::Pieces.new
        rows = rows(model, profile.sample_types.keys, pieces)
        totals = Array.new(COLUMNS.size) do |column|
          pieces.look
          rows.sum { |values,| values[column] }
        end
        parts = [text = format(HEAD, numbers(totals))]
        # Each text is made once: with one for each frame of each sample Ruby would collect garbage all the while.
        addresses, places = places(model, pieces)
        rows.each do |row|
          parts << (text = +"") if text.bytesize > PART
          write(text, row, addresses, places)
          pieces.step
        end
        parts << comments(profile).map { |comment| "# #{comment}\n" }.join
      end

      # The file's own, and the head of our reports: on how many samples all this rests, and how far it may be off.
      def comments(profile)
        own = profile.comments.map { |comment| printable(comment.delete_prefix("# ")) }
        own + Report.new(profile).head.lines(chomp: true)
      end

      # Those that hold most come first.
      def rows(model, metrics, pieces)
        columns = COLUMNS.map { |metric| metrics.index(metric) }
        rows = model[:samples].map do |stack, values, labels|
          pieces.step
          [values.values_at(*columns), stack, labels]
        end
        keys = [1, 3].map do |column|
          pieces.look
          rows.map { |values,| -values[column] }
        end
        order = Profile::Pieces.order(*keys)
        pieces.look
        order.map { |place| rows[place] }
      end

      def numbers(values)
        "#{values[0]}: #{values[1]} [#{values[2]}: #{values[3]}]"
      end

      def write(text, (values, stack, labels), addresses, places)
        text << numbers(values) << " @"
        stack.each { |location| text << addresses[location] }
        text << "\n"
        text << "# labels: #{printable(labels.inspect)}\n" if labels
        stack.each { |location| text << places[location] }
        text << "\n"
      end

      # @return [Array(Array<String>, Array<String>)] each location's address, and its line
      def places(model, pieces)
        lists = [[], []]
        model[:locations].each do |function, line, address|
          pieces.step
          name, _, file, = model[:functions][function]
          place = "\t#{printable("#{file}:#{line}")}" unless file.empty?
          lists[0] << format(" 0x%x", address)
          lists[1] << "#\t#{format("0x%x", address)}\t#{printable(name)}#{place}\n"
        end
        lists
      end

      # A name could go on in a line of its own.
      def printable(string)
        Report::Text.printable(string)
      end
      private_class_method :comments, :rows, :numbers, :write, :places, :printable
    end
  end
end
