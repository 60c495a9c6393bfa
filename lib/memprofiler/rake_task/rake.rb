# frozen_string_literal: true

# Rake, of the version and in the folder of the one that asked for it (see RakeTask): a file of a known
# place, as a program that was found by PATH may start another one.
version = ARGV.shift
Dir.chdir(ARGV.shift)
begin
  gem "rake", version if defined?(Gem) && !defined?(Bundler)
rescue LoadError
  nil # one that is no gem
end
require "rake"
$PROGRAM_NAME = "rake" # as tasks know it

# What is in RAKEOPT is among the words already, seen from another folder maybe. Tasks have it all the same.
rakeopt = ENV.delete("RAKEOPT")
Rake.application.standard_exception_handling do
  Rake.application.init("rake", ARGV)
  ENV["RAKEOPT"] = rakeopt
  Rake.application.load_rakefile
  Rake.application.top_level
end
