# frozen_string_literal: true

# exe/memprofiler out of a checkout: builds the extension first where that is
# needed, with nothing but Ruby, its headers, make and a C compiler. Started by
# bin/memprofiler, without RubyGems.

root = File.expand_path("..", __dir__)
require "#{root}/ext/memprofiler/requirements"
refusal = Requirements.unfit_ruby
abort refusal if refusal

require "#{root}/script/extension_build"
begin
  ExtensionBuild.new.call { warn "memprofiler: building the extension (once, about 20 s)..." }
rescue ExtensionBuild::Error => e
  abort e.message
rescue Interrupt
  exit 130
end

load "#{root}/exe/memprofiler"
