# frozen_string_literal: true

# Parses files of the standard library, in the order of their names (Dir[] sorts).
require "rbconfig"
require "ripper"

count = Integer(ARGV.fetch(0))
files = Dir[File.join(RbConfig::CONFIG["rubylibdir"], "**", "*.rb")]
count.times { |i| Ripper.sexp(File.read(files[i % files.size])) }
