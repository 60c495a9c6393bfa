# frozen_string_literal: true

# What an example needs from outside, and may do without.
module Outside
  NO_SKIP = ENV["MEMPROFILER_NO_SKIP"] == "1"

  # @param reason [String] what is missing and how to install it
  def skip_or_fail(reason)
    raise reason if NO_SKIP

    skip reason
  end
end

# Where nothing may be skipped, an example that is left out by any other way fails the run too.
class SkippedExamples
  def initialize
    @names = []
  end

  def example_pending(notification)
    @names << notification.example.location
  end

  def check
    raise "skipped although MEMPROFILER_NO_SKIP is 1: #{@names.join(", ")}" unless @names.empty?
  end
end

RSpec.configure do |config|
  config.include Outside
  config.disable_monkey_patching!
  config.order = :random
  Kernel.srand config.seed

  if Outside::NO_SKIP
    skipped = SkippedExamples.new
    config.reporter.register_listener(skipped, :example_pending)
    config.after(:suite) { skipped.check }
  end
end
