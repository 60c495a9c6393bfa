# frozen_string_literal: true

require "digest/sha2" # by threads: an autoload would be a race
require_relative "../script/warnings"

# The tests of ext/memprofiler/core, which need no Ruby: each spec/core/test_*.c is
# a program, each fuzz_*.c a libFuzzer target; other .c files there go into both.
# Objects are kept in tmp/core, in a folder for each way of compiling.
module CoreTests
  EXT = "ext/memprofiler"
  SOURCES = Dir["#{EXT}/core/*.c"]
  # Foreign or generated: not held to our warnings.
  UPB = %w[upb/profile.upb_minitable.c vendor/upb/ruby-upb.c vendor/upb/utf8_range/utf8_range.c]
        .map { |name| "#{EXT}/#{name}" }
  TESTS = Dir["spec/core/test_*.c"]
  FUZZERS = Dir["spec/core/fuzz_*.c"]
  HELPERS = Dir["spec/core/*.c"] - TESTS - FUZZERS
  HEADERS = Dir["#{EXT}/{core,upb}/*.h", "spec/core/*.h"] + [__FILE__, "script/warnings.rb"]

  WARNINGS = Hash.new { |known, compiler| known[compiler] = Warnings.of(compiler) }
  INCLUDES = ["-iquote", "#{EXT}/core", "-iquote", "spec/core",
              *%w[upb vendor/upb vendor/upb/utf8_range].flat_map { |folder| ["-isystem", "#{EXT}/#{folder}"] }].freeze
  SANITIZERS = %w[-fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer].freeze
  SANITIZER_OPTIONS = { "ASAN_OPTIONS" => "allocator_may_return_null=1",
                        "UBSAN_OPTIONS" => "print_stacktrace=1" }.freeze

  # An object is compiled again when what it is made from has other contents: times
  # say nothing in a copied tree.
  class CompiledObject < Rake::FileTask
    def needed?
      !File.exist?(name) || !File.exist?(mark) || File.read(mark) != contents
    end

    def compiled
      File.write(mark, contents)
    end

    private

    def mark
      "#{name}.sha256"
    end

    def contents
      Digest::SHA256.hexdigest(prerequisites.map { |file| Digest::SHA256.file(file).hexdigest }.join)
    end
  end

  # A way to compile: `compile` and `link` are the flags of either step.
  Way = Struct.new(:name, :compiler, :compile, :link, :programs) do
    include Rake::DSL

    def binaries
      programs.map { |source| path(source, "") }
    end

    def path(source, suffix)
      "tmp/core/#{name}/#{File.basename(source, ".c")}#{suffix}"
    end

    # Defines the tasks that make the binaries.
    def define
      directory "tmp/core/#{name}"
      common = [*SOURCES, *UPB, *HELPERS]
      (common + programs).each { |source| define_object(source) }
      objects = common.map { |source| path(source, ".o") }
      programs.each { |source| define_binary(source, objects) }
      multitask "core:objects:#{name}" => (common + programs).map { |source| path(source, ".o") }
      task "core:build:#{name}" => [:upb, "core:objects:#{name}", *binaries]
    end

    private

    def define_object(source)
      foreign = UPB.include?(source)
      CompiledObject.define_task(path(source, ".o") => [source, *(HEADERS unless foreign)]) do |task|
        mkdir_p File.dirname(task.name), verbose: false
        warnings = foreign ? ["-w"] : WARNINGS[compiler]
        sh compiler, "-std=gnu11", *compile, *warnings, *INCLUDES, "-c", "-o", task.name, source, verbose: false
        task.compiled
      end
    end

    def define_binary(source, objects)
      file path(source, "") => [path(source, ".o"), *objects] do |task|
        sh compiler, *link, "-o", task.name, *task.prerequisites, "-lz", "-lm", verbose: false
      end
    end
  end

  COMPILER = ENV["CC"] || "cc"
  TEST = Way.new("test", COMPILER, %w[-O1 -g], [], TESTS)
  ASAN = Way.new("asan", COMPILER, ["-O1", "-g", *SANITIZERS], SANITIZERS, TESTS)
  FUZZ = Way.new("fuzz", "clang", ["-O1", "-g", "-fsanitize=fuzzer-no-link", *SANITIZERS],
                 ["-fsanitize=fuzzer", *SANITIZERS], FUZZERS)

  # Runs all, then fails if one did.
  def self.run(binaries, *before, env: {})
    abort "core: there are no C tests in spec/core" if binaries.empty?

    failed = binaries.reject do |binary|
      print "core: #{[*before.take(1), binary.delete_prefix("tmp/core/")].join(" ")}: "
      $stdout.flush
      system(env, *before, binary)
    end
    abort "core: failed: #{failed.join(", ")}" unless failed.empty?
  end
end

[CoreTests::TEST, CoreTests::ASAN, CoreTests::FUZZ].each(&:define)

namespace :core do
  desc "Run the C tests"
  task test: "build:test" do
    CoreTests.run(CoreTests::TEST.binaries)
  end

  desc "Run the C tests under the address and undefined behaviour sanitizers"
  task asan: "build:asan" do
    CoreTests.run(CoreTests::ASAN.binaries, env: CoreTests::SANITIZER_OPTIONS)
  end

  desc "Run the C tests under valgrind"
  task valgrind: "build:test" do
    CoreTests.run(CoreTests::TEST.binaries, "valgrind", "--quiet", "--error-exitcode=99", "--leak-check=full",
                  "--errors-for-leak-kinds=definite,indirect", "--show-leak-kinds=definite,indirect")
  end

  desc "Fuzz the decoder and the recorder for so many seconds each"
  task :fuzz, [:seconds] => "build:fuzz" do |_, arguments|
    seconds = Integer(arguments[:seconds] || 60)
    CoreTests::FUZZ.binaries.each do |binary|
      corpus = "tmp/core/corpus/#{File.basename(binary)}"
      mkdir_p corpus, verbose: false
      log = "#{binary}.log"
      command = [binary, "-max_total_time=#{seconds}", "-timeout=20", "-rss_limit_mb=2048", "-print_final_stats=1",
                 "-artifact_prefix=tmp/core/", corpus]
      passed = system(CoreTests::SANITIZER_OPTIONS, *command, %i[out err] => log)
      abort "#{File.read(log).lines.last(100).join}core: failed: #{binary}; its input is in tmp/core" unless passed

      inputs = File.read(log)[/number_of_executed_units: (\d+)/, 1]
      puts "core: #{binary.delete_prefix("tmp/core/")}: #{inputs} inputs in #{seconds} s, no fault"
    end
  end
end
