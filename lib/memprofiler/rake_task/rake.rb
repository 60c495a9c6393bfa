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
Rake.application.run
