# frozen_string_literal: true

require "open3"
require "rbconfig"
require_relative "support/child"

# The short form of `rake torture`: the same few programs each time. What can be wrong is in torture/truth.rb.
RSpec.describe "The torture" do
  def torture(*arguments)
    load_path = Child::LOAD_PATH.flat_map { |folder| ["-I", folder] }
    Open3.capture2e(RbConfig.ruby, "--disable-gems", *load_path, File.join(__dir__, "torture/run.rb"), *arguments)
  end

  it "finds nothing in programs of one thread" do
    output, status = torture("--seed", "1", "--programs", "4", "--threads", "0")
    expect(status).to be_success, output
    expect(output).to match(/4 programs from seed 1, \d+ checks .*, 0 failed/)
  end

  it "finds nothing in programs of three threads" do
    output, status = torture("--seed", "11", "--programs", "2", "--steps", "80", "--threads", "2")
    expect(status).to be_success, output
  end

  it "notices a profiler that is wrong, and says how to see it again" do
    output, status = torture("--seed", "1", "--programs", "1", "--threads", "0", "--lie")
    expect(status).not_to be_success
    expect(output).to match(/^wrong: .*inuse_space:/).and match(%r{seed 1 failed .*: ruby .*torture/run\.rb --seed 1 --programs 1})
  end
end
