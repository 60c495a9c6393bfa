# frozen_string_literal: true

module Memprofiler
  # What has to go on in a forked child: threads, which a fork leaves behind. By Process._fork, which
  # all ways of forking come by from Ruby 3.1 on, but Process.daemon. (`fork { exec }` comes by as well:
  # what is done in the child must be cheap, and harm nobody when it is cut short.)
  #
  # No lock here: a program may fork in a signal handler.
  #
  # @api private
  module Forks
    # Before Process._fork and Process.daemon.
    module Hook
      def _fork
        super.tap { |pid| Forks.in_child if pid.zero? }
      end

      def daemon(*)
        super.tap { Forks.in_child(daemon: true) }
      end
    end

    @callbacks = [].freeze

    class << self
      # @param callback [#after_fork] called in each child, until `forget`, with `daemon:` whether the parent
      #   has ended, and has left all that it had to this child
      def watch(callback)
        Process.singleton_class.prepend(Hook) unless Process.singleton_class.include?(Hook)
        @callbacks = [*@callbacks.reject { |other| other.equal?(callback) }, callback].freeze
      end

      def forget(callback)
        @callbacks = @callbacks.reject { |other| other.equal?(callback) }.freeze
      end

      # What goes wrong in here is not the program's.
      def in_child(daemon: false)
        return unless Memprofiler.main_ractor?

        Memprofiler.own do
          @callbacks.each do |callback|
            callback.after_fork(daemon: daemon)
          rescue StandardError # no thread is to be had, say
            nil
          end
        end
      end
    end
  end
end
