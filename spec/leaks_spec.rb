# frozen_string_literal: true

require "open3"
require "rbconfig"
require_relative "support/child"

# The short form of `rake leaks`, where there is a LeakSanitizer.
RSpec.describe "The extension", unless: ENV["MEMPROFILER_ASAN"] == "1" do
  def leaks(*arguments)
    load_path = Child::LOAD_PATH.flat_map { |folder| ["-I", folder] }
    output, status = Open3.capture2e(RbConfig.ruby, "--disable-gems", *load_path, File.join(__dir__, "leaks/run.rb"), *arguments, "lsan")
    skip "there is no LeakSanitizer that works" if output.match?(/not there|can't work here/)
    [output, status]
  end

  it "leaks nothing" do
    output, status = leaks
    expect(status).to be_success, output
    expect(output).to eq("leaks: lsan: 0 with a frame of the extension\n")
  end

  it "would be caught by that if it did" do
    output, status = leaks("--lie")
    expect(status).not_to be_success
    expect(output).to match(/lsan: [1-9]\d* with a frame of the extension.*memprofiler\.so/m)
  end
end
