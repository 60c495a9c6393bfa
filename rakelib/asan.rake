# frozen_string_literal: true

# The specs with the extension under the address and undefined behaviour sanitizers. The Ruby is not
# built so: their runtime comes by LD_PRELOAD, into every process that a spec starts.
module AsanSpecs
  REPORTS = "tmp/asan/reports"
  # Leaks: Ruby gives back nothing at its end. A fake stack: Ruby's collector reads the real one.
  # SEGV and the stack for its handler: Ruby has its own, whose report says what Ruby was doing.
  OPTIONS = %w[detect_leaks=0 detect_stack_use_after_return=0 handle_segv=0 use_sigaltstack=0
               allocator_may_return_null=1].freeze

  module_function

  def env
    log = "log_path=#{File.expand_path("report", REPORTS)}"
    # gcc's second runtime writes to no file beside the first: its process ends by ABRT, which no spec expects.
    { "MEMPROFILER_ASAN" => "1", "LD_PRELOAD" => runtime, "ASAN_OPTIONS" => [*OPTIONS, log].join(":"),
      "UBSAN_OPTIONS" => "print_stacktrace=1:abort_on_error=1" }
  end

  def runtime
    name = "libasan.#{RbConfig::CONFIG["SOEXT"]}"
    path = IO.popen([ENV["CC"] || RbConfig::CONFIG["CC"], "-print-file-name=#{name}"], &:read).chomp
    File.file?(path) ? File.realpath(path) : abort("asan: the compiler has no #{name} (Debian: apt-get install gcc)")
  end

  # A child's report can be what its spec swallows: so they are files, and looked for.
  def check(passed)
    reports = Dir["#{REPORTS}/*"]
    reports.each { |path| warn File.read(path).lines.first(60).join }
    abort "asan: #{reports.size} reports, in #{REPORTS}" unless reports.empty?
    abort "asan: specs failed, though no sanitizer said a thing" unless passed
    puts "asan: no report"
  end
end

desc "Run the specs, or FILES, with the extension under the address and undefined behaviour sanitizers"
task :asan, [:files] do |_, given|
  sh({ "MEMPROFILER_ASAN" => "1" }, "rake", "--quiet", "compile", verbose: false)
  rm_rf AsanSpecs::REPORTS, verbose: false
  mkdir_p AsanSpecs::REPORTS, verbose: false
  command = ["rspec", "--tag", "~no_asan", *given.files.to_s.split]
  AsanSpecs.check(system(AsanSpecs.env, *command))
end
