# frozen_string_literal: true

require_relative "../real/install"
require_relative "../../bench/support/folders"
require_relative "suite"
require_relative "trial"

# The suites there are.
module Suites
  # Of test/ in Ruby's source: what has to do with the VM, processes, threads and C extensions.
  RUBYS_OWN = %w[ruby -ext- objspace fiber monitor coverage json io stringio strscan zlib digest socket psych
                 openssl etc bigdecimal date ripper racc pathname fileutils logger erb optparse ostruct].freeze

  class << self
    # @return [Hash{String => Suite}]
    def all
      { "ruby" => method(:ruby), "nokogiri" => method(:nokogiri), "eventmachine" => method(:eventmachine) }
    end

    private

    # All files of lib/ are tried in threads, not one in 20 by chance.
    def ruby
      Suite.new("ruby", source: DebianSource.new(*DebianSource.of_this_ruby), framework: :ruby,
                        files: RUBYS_OWN.map { |name| "test/#{name}" } + ["test/test_*.rb"],
                        options: ["-Itool/lib"], extensions: "ext/-test-/**/extconf.rb",
                        arguments: ->(file) { ["test/runner.rb", "-v", "--test-order=alpha", file] },
                        environment: { "RUBY_TEST_TIMEOUT_SCALE" => "4", "TEST_REQUIRE_THREAD_RATIO" => "1" })
    end

    # Its tests move all objects now and then (GC.compact).
    def nokogiri
      Suite.new("nokogiri", source: DebianSource.new("ruby-nokogiri"), framework: :minitest, files: ["test"],
                            options: ["-Ilib", "-Itest"], extensions: "ext/nokogiri/extconf.rb", gems: gems,
                            arguments: ->(file) { [file, "-v", "--seed=1"] },
                            environment: { "NOKOGIRI_USE_SYSTEM_LIBRARIES" => "true" })
    end

    # C++ with threads, signals and forks.
    def eventmachine
      Suite.new("eventmachine", source: DebianSource.new("ruby-eventmachine"), framework: :test_unit, files: ["tests"],
                                options: ["-Ilib", "-Itests"], extensions: "ext/**/extconf.rb", gems: gems)
    end

    def gems
      @gems ||= Real::Install.new(Bench.folder("suites"), source: File.join(__dir__, "Gemfile"))
    end
  end
end
