# frozen_string_literal: true

require_relative "printable"

# Faults of the VM that profiling has to keep clear of.
module Memprofiler
  # Faults of some Rubies that no hook can be put on safely around.
  #
  # - Ruby 3.1.0-3.1.3 and 3.2.0-3.2.2 crash when a Ractor is created while any internal
  #   event hook is on, or was (Ruby bug 18464): there profiling ends before the first one.
  # - Ruby 3.2.0-3.2.2 crash when a class is allocated under an allocation hook (Ruby bug
  #   19482): there profiling does not begin.
  # - From Ruby 4.1 on ZJIT, where it's switched on, makes objects that no hook sees, nor the VM's own count
  #   (of 100,000 in a loop 57 were seen): there profiling goes on, and says so.
  #
  # @api private
  module VMFaults
    RACTORS_CRASH = /\A3\.(?:1\.[0-3]|2\.[0-2])\z/.match?(RUBY_VERSION)
    CLASSES_CRASH = /\A3\.2\.[0-2]\z/.match?(RUBY_VERSION)

    ZJIT_MAKES_OBJECTS = (RUBY_VERSION.split(".").map(&:to_i) <=> [4, 1]) >= 0

    RACTOR = ::Ractor.singleton_class # a program may do away with the name

    module_function

    # Once in a process, and in each profile. What isn't said for a program that has warnings raise is in those.
    def look_for_zjit
      return unless ZJIT_MAKES_OBJECTS && !@zjit_told && defined?(::RubyVM::ZJIT) && ::RubyVM::ZJIT.enabled?

      @zjit_told = true
      Memprofiler.hooks_bypassed
      Printable.warn("memprofiler: ZJIT of Ruby #{RUBY_VERSION} makes objects past any profiler, and those are " \
                     "missing from all figures: run it without --zjit")
    rescue StandardError
      nil
    end

    def guard_ractors
      RACTOR.prepend(RactorGuard) unless RACTOR.include?(RactorGuard)
    end
  end

  class << self
    private

    # Called by Collector#start.
    # @return [Boolean] whether {before_flush} is to be called as well
    # @raise [Error] this Ruby can't be profiled (any more)
    # @api private
    def before_start
      if VMFaults::CLASSES_CRASH
        raise Error, "Ruby #{RUBY_VERSION} crashes when a class is made while allocations are watched " \
                     "(Ruby bug 19482): use 3.2.3 or later"
      end
      VMFaults.look_for_zjit
      look_for_ractors if VMFaults::RACTORS_CRASH
      VMFaults::ZJIT_MAKES_OBJECTS
    end

    # Called by all flushes: a program may switch ZJIT on while it runs.
    # @api private
    def before_flush
      VMFaults.look_for_zjit
    end

    # Called by RactorGuard. A program may have warnings raise: it has its Ractor all the same.
    def stop_for_ractor
      reason = :"a Ractor was created, which this Ruby can't survive while profiled (bug 18464)"
      return unless stop_all(reason)

      Printable.warn("memprofiler: profiling ends here: Ruby #{RUBY_VERSION} crashes when a Ractor starts while " \
                     "allocations are watched (Ruby bug 18464)")
    end

    def look_for_ractors
      # In this order: one that is no longer coming is there.
      return VMFaults.guard_ractors if !ractor_coming? && one_ractor?

      raise Error, "Ruby #{RUBY_VERSION} crashes when a Ractor starts while allocations are watched (Ruby bug " \
                   "18464), and one is running: use 3.1.4, 3.2.3 or later"
    end
  end
end
