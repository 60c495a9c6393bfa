# frozen_string_literal: true

# run.rb [--lie] [TOOL...]: program.rb under LeakSanitizer and valgrind, and for longer, by its RSS. Ours is what the extension itself
# asked malloc for (it never calls xmalloc) and lost; Ruby ends without freeing what it took for its own objects, symbols among them,
# whoever called it. That rule needs no suppressions.
#
# Why not ruby_memcheck: it goes by any frame of the extension in valgrind's XML, which on Ruby 3.1 means these symbols, and asks
# for nokogiri; LeakSanitizer, which takes seconds, it doesn't know.

require "open3"
require "rbconfig"
require "tmpdir"

module Leaks
  EXTENSION = /memprofiler\.(?:so|bundle)/
  LOAD_PATH = $LOAD_PATH.flat_map { |folder| ["-I", folder] }.freeze
  PROGRAM = File.join(__dir__, "program.rb").freeze
  ROUNDS = 80
  GROWTH = 3_000 # kB of RSS in the second half

  module_function

  def run(environment, *before, rounds)
    output, status = Open3.capture2e({ "RUBYOPT" => nil, **environment }, *before, RbConfig.ruby, "--disable-gems", *LOAD_PATH, PROGRAM, rounds.to_s)
    abort "leaks: the program failed: #{status}\n#{output.lines.first(40).join}" unless status.success?
    output
  end

  # @return [Array<String>] the stack of each leak of ours; nil: there is no such tool
  def lsan(folder)
    library = `#{RbConfig::CONFIG["CC"].split.first} -print-file-name=liblsan.so`.chomp
    return unless File.absolute_path?(library)

    # Short stacks: it looks at 5,000 different ones at most, and Ruby has more than these.
    options = "exitcode=0:symbolize=0:fast_unwind_on_malloc=0:malloc_context_size=4:log_path=#{folder}/lsan"
    run({ "LD_PRELOAD" => library, "LSAN_OPTIONS" => options }, 2)
    texts = Dir["#{folder}/lsan.*"].map { |log| File.read(log, encoding: "BINARY") }
    abort "leaks: LeakSanitizer can't work here:\n#{texts.first}" if texts.empty? || texts.grep(/fatal error/).any?
    texts.flat_map { |text| text.scan(/^\w+ leak of .*?^$/m) }.select { |leak| EXTENSION.match?(asked_by(leak.lines.grep(/^ +#\d/))) }
  end

  # @return as lsan
  def valgrind(folder)
    return unless system("valgrind", "--version", %i[out err] => File::NULL)

    run({}, "valgrind", "--leak-check=full", "--show-leak-kinds=all", "--num-callers=40", "--undef-value-errors=no", "--xml=yes",
        "--xml-file=#{folder}/valgrind.%p.xml", 1)
    blocks = Dir["#{folder}/valgrind.*.xml"].flat_map { |file| File.read(file, encoding: "BINARY").scan(%r{<error>.*?</error>}m) }
    # the process' labels are there for ever
    abort "leaks: valgrind saw nothing of the extension" if blocks.grep(EXTENSION).empty?
    blocks.select { |block| ours?(block) }.map { |block| block.scan(%r{<(?:fn|text)>(.*?)</}).join(" < ") }
  end

  def ours?(block)
    !block.include?("Leak_StillReachable") && EXTENSION.match?(asked_by(block.scan(%r{<frame>.*?</frame>}m)))
  end

  # The first frame that is not the tool's own malloc.
  def asked_by(frames)
    frames.find { |frame| !frame.match?(/liblsan|vgpreload|\b(?:malloc|calloc|realloc)\b/) }.to_s
  end

  def rss(_folder)
    before, after = run({}, ROUNDS)[/^rss: (.*)/, 1].split.map(&:to_i)
    after - before > GROWTH ? ["RSS: #{before} kB after #{ROUNDS / 2} rounds, #{after} kB after #{ROUNDS}"] : []
  end
end

ENV["LEAKS_LIE"] = "1" if ARGV.delete("--lie")
tools = ARGV.empty? ? %w[lsan valgrind rss] : ARGV
failed = tools.select do |tool|
  leaks = Dir.mktmpdir { |folder| Leaks.public_send(tool, folder) }
  puts "leaks: #{tool}: #{leaks ? "#{leaks.size} with a frame of the extension" : "not there, left out"}"
  puts leaks.to_a.first(5)
  leaks&.any?
end
exit(failed.empty?)
