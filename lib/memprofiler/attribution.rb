# frozen_string_literal: true

module Memprofiler
  class Profile
    # Decides which row a frame counts for, in one way of grouping. A row is an
    # Integer here, its name is in {#names}.
    #
    # Lines, files and gems are those of Ruby code: a C function has none, and
    # neither has Ruby's own library in Ruby (`<internal:kernel>`), so what they
    # allocate goes to the nearest caller that has one.
    #
    # By gem, what starts a program and is on all of its stacks (RubyGems, `bundle exec`, the files in `bin/` of
    # both) counts for what it does itself only.
    #
    # @api private
    class Attribution
      GROUPS = %i[line file gem function class].freeze
      LABEL = /\Alabel:(.+)\z/m # the other way: by a label's values
      # Frames of this library, by file or by name space. A program sees none of them.
      OWN_DIRECTORY = File.expand_path(__dir__)
      OWN_FILE = %r{\A#{Regexp.escape(OWN_DIRECTORY)}[./]|/memprofiler-\d[^/]*/lib/memprofiler[./]}
      OWN_C_FUNCTION = /\AMemprofiler(?:\.|::)/
      # Ruby's own library in Ruby, and an extension while it's being loaded
      NO_RUBY_CODE = /\A<internal:|\.(?:so|bundle|dll)\z/
      PSEUDO = /\A\(.*\)\z/m # (truncated), (overflow): made up by a collector
      NOWHERE = "(no Ruby code)"
      private_constant :OWN_DIRECTORY, :OWN_FILE, :OWN_C_FUNCTION, :NO_RUBY_CODE, :PSEUDO, :NOWHERE

      # @return [Array<String>] the rows' names
      attr_reader :names

      # @param model [Hash]
      # @param group [Symbol, String] as Profile#top takes it
      # @return [String, nil] the name of the label that it goes by
      def self.label(group)
        group == :class ? "class" : group[LABEL, 1]
      end

      # @param group [Symbol] one of GROUPS but :class
      def initialize(model, group)
        @names = []
        @ids = {}
        @functions = model[:functions]
        @group = group
        @origins = Origin.of_all(@functions.map { |function| function[2] }.uniq) if group == :gem
        pieces = Pieces.new
        @rows = model[:locations].map do |function, line, _|
          pieces.step
          row_of(@functions[function], line)
        end
        @pseudo = model[:locations].map { |function, _, _| @functions[function][0][PSEUDO] }
        tell_apart_namesakes if group == :function
        @launchers = Origin::LAUNCHERS.filter_map { |name| @ids[name] } if group == :gem
      end

      # @param stack [Array<Integer>] locations, innermost first
      # @return [Integer] the row that the allocation itself counts for
      def flat(stack)
        stack.each do |location|
          row = @rows[location]
          return row if row
        end
        pseudo = stack.find { |location| @pseudo[location] }
        id(pseudo ? @pseudo[pseudo] : NOWHERE)
      end

      # @param stack [Array<Integer>] locations, innermost first
      # @return [Array<Integer, nil>] the row of each location that it counts for, with what that called; nil: none
      def cumulative(stack)
        rows = @rows.values_at(*stack)
        return rows unless @launchers && !@launchers.empty?

        started = rows.rindex { |row| row && !@launchers.include?(row) }
        started ? rows.first(started + 1) : rows
      end

      private

      def row_of(function, line)
        name, _, file, = function
        return if own?(name, file)
        return id(function, name) if @group == :function
        return if file.empty? || file.match?(NO_RUBY_CODE)

        case @group
        when :line then id(line.positive? ? "#{file}:#{line}" : file)
        when :file then id(file)
        when :gem then (gem = @origins[file]) && id(gem)
        end
      end

      def own?(name, file)
        file.empty? ? name.match?(OWN_C_FUNCTION) : file.match?(OWN_FILE)
      end

      def id(key, name = key)
        @ids[key] ||= @names.push(name).size - 1
      end

      # Two functions of one name stay two rows: their names say where they are.
      def tell_apart_namesakes
        @ids.keys.group_by(&:first).each_value do |functions|
          next if functions.size == 1

          functions.each do |function|
            name, _, file, line = function
            @names[@ids[function]] = "#{name} (#{line.positive? ? "#{file}:#{line}" : file})" unless file.empty?
          end
        end
      end
    end
  end
end
