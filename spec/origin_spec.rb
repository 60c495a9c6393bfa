# frozen_string_literal: true

require "rubygems/installer"
require_relative "support/command"
require_relative "support/profiles"

RSpec.describe Memprofiler::Profile::Origin do
  {
    "/var/lib/gems/3.1.0/gems/rack-2.2.4/lib/rack.rb" => "rack",
    "/home/me/.gem/ruby/3.3.0/gems/net-http-persistent-4.0.2/lib/net/http/persistent.rb" => "net-http-persistent",
    "/home/me/gems/nokogiri-1.16.0-x86_64-linux/lib/nokogiri.rb" => "nokogiri",
    "/home/me/gems/google-protobuf-3.25.1-aarch64-linux/lib/google/protobuf.rb" => "google-protobuf",
    "/home/me/gems/http-2-0.11.0/lib/http/2.rb" => "http-2",
    "/home/me/gems/rails-7.1.0.beta1/lib/rails.rb" => "rails",
    "/home/me/gems/tool-1.0/vendor/gems/inner-2.0/lib/inner.rb" => "inner",
    "/usr/share/rubygems-integration/all/gems/rake-13.0.6/lib/rake.rb" => "rake",
    "/app/vendor/bundle/ruby/3.1.0/bundler/gems/sidekiq-1a2b3c4d5e6f/lib/sidekiq.rb" => "sidekiq",
    "/usr/lib/ruby/vendor_ruby/rspec/core.rb" => "rspec",
    "/usr/lib/ruby/vendor_ruby/rack.rb" => "rack",
    "/usr/lib/ruby/3.1.0/json/common.rb" => "(stdlib)",
    "/usr/local/lib/ruby/3.3.0/bundler/cli/exec.rb" => "bundler",
    "/usr/local/lib/ruby/3.3.0/bundler.rb" => "bundler",
    "/usr/local/lib/ruby/3.3.0/rubygems/specification.rb" => "rubygems",
    "/usr/local/lib/ruby/site_ruby/3.3.0/rubygems.rb" => "rubygems",
    "/usr/lib/ruby/vendor_ruby/rubygems/resolver.rb" => "rubygems",
    "/usr/local/lib/ruby/3.3.0/bundled_gems.rb" => "(stdlib)",
    "/app/vendor/bundle/ruby/3.1.0/bin/rspec" => "rubygems",
    "/home/me/.asdf/installs/ruby/3.3.0/bin/irb" => "rubygems",
    "/home/me/.rvm/gems/ruby-3.3.0@shop/bin/rails" => "rubygems",
    "/home/me/.rvm/gems/ruby-3.3.0@shop/gems/rack-2.2.4/lib/rack.rb" => "rack",
    "/usr/local/bin/deploy" => "(app)",
    "/srv/shop/bin/rails" => "(app)",
    "/home/me/.rbenv/versions/3.3.0/lib/ruby/3.3.0/set.rb" => "(stdlib)",
    "/srv/shop/app/models/product.rb" => "(app)",
    "script.rb" => "(app)",
    "(eval at /var/lib/gems/3.3.0/gems/erb-4.0.3/lib/erb.rb:1)" => "erb",
    "(eval)" => nil,
    "<internal:kernel>" => nil,
    "" => nil
  }.each do |file, gem|
    it("tells #{file.inspect} to be of #{gem.inspect}") { expect(described_class.of(file)).to eq(gem) }
  end

  # As RubyGems (Debian's, one from source, Docker's, rbenv's, a user's own), Bundler (`--path`, `bundle binstubs`) and RVM make them
  {
    "/usr/bin/rake" => "/usr/share/rubygems-integration/all/gems/rake-13.0.6/exe/rake",
    "/usr/local/bin/rake" => "/usr/local/lib/ruby/gems/3.3.0/gems/rake-13.1.0/exe/rake",
    "/usr/local/bundle/bin/rake" => "/usr/local/bundle/gems/rake-13.1.0/exe/rake",
    "/home/me/.rbenv/versions/3.3.0/bin/rake" => "/home/me/.rbenv/versions/3.3.0/lib/ruby/gems/3.3.0/gems/rake-13.1.0/exe/rake",
    "/home/me/.local/share/gem/ruby/3.1.0/bin/rake" => "/home/me/.local/share/gem/ruby/3.1.0/gems/rake-13.1.0/exe/rake",
    "/app/vendor/bundle/ruby/3.1.0/bin/rake" => "/app/vendor/bundle/ruby/3.1.0/gems/rake-13.1.0/exe/rake",
    "/home/me/.rvm/gems/ruby-3.3.0@shop/bin/rake" => "/home/me/.rvm/gems/ruby-3.3.0@shop/gems/rake-13.1.0/bin/rake",
    "bin/rake" => "/app/vendor/bundle/ruby/3.1.0/bundler/gems/rake-1a2b3c4d5e6f/exe/rake"
  }.each do |stub, program|
    it("tells #{stub} to be of the gem whose program it starts") do
      expect(described_class.of_all([stub, program, "/srv/shop/lib/rake"])).to eq(stub => "rake", program => "rake", "/srv/shop/lib/rake" => "(app)")
    end
  end

  it "is so of one that RubyGems makes", :command do
    rake = Gem.loaded_specs["rake"]
    Gem::Installer.for_spec(rake, bin_dir: "#{@dir}/bin", env_shebang: true, wrappers: true).generate_bin
    File.write("#{@dir}/Rakefile", "task(:mine) { KEPT = Array.new(1000) { 'x' * 100 } }")
    env = Command::CLEAN.merge("GEM_PATH" => [rake.base_dir, *Gem.path].uniq.join(File::PATH_SEPARATOR), "BUNDLE_GEMFILE" => nil)
    system(env, Command::RUBY, Command::EXECUTABLE, "run", "--interval", "1", "--quiet", "--output", "out", "--", Command::RUBY, "bin/rake", "mine", chdir: @dir, exception: true)
    profile = Memprofiler::Profile.load(Dir.glob("#{@dir}/out/*.pb.gz").first)
    expect(profile.top(:alloc_objects, by: :file).map(&:name)).to include("#{@dir}/bin/rake")
    gems = profile.top(:alloc_objects, by: :gem, sort: :cumulative).to_h { |row| [row.name, row] }
    expect(gems.first.first).to eq("rake")
    expect(gems["(app)"].cumulative).to be_between(2000, 2200) # two for each of the Rakefile's 1000
  end

  it "leaves a program of the app to it, whatever that is called" do
    files = %w[/srv/shop/bin/rails /srv/shop/bin/import /var/lib/gems/3.1.0/gems/railties-7.1.0/lib/rails/commands.rb /var/lib/gems/3.1.0/gems/import-1.0/lib/import.rb]
    expect(described_class.of_all(files).values).to eq(%w[(app) (app) railties import])
  end

  describe "what starts a program" do
    let(:bundler) { "/usr/local/lib/ruby/3.3.0/bundler" }
    let(:exec) { ["load #{bundler}/cli/exec.rb:58", "start #{bundler}/cli.rb:28", "<main> /usr/local/lib/ruby/gems/3.3.0/gems/bundler-2.5.3/exe/bundle:20", "<main> /usr/local/bin/bundle:25"] }

    def cumulative(*stacks)
      profile = Profiles.build(stacks.each_with_index.to_h { |stack, number| [stack, [10**number, 40, 0, 0]] })
      profile.top(:alloc_objects, by: :gem).to_h { |row| [row.name, [row.flat, row.cumulative]] }
    end

    it "counts for itself only" do
      rake = ["run /gems/rake-13.1.0/lib/rake/application.rb:80", "<main> /gems/rake-13.1.0/exe/rake:27", "<main> /usr/local/bin/rake:25"]
      expect(cumulative(["seed /srv/shop/Rakefile:3", *rake, *exec], ["setup #{bundler}/setup.rb:5", *exec], [*exec]))
        .to eq("(app)" => [1, 1], "rake" => [0, 1], "bundler" => [110, 110])
    end

    it "counts as ever where the program calls it" do
      expect(cumulative(["a /srv/shop/lib/a.rb:1", "require #{bundler}/runtime.rb:60", "<main> /srv/shop/config/application.rb:3", *exec]))
        .to eq("(app)" => [1, 1], "bundler" => [0, 1])
    end
  end
end
