# frozen_string_literal: true

# The program alone.
module Config
  def self.start; end
  def self.finish; end
end
