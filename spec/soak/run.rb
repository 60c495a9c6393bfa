# frozen_string_literal: true

# Programs that never end in something new, each in a process of its own with the profiler on, and the same rounds of it bare:
# prints what both take over time, and holds the profiler's memory against the caps (bounds.rb).

require "optparse"
require "rbconfig"
require_relative "bounds"
require_relative "scenarios"
require_relative "verdict"

seconds = 60
names = []
OptionParser.new do |options|
  options.banner = "usage: ruby spec/soak/run.rb [options] [SCENARIO...]: #{Soak::SCENARIOS.keys.join(", ")}"
  options.on("--seconds N", Float, "for all scenarios, bare runs not counted (default #{seconds})") { |n| seconds = n }
  names = options.parse!
end

abort "soak: needs /proc/self/statm" unless File.exist?("/proc/self/statm")
scenarios = names.empty? ? Soak::SCENARIOS.values : names.map { |name| Soak::SCENARIOS.fetch(name) }

module Soak
  COMMAND = [RbConfig.ruby, *$LOAD_PATH.flat_map { |folder| ["-I", folder] }, File.join(__dir__, "program.rb")].freeze

  def self.lines(scenario, *arguments)
    environment = { "RUBYOPT" => nil, **scenario.env }
    output = IO.popen(environment, [*COMMAND, scenario.name, *arguments.map(&:to_s)], &:readlines)
    abort "soak: #{scenario.name}: #{$?}" unless $?.success?
    output.map(&:split)
  end
end

failed = scenarios.reject do |scenario|
  profiled = Soak.lines(scenario, "profiled", seconds / scenarios.size)
  bare = Soak.lines(scenario, "bare", *profiled.select { |line| line[0] == "row" }.map { |line| line[1] })
  verdict = Soak::Verdict.new(scenario, profiled, bare)
  puts verdict.table
  $stdout.flush
  verdict.faults.empty?
end
puts "soak: Ruby #{RUBY_VERSION}, #{scenarios.size} scenarios, #{failed.size} failed#{": #{failed.map(&:name).join(", ")}" unless failed.empty?}"
exit(failed.empty?)
