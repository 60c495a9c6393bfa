# frozen_string_literal: true

require "json"
require_relative "support/child"
require_relative "support/command"
require_relative "support/profiles"

# What the documents say is there is there, and the other way round.
RSpec.describe "documents" do
  def document(name)
    File.read(File.expand_path("../#{name}", __dir__), encoding: "UTF-8")
  end

  # First cells of the tables below a heading, in backquotes
  def keys(text, heading)
    text[/^## #{heading}\n(.*?)(?=^## |\z)/m, 1].scan(/^\| (`.*?) \|/).flatten.flat_map { |cell| cell.scan(/`([^`]+)`/) }.flatten
  end

  it "have all keys of stats, and no others" do
    stats = Child.value("Memprofiler::Collector.new.start.stats")
    expect(keys(document("docs/stats.md"), "All keys").map(&:to_sym)).to match_array(stats.keys)
    expect(document("docs/stats.md")[/^## What to look at\n(.*?)^## /m, 1].scan(/`(\w+)`/).flatten.map(&:to_sym) - stats.keys)
      .to all(eq(:max_depth).or(eq(:max_samples)).or(eq(:interval)).or(eq(:eval)).or(eq(:inuse_)))
  end

  it "have all keys of the JSON, and no others", :command do
    files = [5, 6].map do |pid|
      File.join(@dir, pid.to_s).tap { |path| Profiles.build({ ["a /a.rb:1"] => [1, 40, 1, 40] }, comments: { pid: pid }).write(path) }
    end
    json = JSON.parse(main("top", "--json", *files).out)
    told = keys(document("docs/reading-a-profile.md"), "JSON")
    expect(told.grep(/\A\w+\z/)).to match_array(json.keys)
    expect(told.grep(/\Arows\[\]\./).map { |key| key.delete_prefix("rows[].") }).to match_array(json["rows"].first.keys)
    expect(told.grep(/\A(?:metadata)?\.\w+/).map { |key| key[/\w+\z/] }).to match_array(json["metadata"].keys)
  end

  it "have all options of the services" do
    options = ->(service) { service.instance_method(:initialize).parameters.map { |_, name| "#{name}:" } }
    of_readme = document("README.md")[/^\| option of `FileFlusher.new`.*?(?=\n\n)/m].scan(/^\| `(\w+:)`/).flatten
    expect(of_readme).to match_array(options[Memprofiler::FileFlusher])
    expect(keys(document("docs/pyroscope.md"), "Push").grep(/:\z/)).to match_array(options[Memprofiler::PyroscopeExporter])
  end

  it "have all methods and errors that a program may use" do
    readme = document("README.md")
    methods = Memprofiler::Profile.public_instance_methods(false) - %i[model inspect - +]
    expect(methods.reject { |name| readme.match?(/[`.]#{name}\b/) }).to eq([])
    expect(Memprofiler::Collector.public_instance_methods(false).reject { |name| readme.match?(/[`.]#{Regexp.escape(name.name)}/) }).to eq([])
    services = [Memprofiler::FileFlusher, Memprofiler::PyroscopeExporter].flat_map { |service| service.public_instance_methods(false) + service.superclass.public_instance_methods(false) }
    expect((services - %i[inspect]).reject { |name| readme.match?(/[`.]#{Regexp.escape(name.name)}/) }).to eq([])
    expect(%i[start stop collector status].reject { |name| readme.include?("`Memprofiler.#{name}") }).to eq([])
    errors = Memprofiler.constants.grep(/Error\z/) - %i[Error]
    expect(errors.reject { |name| readme.include?("`#{name}`") }).to eq([])
  end

  it "have Ruby that runs, and differences without growth where nothing grows" do
    recipe = document("README.md")[/^```ruby\n(.*?)^```/m, 1]
    garbage = 'Array.new(50) { |i| "x" * (i % 100) } while (rounds += 1) < 2_000'
    # Kept all the while: no growth, though no collection has come by when it's first asked for.
    recipe = recipe.sub(/^earlier = /, "kept = Array.new(5_000) { Object.new }\nearlier = ")
    program = "rounds = 0\nmodule Report\n  def self.render = +'page'\nend\n" \
              "#{recipe.sub("interval: 512", "interval: 1").sub(/^# \.\.\.$/, garbage).gsub(/\bputs\b/, "String")}\n" \
              "[html, profile.class.name, (later - earlier).total(:inuse_objects), (later - earlier).total(:alloc_objects), " \
              "(later - earlier).top(:alloc_objects, by: :class).first.name, collector.running?, kept].first(6)"
    html, type, grown, allocated, name, running = Child.value(program)
    expect([html, type, name, running]).to eq(["page", "Memprofiler::Profile", "String", false])
    expect(allocated).to be >= 100_000
    expect(grown.abs).to be <= 200
  end
end
