# frozen_string_literal: true

require "open3"
require "rbconfig"
require "tmpdir"
require "fileutils"
require "memprofiler"
require_relative "../bench/support/accuracy/document"

# docs/accuracy.md has what bench/accuracy writes today: its tables, programs, metrics and intervals.
RSpec.describe "bench/accuracy" do
  def root = File.expand_path("..", __dir__)
  def document = File.read(File.join(root, "docs/accuracy.md"), encoding: "UTF-8")

  # @return [Hash{String => Array<String>}] title to a table's lines, the head first
  def tables(text)
    written = text.split("#{Bench::Accuracy::Document::MARKS[0]}\n").last.split(Bench::Accuracy::Document::MARKS[1]).first
    written.split(/^### /).drop(1).to_h { |part| [part.lines.first.chomp, part.lines(chomp: true).grep(/\A\|/)] }
  end

  def column(table, number) = table.drop(2).map { |line| line.delete_prefix("| ").split(" | ")[number] }

  # Small programs, so the figures mean nothing; what is true of them does.
  it "writes the tables of docs/accuracy.md" do
    Dir.mktmpdir do |dir|
      file = File.join(dir, "accuracy.md")
      FileUtils.cp(File.join(root, "docs/accuracy.md"), file)
      out, status = Open3.capture2e(RbConfig.ruby, File.join(root, "bench/accuracy"), "--programs", "leak,huge", "-n", "1",
                                    "--share", "100", "--output", file)
      expect(status).to be_success, out
      text = File.read(file, encoding: "UTF-8")
      made = tables(text)
      there = tables(document)
      expect(made.keys - there.keys).to eq([])
      made.each { |title, table| expect(table.first).to eq(there[title].first), title }
      truth = made.fetch("The programs, and what is true of them")
      expect(column(truth, 0)).to eq(%w[leak huge])
      [[2, 3], [4, 5], [6, 7]].each { |said, ruby| expect(column(truth, said)).to eq(column(truth, ruby)) }
      expect(made["*leak*"].grep(/ 1 /)).to all(match(/ 0\.0 % \| 0\.0 % \| 1\.0000 \| 100\.0 % /))
      expect(text.split("## Tables").first).to eq(document.split("## Tables").first)
    end
  end

  it "has made them of all programs, metrics and intervals, and its truth is Ruby's" do
    there = tables(document)
    programs = Bench::Accuracy::PROGRAMS.map(&:name)
    truth = there.fetch("The programs, and what is true of them")
    expect(column(truth, 0)).to eq(programs)
    [[2, 3], [4, 5], [6, 7]].each { |said, ruby| expect(column(truth, said)).to eq(column(truth, ruby)) }
    expect(truth.first).to end_with(" samplings at #{Bench::Accuracy::ROUND.keys.join(", ")} |")
    expect(there.keys.grep(/\A\*/)).to eq(programs.map { |name| "*#{name}*" })
    expect(column(there["*leak*"], 0).uniq).to eq(Bench::Accuracy::METRICS.map { |metric| "`#{metric}`" })
    expect(document).to match(/^\d{4}-\d\d-\d\d, ruby \d.*, \d+ cores, load .*; \d+ s of CPU time\.$/)
  end

  # From tables of the normal and the binomial distribution
  it "knows its statistics" do
    statistics = Bench::Accuracy::Statistics
    expect([0.0, 0.5, 0.95, 1.0].map { |share| statistics.quantile((0..100).to_a.shuffle, share) }).to eq([0, 50, 95, 100])
    expect(statistics.quantile([3, 1, 2, 4], 0.5)).to eq(2.5)
    expect(statistics.mean([1, 2, 3, 4, 5])).to match([3.0, be_within(1e-9).of(1.96 * Math.sqrt(2.5 / 5))])
    expect(statistics.mean([7])).to eq([7.0, nil])
    expect(statistics.binomial(95, 100)).to match([be_within(5e-4).of(0.8882), be_within(5e-4).of(0.9785)])
    expect(statistics.binomial(0, 10)).to match([0.0, be_within(5e-4).of(0.2775)])
  end

  it "counts as within the error what is, and undoes the error to know the variance" do
    seen = ->(truth, estimate, error) { Bench::Accuracy::Seen.new(1, truth, 100, estimate, error) }
    expect([seen[110, 100, 0.1], seen[111, 100, 0.1], seen[90, 100, 0.1], seen[5, 0, nil]].map(&:covered?)).to eq([true, false, true, false])
    [0.0, 1e-6, 0.04, 3.0].each do |relative|
      expect(seen[1, 1, Memprofiler::Profile::Sampling.error(relative)].relative_variance).to be_within(1e-9).of(relative)
    end
  end
end
