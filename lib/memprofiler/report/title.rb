# frozen_string_literal: true

module Memprofiler
  class Report
    # What a table is about, and how much there is of it in all.
    class Title
      # @param profile [Profile]
      # @param metric [Symbol]
      # @param by [Symbol]
      def initialize(profile, metric, by)
        @profile = profile
        @metric = metric
        @by = by
        @unit = profile.sample_types[metric]
      end

      # @return [Array<String>]
      def lines
        changed? ? [what_changed, base] : ["#{heading}: #{whole}#{who}"]
      end

      private

      def heading
        case @metric
        when /\Ainuse_/ then "Top retainers by #{@by}"
        when /\Aalloc_/ then "Top allocators by #{@by}#{", between the two profiles" if difference?}"
        else "Top by #{@by}"
        end
      end

      def whole
        total = value(@profile.total(@metric))
        objects = @metric.name.sub(/_space\z/, "_objects").to_sym
        return "#{@metric}, #{total}" if objects == @metric || !@profile.sample_types.key?(objects)

        "#{@metric}, #{total} in #{Units.plural(@profile.total(objects), "object")}"
      end

      # A retainer keeps nothing: it made what somebody keeps.
      def who
        return unless @metric.start_with?("inuse_")

        " still in use#{", by the #{@by} that made them" unless Profile::Attribution.label(@by)}"
      end

      def what_changed
        "Most changed by #{@by}, between the two profiles: #{whole}"
      end

      def base
        grown, shrunk = values.partition(&:positive?).map(&:sum)
        "#{value(grown)} more and #{value(-shrunk)} less; flat% and cum% are of both together, #{value(grown - shrunk)}"
      end

      # pprof's own differences don't say that they are any.
      def changed?
        (difference? && @metric.start_with?("inuse_")) || values.any?(&:negative?)
      end

      def difference?
        @profile.metadata.key?(:difference)
      end

      def values
        @values ||= begin
          column = @profile.sample_types.keys.index(@metric)
          Thread.pass
          @profile.model[:samples].map { |_, values, _| values[column] }
        end
      end

      def value(number)
        Units.value(number, @unit)
      end
    end
  end
end
