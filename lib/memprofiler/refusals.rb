# frozen_string_literal: true

module Memprofiler
  class Profile
    # Which profiles can't be added up, or subtracted, whatever is in their samples.
    #
    # @api private
    module Refusals
      DIFFERENT_RUNS = "these are not an earlier and a later profile of one collector, in this order " \
                       "(to compare two runs: go tool pprof -diff_base)"
      ONE_RUN = "two of the profiles are of one run of a collector (pid %s), and what both have would count twice: " \
                "leave the earlier one out, or take later - earlier"
      OVERLAP = "two of the differences are of one run of a collector (pid %s) and overlap: what both have would " \
                "count twice"
      MIXTURE = "one is a difference of two profiles, another one isn't"
      IN_USE = "of one difference inuse_* is what is in use, of another one what that has changed by"
      NOT_WHOLE = "one of the two is a difference already, and later - earlier needs two whole profiles"
      private_constant :ONE_RUN, :OVERLAP, :MIXTURE, :IN_USE, :NOT_WHOLE

      module_function

      # Of what is there and what has changed there's no sum that means anything.
      #
      # @param kinds [Array<Symbol>] as Metadata.kind gives them
      # @raise [ArgumentError] they are not the same
      def mixture(*kinds)
        raise ArgumentError, kinds.include?(:whole) ? MIXTURE : IN_USE if kinds.uniq.size > 1
      end

      # All that an earlier profile of a run has, a later one has too.
      #
      # @raise [ArgumentError]
      def twice(metadata)
        raise ArgumentError, format(metadata[:difference] ? OVERLAP : ONE_RUN, metadata[:pid] || "unknown")
      end

      # What one profile alone says of its run is no sign of another one. (In a forked child the collector
      # and its counts go on.)
      #
      # @raise [ArgumentError] the profiles of these metadata have no difference
      def no_earlier(later, earlier)
        raise ArgumentError, NOT_WHOLE if later[:difference] || earlier[:difference]

        mine, others = [later, earlier].map { |metadata| Metadata.list(metadata[:run]) }
        return if mine.empty? || others.empty?

        foreign = others - mine - Metadata.list(later[:forked_from])
        raise ArgumentError, DIFFERENT_RUNS if foreign.any? || Metadata.fallen?(later, earlier)
      end
    end
  end
end
