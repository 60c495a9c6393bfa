# frozen_string_literal: true

require "weakref"

module Memprofiler
  # What has to go on in a forked child: threads, which a fork leaves behind. By Process._fork, which
  # all ways of forking come by from Ruby 3.1 on, but Process.daemon. (`fork { exec }` comes by as well:
  # what is done in the child must be cheap, and harm nobody when it is cut short.)
  #
  # @api private
  module Forks
    # Before Process._fork and Process.daemon.
    module Hook
      def _fork
        super.tap { |pid| Forks.in_child if pid.zero? }
      end

      def daemon(*)
        super.tap { Forks.in_child }
      end
    end

    @callbacks = []

    class << self
      # @param callback [#after_fork] called in each child, as long as somebody else refers to it
      def watch(callback)
        Process.singleton_class.prepend(Hook) unless Process.singleton_class.include?(Hook)
        @callbacks.reject! { |reference| !reference.weakref_alive? || reference.__getobj__.equal?(callback) }
        @callbacks << WeakRef.new(callback)
      end

      # What goes wrong in here is not the program's.
      def in_child
        return unless Memprofiler.main_ractor?

        @callbacks.each do |reference|
          reference.__getobj__.after_fork
        rescue StandardError # one that is gone included
          nil
        end
      end
    end
  end
end
