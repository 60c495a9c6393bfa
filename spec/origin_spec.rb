# frozen_string_literal: true

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
end
