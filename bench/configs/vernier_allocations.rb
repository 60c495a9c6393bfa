# frozen_string_literal: true

# Vernier with every 500th allocation. Its timer of 500 us can't be switched off; a long one leaves the allocations.
require "vernier"

module Config
  def self.start
    Vernier.start_profile(mode: :wall, interval: 1_000_000, allocation_interval: 500)
  end

  def self.finish
    Vernier.stop_profile
  end
end
