# frozen_string_literal: true

require "rbconfig"

# Where this gem can be built, and what its build asks of systems that differ. docs/platforms.md says how each is
# known to work. (What differs in C is in core/platform.h.)
#
# Older and other Rubies run this file to be refused by it: keep its syntax old.
module Platform
  ALLOWED = "memprofiler is for CRuby 3.1 or newer, 64 bits, on Linux, macOS or another Unix"
  # Others have no C extensions, or not this one's hooks.
  ENGINES = {
    "jruby" => "JRuby has no C extensions", "truffleruby" => "TruffleRuby has no events of allocations and collections"
  }.freeze
  WINDOWS = /mswin|mingw|cygwin|bccwin/

  # What isn't used goes, as GNU's linkers and macOS' have it; extconf.rb leaves out what the linker doesn't know.
  # The map takes away two names that GNU's adds on its own, and leaves the one that a development Ruby asks for.
  LINKER = %w[-Wl,--gc-sections -Wl,-dead_strip -Wl,--version-script=$(srcdir)/exports.map].freeze

  # What no installation mends: the line to say, or nil. (`bytes`: of an address.)
  def self.refusal(engine: RUBY_ENGINE, version: RUBY_VERSION, host: RbConfig::CONFIG["host_os"],
                   bytes: [nil].pack("p").size)
    return "#{ALLOWED}: #{ENGINES[engine] || "this is #{engine}"}" if engine != "ruby"
    return "#{ALLOWED}: this is Windows (#{host}), where WSL will do" if host =~ WINDOWS
    return "#{ALLOWED}: this is Ruby #{version}" if (version.split(".").map(&:to_i) <=> [3, 1]) == -1

    "#{ALLOWED}: this Ruby has #{bytes * 8} bits" if bytes < 8
  end

  # The command that lists what a program exports; its file comes after that.
  def self.exported_names(host = RbConfig::CONFIG["host_os"])
    host =~ /darwin/ ? %w[nm -gU] : %w[nm -D --defined-only]
  end
end
