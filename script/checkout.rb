# frozen_string_literal: true

# exe/memprofiler out of a checkout: builds the extension first where that is
# needed, with nothing but Ruby, its headers, make and a C compiler. Started by
# bin/memprofiler, without RubyGems.

root = File.expand_path("..", __dir__)
require "#{root}/ext/memprofiler/requirements"
refusal = Platform.refusal
abort refusal if refusal

require "#{root}/script/extension_build"
begin
  ExtensionBuild.new.call { warn "memprofiler: building the extension (once, up to a minute)..." }
rescue ExtensionBuild::Error => e
  abort e.message
rescue Interrupt
  exit 130
end

# What the report says to type next, unless this very command is in the PATH.
command = File.join(root, "bin/memprofiler")
in_path = ENV["PATH"].to_s.split(File::PATH_SEPARATOR).map { |folder| File.join(folder, "memprofiler") }
                     .find { |path| File.file?(path) && File.executable?(path) }
unless in_path && File.realpath(in_path) == File.realpath(command)
  module Memprofiler
    module CLI # :nodoc:
      COMMAND = File.expand_path("../bin/memprofiler", __dir__).delete_prefix("#{Dir.pwd}/")
    end
  end
end

load "#{root}/exe/memprofiler"
