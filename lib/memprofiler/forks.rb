# frozen_string_literal: true

module Memprofiler
  # What has to go on in a forked child: threads, which a fork leaves behind. By Process._fork, which
  # all ways of forking come by from Ruby 3.1 on, but Process.daemon. (`fork { exec }` comes by as well:
  # what is done in the child must be cheap, and harm nobody when it is cut short.) What goes wrong in
  # there is not the program's.
  #
  # No lock here: a program may fork in a signal handler.
  #
  # @api private
  module Forks
    SINGLETON_CLASS = ::Process.singleton_class
    private_constant :SINGLETON_CLASS

    @callbacks = [].freeze

    class << self
      # @param callback [#after_fork] called in each child, until `forget`, with whether it is one of Process.daemon:
      #   whether the parent has ended, and has left all that it had to this child
      def watch(callback)
        SINGLETON_CLASS.prepend(ForkHook) unless SINGLETON_CLASS.include?(ForkHook)
        call([*@callbacks.reject { |other| other.equal?(callback) }, callback])
      end

      def forget(callback)
        call(@callbacks.reject { |other| other.equal?(callback) })
      end

      private

      def call(callbacks)
        Memprofiler.fork_callbacks = @callbacks = callbacks.freeze
      end
    end
  end
end
