# frozen_string_literal: true

require "open3"
require "rbconfig"
require "tmpdir"
require_relative "../ext/memprofiler/platform"

# What each platform is told at installation, by docs/platforms.md; and that nothing about platforms is anywhere else.
RSpec.describe "platforms" do
  let(:root) { File.expand_path("..", __dir__) }
  allowed = "memprofiler is for CRuby 3.1 or newer, 64 bits, on Linux, macOS or another Unix"

  {
    ["ruby", "3.1.2", "linux-gnu", 8] => nil, ["ruby", "3.3.0", "linux-musl", 8] => nil, ["ruby", "3.4.1", "darwin23", 8] => nil, ["ruby", "4.1.0", "freebsd14.0", 8] => nil,
    ["ruby", "10.0.0", "linux", 8] => nil,
    ["jruby", "3.1.4", "linux", 8] => "#{allowed}: JRuby has no C extensions",
    ["truffleruby", "3.3.5", "linux", 8] => "#{allowed}: TruffleRuby has no events of allocations and collections",
    ["mruby", "3.3", "linux", 8] => "#{allowed}: this is mruby",
    ["ruby", "3.3.0", "mingw32", 8] => "#{allowed}: this is Windows (mingw32), where WSL will do",
    ["ruby", "3.3.0", "mswin64_140", 8] => "#{allowed}: this is Windows (mswin64_140), where WSL will do",
    ["ruby", "3.3.0", "mingw-ucrt", 8] => "#{allowed}: this is Windows (mingw-ucrt), where WSL will do",
    ["ruby", "3.0.7", "linux-gnu", 8] => "#{allowed}: this is Ruby 3.0.7", ["ruby", "2.7.8", "linux-gnu", 8] => "#{allowed}: this is Ruby 2.7.8",
    ["ruby", "3.2.0", "linux-gnueabihf", 4] => "#{allowed}: this Ruby has 32 bits"
  }.each do |ruby, answer|
    it "#{ruby.first(3).join(" ")}#{" of #{ruby[3] * 8} bits" if ruby[3] < 8} #{answer ? "is refused" : "is not"}" do
      expect(Platform.refusal(**%i[engine version host bytes].zip(ruby).to_h)).to eq(answer)
      expect(answer.to_s.lines.size).to be <= 1
    end
  end

  # What `gem install` and a checkout's own command run first
  def run_as(changes, *command)
    Dir.mktmpdir do |dir|
      File.write("#{dir}/as.rb", "$VERBOSE = nil; require 'rbconfig'; #{changes}")
      Open3.capture2e({ "RUBYOPT" => nil }, RbConfig.ruby, "-r", "#{dir}/as.rb", *command, chdir: dir)
    end
  end

  it "are told of in one line by extconf.rb and by a checkout, which do nothing else then" do
    { "RUBY_ENGINE = 'truffleruby'" => "TruffleRuby has no", "RUBY_ENGINE = 'jruby'" => "JRuby has no", "RUBY_VERSION = '3.0.6'" => "this is Ruby 3.0.6",
      "RbConfig::CONFIG['host_os'] = 'mingw-ucrt'" => "this is Windows" }.each do |changes, reason|
      ["ext/memprofiler/extconf.rb", "script/checkout.rb"].each do |file|
        out, status = run_as(changes, "#{root}/#{file}")
        expect([out, status.exitstatus]).to match([/\A#{allowed}: #{reason}.*\n\z/, 1])
      end
    end
  end

  it "are refused by RubyGems before that where it can tell: an older Ruby" do
    gemspec = Gem::Specification.load("#{root}/memprofiler.gemspec")
    expect(gemspec.required_ruby_version.satisfied_by?(Gem::Version.new("3.0.7"))).to be(false)
    expect(%w[3.1.0 3.4.9 4.1.0 5.0.0].map { |version| gemspec.required_ruby_version.satisfied_by?(Gem::Version.new(version)) }).to all(be(true))
    expect(gemspec.platform).to eq("ruby")
  end

  it "can be read by Rubies of long ago" do
    old = %w[platform requirements].map { |name| File.read("#{root}/ext/memprofiler/#{name}.rb") }
    expect(old.join).not_to match(/&\.|=> e\)? in |\bfilter_map\b|\bthen \{|\(\.\.\.\)|\bend\.freeze if\b|<<~|def self\.\w+(?:\(.*\))? = |\bit\b\.|\.(?:negative|positive)\?/)
  end

  it "are nobody's affair but platform.h's and platform.rb's" do
    c = Dir.glob("#{root}/ext/memprofiler/{*,{core,vm}/*}.{c,h}").reject { |path| path.end_with?("core/platform.h", "vm/compat.h") }
    of_platform = %r{__builtin_|__attribute__|__extension__|__asm__|__int128|\bPATH_MAX\b|__linux__|__APPLE__|__GLIBC__|__GNUC__|_WIN32|_GNU_SOURCE|malloc_usable_size|malloc_trim|
                   mallinfo|__BYTE_ORDER|BIG_ENDIAN|"/proc|\bgettid\b|\bprctl\b|\bsyscall\(|_np\(|reallocarray|explicit_bzero|mremap|memrchr|execinfo|\#\s*if.*(?:__\w+__)}x
    expect(c.size).to be > 80
    expect(c.flat_map { |path| File.readlines(path).grep(of_platform).map { |line| [File.basename(path), line] } }).to eq([])
    ruby = Dir.glob("#{root}/{lib,exe,ext}/**/*.rb").reject { |path| path.end_with?("ext/memprofiler/platform.rb") }
    found = ruby.flat_map { |path| File.readlines(path).grep(%r{/proc/|host_os|darwin|linux|mingw|mswin|RUBY_ENGINE\b(?!\}| #)}).map { |line| [File.basename(path), line.strip] } }
    # A gem's file name tells a platform, and Ruby's name is told and compared. The bystander does without /proc where there is none.
    expect(found.reject { |name,| %w[origin.rb bystander.rb].include?(name) }).to eq([])
  end

  it "need no flags of one processor, and none is given" do
    flags = ["ext/memprofiler/extconf.rb", "ext/memprofiler/platform.rb", "ext/memprofiler/depend", "rakelib/core.rake"].map { |name| File.read("#{root}/#{name}") }
    expect(flags.join).not_to match(/-march|-mtune|-mcpu|-msse|-mavx|-m32|-m64|-funaligned/)
    expect(Dir.glob("#{root}/ext/memprofiler/{*,{core,vm}/*}.{c,h}").select { |path| File.read(path).match?(/<(?:\w+intrin|arm_neon|cpuid)\.h>/) }).to eq([])
  end
end
