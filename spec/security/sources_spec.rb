# frozen_string_literal: true

require "bundler"
require "digest"
require "ripper"
require "rubygems/package"
require "tmpdir"
require_relative "../../ext/memprofiler/upb_source"

# What the library is made of, what it never calls, and what the gem that is built has in it.
RSpec.describe "sources and the gem" do
  let(:root) { File.expand_path("../..", __dir__) }
  let(:gemspec) { Gem::Specification.load(File.join(root, "memprofiler.gemspec")) }

  it "never make code or objects of data: no eval, no Marshal, no YAML, no shell, no TLS without verification" do
    forbidden = %w[eval instance_eval class_eval module_eval instance_exec class_exec binding Marshal YAML Psych ERB system exec popen popen2 popen3 syscall
                   VERIFY_NONE Pathname open_uri unsafe_load load_file constantize]
    found = Dir.glob("#{root}/{lib,exe}/**/*").select { |path| File.file?(path) && (path.end_with?(".rb") || path.include?("/exe/")) }.flat_map do |path|
      tokens = Ripper.lex(File.read(path, encoding: "UTF-8"))
      words = tokens.select { |_, type, text| (%i[on_ident on_const].include?(type) && forbidden.include?(text)) || type == :on_backtick || (type == :on_gvar && text == "$SAFE") }
      words.map { |place, _, text| [path.delete_prefix("#{root}/"), place[0], text] }
    end
    expect(found).to eq([])
    # What is said on stderr goes through what makes it harmless there. (A stream that is only flushed or reopened, or whose width
    # is asked for, says nothing.)
    said = Dir.glob("#{root}/lib/**/*.rb").reject { |path| path.end_with?("/printable.rb") }.flat_map do |path|
      File.readlines(path).grep(/(?:^|[^.\w#])warn[ (]["']|\$stderr\.(?:write|puts|print|<<)|STANDARD_ERROR\.\w*write|\babort\b/).map(&:strip)
    end
    expect(said).to contain_exactly(a_string_starting_with("$stderr.write(summary.text("), "STANDARD_ERROR.syswrite(line.b)") # texts of tables, and one made harmless
    # Kernel#open, whose "| command" is a shell's
    opened = Dir.glob("#{root}/lib/**/*.rb").flat_map { |path| File.readlines(path).grep(/(?<![\w.:])open\(/).map { |line| [path, line] } }
    expect(opened).to eq([])
  end

  describe "upb's sources" do
    it "are of one pinned version, whose checksum is looked at before anything is unpacked" do
      expect(UpbSource::SHA256).to match(/\A\h{64}\z/)
      Dir.mktmpdir do |dir|
        forged = File.join(dir, "forged.gem")
        File.binwrite(forged, "not that gem")
        allow(UpbSource).to receive(:download_from).and_return(forged)
        expect(UpbSource).not_to receive(:unpack)
        expect { UpbSource.download(dir) }
          .to raise_error(UpbSource::Error, "google-protobuf 4.36.2 has the SHA-256 #{Digest::SHA256.file(forged).hexdigest} instead of #{UpbSource::SHA256}")
      end
    end
  end

  it "ask for exact versions of all development gems" do
    gemfile = Bundler::Dsl.new.tap { |dsl| dsl.eval_gemfile(File.join(root, "Gemfile")) }
    expect(gemfile.dependencies.size).to be > 20
    expect(gemfile.dependencies.reject { |gem| gem.requirement.exact? }).to eq([])
  end

  describe "the gem" do
    def build(dir)
      Dir.chdir(root) do
        before = ENV["SOURCE_DATE_EPOCH"]
        ENV["SOURCE_DATE_EPOCH"] = "1700000000"
        Gem.instance_variable_set(:@source_date_epoch, nil)
        Gem::DefaultUserInteraction.use_ui(Gem::SilentUI.new) { Gem::Package.build(Gem::Specification.load("memprofiler.gemspec").dup, true, false, File.join(dir, "#{Dir.children(dir).size}.gem")) }
      ensure
        ENV["SOURCE_DATE_EPOCH"] = before
      end
    end

    it "is the same bytes each time it is built of the same sources" do
      Dir.mktmpdir do |dir|
        expect(build(dir)).not_to eq(second = build(dir))
        expect(Dir.children(dir).map { |name| Digest::SHA256.file(File.join(dir, name)).hexdigest }.uniq.size).to eq(1)
        expect(File.size(second)).to be > 100_000
      end
    end

    it "has what it needs, and nothing that git does not know, but upb", if: File.exist?(File.expand_path("../../.git", __dir__)) do
      known = IO.popen(["git", "-c", "safe.directory=#{root}", "-C", root, "ls-files", "--cached", "--others", "--exclude-standard"], &:readlines).map(&:chomp)
      UpbSource.vendor
      files = gemspec.files
      expect(files.reject { |name| known.include?(name) || name.start_with?("ext/memprofiler/vendor/upb/") }).to eq([])
      expect(files).to include("README.md", "LICENSE", "SECURITY.md", "CHANGELOG.md", "docs/endpoint-security.md", "ext/memprofiler/extconf.rb", "ext/memprofiler/core/recorder.c", "exe/memprofiler")
      expect(known.grep(%r{\A(?:lib/.*\.rb|ext/memprofiler/.*\.[ch]|docs/.*\.md)\z}) - files).to eq([])
      expect(files.grep(%r{(?:\A|/)\.|\.(?:o|so|log|pem|key|env|gem|gz)\z|Makefile|spec/|\bpkg/|native/})).to eq([])
    end

    it "has no secrets and no paths of whoever built it, and no file that others may write" do
      Dir.mktmpdir do |dir|
        contents = File.join(dir, "contents")
        Gem::Package.new(build(dir)).extract_files(contents)
        files = Dir.glob("#{contents}/**/*").select { |path| File.file?(path) }
        expect(files.size).to be > 100
        expect(files.select { |path| File.lstat(path).mode.anybits?(0o7022) }).to eq([])
        text = files.reject { |path| path.include?("/vendor/") }.to_h { |path| [path, File.binread(path)] }
        # (In a chroot the checkout is /memprofiler, which the sources have for other reasons.)
        folders = [Dir.home, *(root if root.count("/") > 1)]
        home = %r{(?<!\w)(?:#{folders.map { |path| Regexp.escape(path) }.join("|")})/}n
        expect(text.select { |_, bytes| bytes.match?(home) || bytes.match?(/-----BEGIN|AKIA[0-9A-Z]{16}|ghp_\w{30}|glpat-|xox[bp]-/n) }.keys).to eq([])
      end
    end

    it "asks for a second factor of whoever pushes it, depends on nothing, and runs nothing but its extension's build" do
      expect(gemspec.metadata).to include("rubygems_mfa_required" => "true")
      expect(gemspec.runtime_dependencies).to eq([])
      expect([gemspec.extensions, gemspec.executables, gemspec.post_install_message]).to eq([["ext/memprofiler/extconf.rb"], ["memprofiler"], nil])
    end
  end
end
