# frozen_string_literal: true

module Memprofiler
  class Profile
    # Adds profiles up, or subtracts one from another. Each has its own numbers
    # for functions and locations, so everything is renumbered into one table.
    #
    # @api private
    class Combination
      SAME_WEIGHT = 1e-6 # in relation to each other
      ASKED_FOR = %w[class age thread pid].freeze # labels of flush
      private_constant :SAME_WEIGHT, :ASKED_FOR

      # @return [Hash] later - earlier; see Profile#-
      # @raise [ArgumentError]
      def self.difference(later, earlier)
        combination = new(keep: text_labels(later, earlier))
        combination.add(later)
        combination.subtract(earlier)
        combination.model
      end

      # Labels by which samples of both profiles can be told apart. An age changes with each
      # collection, and what only one of the two was asked for would be gained or lost by all. What the
      # program itself has set is always there.
      def self.text_labels(*models)
        keys = models.reject { |model| model[:samples].empty? }.map do |model|
          model[:samples].flat_map { |_, _, labels| labels ? labels.keys : [] }.uniq
        end
        ((keys.reduce(:|) || []) - ASKED_FOR) | (keys.reduce(:&) || [])
      end
      private_class_method :text_labels

      # @param keep [Array<String>, nil] labels that tell samples apart, of those whose
      #   value is text; the others are left out. nil: all labels do.
      def initialize(keep: nil)
        @keep = keep
        @model = nil
        @spans = Spans.new # of the collectors' runs whose profiles are in the sum
        @relatives = Hash.new { |all, run| all[run] = [] } # by the run that all were forked from: numbers of processes
        @parents = [] # runs that others were forked from
        @labelled = false # one of the profiles has classes
        @unlabelled = 0 # processes whose profiles have none
        @functions = {} # what the model has of it => number
        @locations = {} # [function, line] => [number, address]
        @values = {} # [stack, labels] => values
        @variances = {} # the same => the variances of these
        @uneven = {} # the same => true, if they don't follow from the values
        @weights = [] # what a sample stands for, by column
        @differ = false # the profiles' weights do: then all samples have their deviations
      end

      # @param model [Hash]
      # @raise [ArgumentError] the metrics, or what was sampled, differ from those of
      #   the models before; or it has something that one of these has
      def add(model)
        check(model) if @model
        metadata = Metadata.parse(model[:comments])
        refuse_mixture(metadata)
        refuse_twice(model, metadata)
        note_relatives(metadata)
        count_unlabelled(model, metadata)
        merge(model, 1)
        compare_weights(metadata)
        @model = @model ? head_of_sum(@model, model) : model
      end

      # @param model [Hash]
      # @raise [ArgumentError] as `add`, of other runs, and where a cumulative metric falls
      def subtract(model)
        check(model)
        Refusals.no_earlier(*[@model, model].map { |any| Metadata.parse(any[:comments]) })
        unless model.values_at(:period_type, :period) == @model.values_at(:period_type, :period)
          raise ArgumentError, "the profiles' periods differ: #{period_of(@model)} and #{period_of(model)}"
        end

        merge(model, -1)
        settle_cumulative
        @model = head_of_difference(@model, model)
      end

      # @return [Hash] the result so far
      # @raise [ArgumentError] nothing was added
      def model
        raise ArgumentError, "at least one profile is needed" unless @model

        @rounded = Array.new(@model[:sample_types].size, 0.0)
        samples = @values.filter_map do |key, values|
          sample_of(key, values) if values.any?(&:nonzero?)
        end
        @model.merge(functions: @functions.keys, samples: samples,
                     locations: @locations.map { |(function, line), (_, address)| [function, line, address] })
      end

      private

      def check(model)
        refuse("metrics", model) { |any| any[:sample_types].map { |type| type.join("/") }.join(", ") }
        # Go's pprof refuses these too: one object in N, and one byte in N, are no sum.
        refuse("period types", model) { |any| any[:period_type]&.join("/") || "none" }
      end

      def refuse(what, model, &)
        mine, others = [@model, model].map(&)
        raise ArgumentError, "the profiles' #{what} differ: #{mine} and #{others}" unless mine == others
      end

      def refuse_mixture(metadata)
        kind = Metadata.kind(metadata)
        Refusals.mixture(kind, @kind) if @model
        @kind = kind
      end

      def refuse_twice(model, metadata)
        spans = Spans.of(model, metadata)
        Refusals.twice(metadata) if spans.overlap?(@spans)
        @spans += spans
      end

      # What a collector had at a fork is in the profiles of both processes from then on.
      def note_relatives(metadata)
        pids = Metadata.list(metadata[:pid])
        parents = Metadata.list(metadata[:forked_from])
        @parents |= parents
        (Metadata.list(metadata[:run]) | parents).each { |run| @relatives[run] |= [pids] }
      end

      # @return [String, nil]
      def forked_pids(*parts)
        known = parts.flat_map { |part| Metadata.list(part[:forked_pids]) }
        related = @relatives.slice(*@parents).each_value.select { |processes| processes.size > 1 }.flatten
        (known | related).join(", ") unless known.empty? && related.empty?
      end

      def count_unlabelled(model, metadata)
        return if model[:samples].empty?

        labelled = model[:samples].any? { |_, _, labels| labels&.key?("class") }
        @labelled ||= labelled
        @unlabelled += labelled ? metadata[:processes_without_class].to_i : metadata[:processes] || 1
      end

      # (An average comes out a little different with each rounding.)
      def compare_weights(metadata)
        @differ ||= metadata.key?(:weights)
        @sampling.weights.each_with_index do |weight, column|
          next unless weight

          known = (@weights[column] ||= weight)
          @differ ||= (weight - known).abs > known * SAME_WEIGHT
        end
      end

      def period_of(model)
        "#{model[:period]} #{model[:period_type]&.join("/")}"
      end

      def merge(model, sign)
        functions = model[:functions].map { |function| @functions[function] ||= @functions.size }
        locations = model[:locations].map do |function, line, address|
          number, = (@locations[[functions[function], line]] ||= [@locations.size, address])
          number
        end
        @sampling = Sampling.new(model, Metadata.parse(model[:comments]))
        model[:samples].each { |sample| merge_sample(locations.values_at(*sample[0]), sample, sign) }
      end

      def merge_sample(stack, sample, sign)
        _, values, labels, deviations = sample
        key = [stack, kept(labels)]
        sum = (@values[key] ||= Array.new(values.size, 0))
        variances = (@variances[key] ||= Array.new(values.size, 0.0))
        @uneven[key] = true if deviations
        values.each_with_index do |value, column|
          sum[column] += sign * value
          variances[column] += sign * @sampling.variance(column, sample)
        end
      end

      def kept(labels)
        labels = labels&.select { |key, value| value.is_a?(String) && @keep.include?(key) } if @keep
        labels unless labels && labels.empty?
      end

      # What is in a difference has been sampled later: its variance is that of the
      # later profile less that of the earlier. (Of the metrics in use, of which
      # some has gone too, that is the least it can be.)
      def sample_of(key, values)
        sample = [key[0], values, key[1]]
        sample << deviations(@variances[key].map(&:abs)) if @differ || @uneven[key]
        sample
      end

      # Where all samples have them, what rounding takes from one's variance goes to the next: of a
      # weight of 2 it's half, in the same direction each time.
      def deviations(variances)
        return variances.map { |variance| Math.sqrt(variance).round } unless @differ

        variances.map.with_index do |variance, column|
          next 0 if variance.zero?

          due = variance + @rounded[column].clamp(-variance, variance)
          Math.sqrt(due).round.tap { |deviation| @rounded[column] = due - (deviation**2) }
        end
      end

      # A sample may get its label late (a class that could not be known at
      # once): then its values moved from one set of labels to another, and only
      # the whole stack's never fall. What a set lost is taken from its siblings.
      def settle_cumulative
        cumulative = @model[:sample_types].each_index.select { |i| @model[:sample_types][i][0].start_with?("alloc_") }
        fallen = @values.select { |_, values| cumulative.any? { |column| values[column].negative? } }
        return if fallen.empty?

        stacks = fallen.keys.to_h { |stack, _| [stack, []] }
        @values.each { |(stack, _), values| stacks[stack]&.push(values) }
        stacks.each_value { |siblings| cumulative.each { |column| settle(siblings, column) } }
      end

      def settle(siblings, column)
        missing = -siblings.sum { |values| [values[column], 0].min }
        siblings.each do |values|
          if values[column].negative?
            values[column] = 0
          else
            taken = [values[column], missing].min
            values[column] -= taken
            missing -= taken
          end
        end
        raise ArgumentError, Refusals::DIFFERENT_RUNS if missing.positive?
      end

      # As pprof's own merge has it: the first time, the largest period.
      def head_of_sum(one, other)
        comments = [one[:comments], other[:comments]]
        metadata = metadata_of_sum(*comments.map { |lines| Metadata.parse(lines) })
        one.merge(
          period: [one[:period], other[:period]].max,
          time_nanos: [one[:time_nanos], other[:time_nanos]].reject(&:zero?).min || 0,
          duration_nanos: one[:duration_nanos] + other[:duration_nanos],
          mapping: one[:mapping] | other[:mapping],
          comments: Metadata.format(metadata) + comments.flat_map { |lines| Metadata.remarks(lines) }.uniq
        )
      end

      def metadata_of_sum(*parts)
        metadata = Metadata.sum(*parts)
        found = { forked_pids: forked_pids(*parts), weights: ("differ" if @differ), spans: @spans.to_s }
        metadata.merge!(found.compact)
        metadata[:processes_without_class] = @unlabelled if @labelled && @unlabelled.positive?
        metadata
      end

      def head_of_difference(later, earlier)
        times = [later[:time_nanos], earlier[:time_nanos]]
        duration = times.include?(0) ? 0 : [times[0] - times[1], 0].max
        parts = [later, earlier].map { |model| Metadata.parse(model[:comments]) }
        spans = Spans.of(later, parts[0]).since(Spans.of(earlier, parts[1]))
        metadata = Metadata.difference(*parts)
        metadata.merge!({ spans: spans.to_s, difference: "of two profiles, #{seconds(duration)} apart" }.compact)
        later.merge(duration_nanos: duration, comments: Metadata.format(metadata))
      end

      def seconds(nanos)
        Kernel.format("%.3f s", nanos / 1e9)
      end
    end
  end
end
