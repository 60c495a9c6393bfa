# frozen_string_literal: true

require "json"
require "memprofiler/auto/settings"
require "memprofiler/cli"
require "memprofiler/rack"
require "memprofiler/rake_task"
require_relative "support/child"
require_relative "support/command"
require_relative "support/profiles"

# What the documents say is there is there, and the other way round.
RSpec.describe "documents" do
  def document(name)
    File.read(File.expand_path("../#{name}", __dir__), encoding: "UTF-8")
  end

  def documents
    root = File.expand_path("..", __dir__)
    Dir.glob("#{root}/{README.md,docs/*.md}").map { |path| path.delete_prefix("#{root}/") }
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

  # Rows of a table: what is in backquotes in the first cell, and the second cell
  def table(text, beginning)
    rows = text[/^\| #{Regexp.escape(beginning)}.*?(?=\n\n|\z)/m].lines.drop(2)
    rows.to_h { |row| row.match(/\A\| `([^`]+)` \| (.*?) ?\| /).captures.then { |name, default| [name, default.delete("`,")] } }
  end

  # What a method's own text says that keywords are, where nothing else tells
  def defaults(method)
    path, line = method.source_location
    text = File.readlines(path).drop(line - 1).join[/\((.*?)\)\s*(?:#.*)?$/m, 1]
    text.scan(/(\w+:)(?: (%i\[.*?\]|[^,]+))?/).to_h
  end

  it "have all options, and their defaults" do
    readme = document("README.md")
    {
      table(readme, "option of `FileFlusher.new`") => defaults(Memprofiler::FileFlusher.instance_method(:initialize)),
      table(document("docs/pyroscope.md").gsub(/^\| `(\w+:)`, `(\w+:)` (.*)/, "| `\\1` \\3\n| `\\2` \\3"), "option | default") => defaults(Memprofiler::PyroscopeExporter.instance_method(:initialize)),
      table(readme[/^## In a Rack app.*/m], "option | default") =>
        defaults(Memprofiler::Rack::App.instance_method(:initialize)).merge(defaults(Memprofiler::Rack.instance_method(:initialize))).merge("max_endpoints:" => "500")
    }.each do |told, there|
      there = there.transform_values { |value| value.to_s.sub(/\A%i\[(.*)\]\z/) { "[#{$1.split.map { |word| ":#{word}" }.join(" ")}]" }.delete("_") }
      there["permit:"] &&= "this machine without a proxy between"
      expect(told.transform_values { |value| value.delete("_") }).to eq(there)
    end
    expect(Memprofiler::Rack::EndpointLabels::MAX).to eq(500)
  end

  it "have all options of a collector and of its flush, and their defaults" do
    readme = document("README.md")
    defaults = Memprofiler.send(:with_defaults, {}).to_h { |name, value| ["#{name}:", value.inspect] }
    expect(table(readme, "option of `Collector.new`")).to eq(defaults)
    told = table(readme, "option of `flush`").to_h { |name, value| [name.delete(":").to_sym, { "[]" => [], "false" => false }.fetch(value)] }
    expect { Memprofiler::Collector.new.flush(**told) }.to raise_error(Memprofiler::NotStartedError)
    there = File.read(File.expand_path("../ext/memprofiler/flush.c", __dir__))[/ID keys\[\d+\] = .*?;/m].scan(/sym_(\w+)/).flatten
    expect(told.keys.map(&:name)).to match_array(there)
  end

  it "have all options of the Rake task, and their defaults" do
    names = Memprofiler::RakeTask.public_instance_methods(false).grep(/=\z/).map { |name| name.name.chomp("=") }
    made = nil
    Memprofiler::RakeTask.new { |task| made = task }
    expect(table(document("README.md")[/^In a Rakefile:.*/m], "option | default").transform_values { |value| value[/\A[^:]+/] })
      .to eq(names.to_h { |name| [name, made.public_send(name).inspect] })
  end

  it "have all options of the commands" do
    tables = document("README.md").split(/^(?=\| option \| default)/).drop(1).map { |rest| table(rest, "option | default").keys.map { |name| name[/\A\S+/] } }
    { "run" => tables[0], "top" => tables[1] }.each do |command, told|
      help = Memprofiler::CLI.const_get(command.capitalize).help.scan(/^  (-\S+)/).flatten
      expect(told).to match_array(help)
    end
  end

  it "have all variables, and their defaults" do
    variables = Memprofiler::Auto::Settings::VARIABLES
    told = table(document("docs/zero-code.md"), "variable | default")
    expect(told.keys).to match_array(variables)
    defaults = Memprofiler.send(:with_defaults, {})
    expect(told.slice(*Memprofiler::Auto::Settings::OPTIONS.keys)).to eq(Memprofiler::Auto::Settings::OPTIONS.transform_values { |option| defaults[option].to_s })
    expect(told["MEMPROFILER_KEEP"]).to eq(defaults(Memprofiler::FileFlusher.instance_method(:initialize))["keep:"])
    named = documents.flat_map { |path| document(path).scan(/\bMEMPROFILER_[A-Z_]+/) }.uniq
    expect(named - variables).to eq([])
  end

  it "name nothing that there isn't" do
    words = documents.flat_map { |path| document(path).scan(/\b(?:Memprofiler(?:::[A-Z]\w*)+|[A-Z]\w*Error)\b/) }.uniq
    expect(words.reject { |word| Object.const_defined?(word) || Memprofiler.const_defined?(word) }).to eq([])
    calls = documents.flat_map { |path| document(path).scan(/\bMemprofiler\.([a-z_]+)/) }.flatten.uniq.map(&:to_sym)
    expect(calls - Memprofiler.public_methods(false)).to eq([])
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
