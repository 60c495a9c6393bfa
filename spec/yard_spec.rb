# frozen_string_literal: true

require "memprofiler"
require "memprofiler/rack"
require "memprofiler/rake_task"

# The comments of what a program may use. (What is not meant for one says so, be it by the module around it.)
RSpec.describe "comments" do
  library = File.expand_path("../lib", __dir__)

  # The comment before a line of a file
  comment = lambda do |(path, line)|
    File.readlines(path).first(line - 1).reverse.take_while { |text| text.match?(/\A\s*#/) }.reverse.join
  end

  # Files may open a module again, with a comment or without.
  comments = Dir.glob("#{library}/**/*.rb").each_with_object(Hash.new { |all, name| all[name] = +"" }) do |path, all|
    scope = []
    File.readlines(path).each_with_index do |line, number|
      next unless (found = line.match(/\A(\s*)(?:class|module) ([A-Z]\w*)/))

      scope = [*scope.first(found[1].size / 2), found[2]]
      all[scope.join("::")] << comment[[path, number + 1]]
    end
  end
  for_programs = comments.keys.reject do |name|
    parts = name.split("::")
    parts.each_index.any? { |last| comments[parts[0..last].join("::")].include?("@api private") }
  end

  it "say of each class that it is for programs, or that it is not" do
    documents = Dir.glob(File.expand_path("../{README.md,docs/*.md}", __dir__)).map { |path| File.read(path, encoding: "UTF-8") }.join
    expect(for_programs.reject { |name| documents.match?(/\b#{name[/\w+\z/]}\b/) }).to eq([])
    expect(for_programs).to include("Memprofiler", "Memprofiler::Profile", "Memprofiler::Rack::App", "Memprofiler::WriteError")
  end

  methods = for_programs.flat_map do |name|
    all = Object.const_get(name)
    [*all.public_instance_methods(false).map { |method| all.instance_method(method) }, *all.singleton_methods(false).map { |method| all.method(method) },
     *(all.instance_method(:initialize) if all.private_method_defined?(:initialize, false))]
  end
  # (C has none, and what Struct makes is in the comment of the class.)
  methods = methods.select { |method| method.source_location&.first&.start_with?(library) }
                   .reject { |method| method.name == :inspect || comment[method.source_location].include?("@api private") }

  it "are there for many" do
    expect(methods.size).to be >= 50
  end

  methods.each do |method|
    it "tell what #{method.owner.inspect}##{method.name} takes, returns and raises" do
      path, line = method.source_location
      text = comment[[path, line]]
      own, *rest = File.readlines(path).drop(line - 1)
      code = own.match?(/\A\s*def /) ? [own, *rest.take_while { |other| !other.start_with?("#{own[/\A\s*/]}end") }].join : ""
      parameters = method.parameters.select { |kind, name| name && kind != :block && name.name.match?(/\A\w+\z/) }.map { |_, name| name.name }
      parameters = [] unless own.match?(/\A\s*def /)
      expect(parameters.reject { |name| text.match?(/@param #{name} \[/) }).to eq([]), text
      expect(text).to match(/@return \[/) unless method.name.match?(/=\z|\Ainitialize\z/)
      expect(text).to match(/@raise \[/) if code.match?(/\braise [A-Z]/)
    end
  end
end
