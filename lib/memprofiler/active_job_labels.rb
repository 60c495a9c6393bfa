# frozen_string_literal: true

module Memprofiler
  # What a job of ActiveJob's allocates bears the label `job`, its class, whatever the queue is run by.
  #
  # @example
  #   class ApplicationJob < ActiveJob::Base
  #     include Memprofiler::ActiveJobLabels
  #   end
  module ActiveJobLabels
    ANONYMOUS = "(anonymous)" # their inspection would make each a label of its own
    private_constant :ANONYMOUS

    # @param job_class [Class] with ActiveJob's callbacks
    # @return [void]
    # @raise [TypeError] it has none
    def self.included(job_class)
      super
      unless job_class.respond_to?(:around_perform)
        raise TypeError, "Memprofiler::ActiveJobLabels must be included in a class of ActiveJob's, " \
                         "not #{job_class.inspect}"
      end

      job_class.around_perform do |job, block|
        Memprofiler.with_labels(job: job.class.name || ANONYMOUS) { block.call }
      end
    end
  end
end
