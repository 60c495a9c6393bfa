# frozen_string_literal: true

require "rbconfig"
require_relative "platform"

# What a machine must have before the extension can be built. Each thing that is
# missing is told in one line, with the command that installs it here.
#
# Older and other Rubies run this file to be refused by it: keep its syntax old.
module Requirements
  # One row per package manager: what ruby's headers, a compiler, make and zlib's
  # headers are called there. The first manager found is the machine's.
  MANAGERS = {
    "apt-get" => { verb: "install", headers: "#{RbConfig::CONFIG["ruby_install_name"]}-dev",
                   compiler: "gcc libc6-dev", make: "make", zlib: "zlib1g-dev" },
    "dnf" => { verb: "install", headers: "ruby-devel",
               compiler: "gcc", make: "make", zlib: "zlib-devel" },
    "apk" => { verb: "add", headers: "ruby-dev",
               compiler: "gcc musl-dev", make: "make", zlib: "zlib-dev" },
    "brew" => { verb: "install", headers: "ruby", compiler: "gcc", make: "make", zlib: "zlib" }
  }.freeze

  MISSING = { headers: "Ruby's C headers are missing", compiler: "a C compiler is missing",
              make: "make is missing", zlib: "zlib's C headers are missing" }.freeze

  class << self
    # The first thing that is not here and can be seen without compiling, or nil.
    def missing
      return :headers unless headers?
      return :compiler unless command?(ENV["CC"] || RbConfig::CONFIG["CC"])
      return :make unless command?(ENV["MAKE"] || ENV["make"] || "make")

      nil
    end

    def message(missing)
      "memprofiler: #{MISSING.fetch(missing)}; install with: #{advice(missing)}"
    end

    private

    def headers?
      File.exist?(File.join(RbConfig::CONFIG["rubyhdrdir"].to_s, "ruby.h")) &&
        File.exist?(File.join(RbConfig::CONFIG["rubyarchhdrdir"].to_s, "ruby/config.h"))
    end

    def advice(missing)
      here = MANAGERS.keys.find { |name| command?(name) }
      (here ? [here] : MANAGERS.keys).map do |name|
        "#{name} #{MANAGERS[name][:verb]} #{MANAGERS[name][missing]}"
      end.join(", or: ")
    end

    # A command may carry options ("gcc -m64") and a variable before it ("CCACHE_DIR=/x ccache gcc").
    def command?(command)
      program = command.to_s.split.find { |word| word !~ /\A\w+=/ }.to_s
      return File.executable?(program) if program.include?("/")

      ENV["PATH"].to_s.split(File::PATH_SEPARATOR).any? do |dir|
        path = File.join(dir, program)
        File.file?(path) && File.executable?(path)
      end
    end
  end
end
