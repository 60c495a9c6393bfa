# frozen_string_literal: true

require_relative "lib/memprofiler/version"

Gem::Specification.new do |spec|
  spec.name = "memprofiler"
  spec.version = Memprofiler::VERSION
  spec.authors = ["memprofiler contributors"]
  spec.summary = "Which lines of a Ruby program allocate memory, and which made what is still in use"
  spec.description = "A sampling memory profiler for CRuby, cheap enough for production: allocated and live objects " \
                     "and bytes by stack, written as pprof files that `go tool pprof` and others open."
  spec.license = "MIT"
  spec.required_ruby_version = ">= 3.1"

  # vendor/upb is made by `rake build`; with it the gem's installation downloads nothing.
  spec.files = Dir.glob(
    %w[lib/**/*.rb exe/* ext/memprofiler/{*.{c,h,map,rb},depend,{core,upb,vm}/*.{c,h},upb/LICENSE,vendor/upb/**/*}
       proto/* docs/*.md README.md CHANGELOG.md LICENSE SECURITY.md], base: __dir__
  ).select { |name| File.file?(File.join(__dir__, name)) }
  spec.bindir = "exe"
  spec.executables = ["memprofiler"]
  spec.extensions = ["ext/memprofiler/extconf.rb"]
  spec.metadata["rubygems_mfa_required"] = "true"
end
