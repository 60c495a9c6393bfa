# frozen_string_literal: true

# A raw NEWOBJ hook that does nothing.
require "empty_hook"

module Config
  def self.start
    EmptyHook.start(false)
  end

  def self.finish
    EmptyHook.stop
  end
end
