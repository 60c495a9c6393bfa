# frozen_string_literal: true

module Memprofiler
  class Profile
    # Sums up a profile's samples in one way of grouping, for all metrics at once.
    #
    # @api private
    class Ranking
      ORDERS = %i[flat cumulative].freeze

      # @param model [Hash]
      # @param metadata [Hash{Symbol => Object}]
      # @param group [Symbol] one of Attribution::GROUPS, or "label:NAME"
      def initialize(model, metadata, group)
        @model = model
        @metadata = metadata
        @width = model[:sample_types].size
        @sampling = Sampling.new(model, metadata)
        @flat = []
        @cumulative = []
        @variances = []
        @cumulative_variances = []
        label = Attribution.label(group)
        label ? sum_values(label) : sum_stacks(group)
        freeze
      end

      # @param column [Integer] the metric's place among the sample types
      # @param count [Integer, nil]
      # @param sort [Symbol] one of ORDERS
      # @return [Array<Row>]
      def rows(column, count, sort)
        whole = whole(column)
        order = (0...@names.size).select { |row| @flat[row][column] != 0 || @cumulative[row][column] != 0 }
        sums = sort == :flat ? [@flat, @cumulative] : [@cumulative, @flat]
        # What a difference lost is as much as what it gained.
        keys = sums.map { |sum| order.map { |row| -sum[row][column].abs } }
        order = order.values_at(*Pieces.order(*keys, @names.values_at(*order)))
        order = order.first([count, order.size].min) if count # more than a machine word holds is no error
        order.map { |row| row_at(row, column, whole) }
      end

      private

      # What shares are of: the metric's sum, with a difference's negative values taken as positive.
      def whole(column)
        Thread.pass
        @model[:samples].sum { |_, values, _| values[column].abs }
      end

      def row_at(row, column, whole)
        flat = @flat[row][column]
        samples, error = @sampling.behind(column, @flat[row], @variances[row])
        all_samples, all_error = @sampling.behind(column, @cumulative[row], @cumulative_variances[row])
        Row.new(name: @names[row], flat: flat, cumulative: @cumulative[row][column],
                share: share(flat, whole), cumulative_share: share(@cumulative[row][column], whole),
                samples: samples, error: error, cumulative_samples: all_samples, cumulative_error: all_error).freeze
      end

      def share(value, whole)
        whole.zero? ? 0.0 : value.fdiv(whole)
      end

      def sum_stacks(group)
        attribution = Attribution.new(@model, group)
        @names = attribution.names
        last_seen = []
        pieces = Pieces.new
        @model[:samples].each_with_index do |sample, number|
          stack, values, = sample
          flat = attribution.flat(stack)
          variances = variances(sample)
          add_flat(flat, values, variances)
          add_cumulative(flat, values, variances)
          last_seen[flat] = number
          attribution.cumulative(stack).each do |row|
            next if row.nil? || last_seen[row] == number

            last_seen[row] = number
            add_cumulative(row, values, variances)
          end
          pieces.step
        end
        # A row that is on no sample's stack, or never innermost; and what is exact
        [@flat, @cumulative, @variances, @cumulative_variances].each do |sums|
          @names.each_index { |row| sums[row] ||= Array.new(@width, 0) }
        end
      end

      def sum_values(label)
        check_label(label)
        none = "(no #{label})"
        ids = {}
        pieces = Pieces.new
        @model[:samples].each do |sample|
          value = sample[2] && sample[2][label]
          name = value.is_a?(Array) ? value.reject { |part| part == "" }.join(" ") : value
          add_flat(ids[name || none] ||= ids.size, sample[1], variances(sample))
          pieces.step
        end
        @names = ids.keys
        @names.each_index { |row| @variances[row] ||= Array.new(@width, 0) }
        @cumulative = @flat
        @cumulative_variances = @variances
      end

      def check_label(label)
        there = @model[:samples].flat_map { |_, _, labels| labels ? labels.keys : [] }.uniq
        unless there.include?(label) || @model[:samples].empty?
          raise MissingLabelError, label == "class" ? unlabelled : not_among(label, there)
        end
        raise MissingLabelError, partly_labelled if label == "class" && @metadata[:processes_without_class]
      end

      def not_among(label, there)
        "no sample has a label #{label}: #{there.empty? ? "there are none" : "there are #{there.sort.join(", ")}"}"
      end

      def unlabelled
        return "the profile has no class labels, and is not memprofiler's" unless @metadata[:memprofiler]
        unless @metadata[:difference]
          return "the profile has no class labels: collect it with labels: [:class], of flush or Memprofiler.profile"
        end

        "the difference has no class labels, as not both its profiles have: collect both with flush(labels: [:class])"
      end

      def partly_labelled
        part, whole = @metadata.values_at(:processes_without_class, :processes)
        some = whole && part < whole ? "#{part} of the #{whole}" : "some of the"
        "#{some} profiles in this sum are without class labels: leave them out, or collect them with " \
          "flush(labels: [:class])"
      end

      # @return [Array<Numeric>, nil] nil: there is none, as in all of an exact profile
      def variances(sample)
        variances = Array.new(@width) { |column| @sampling.variance(column, sample) }
        variances unless variances.all?(&:zero?)
      end

      def add_flat(row, values, variances)
        add(@flat, row, values)
        add(@variances, row, variances) if variances
      end

      def add_cumulative(row, values, variances)
        add(@cumulative, row, values)
        add(@cumulative_variances, row, variances) if variances
      end

      def add(sums, row, values)
        sum = (sums[row] ||= Array.new(@width, 0))
        column = 0
        while column < @width # this is the innermost loop of all reports
          sum[column] += values[column]
          column += 1
        end
      end
    end
  end
end
