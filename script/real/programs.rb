# frozen_string_literal: true

require "fileutils"
require_relative "http_load"
require_relative "program"

module Real
  # The programs, none of them written here; what each is fed is in this folder or comes with a gem.
  class Programs
    # @param install [Install]
    # @param work [String] a folder that programs may write to
    def initialize(install, work)
      @install = install
      @work = work
    end

    def all
      [rdoc, asciidoctor, rubocop, sinatra, rails, puma, puma_cluster, bundle_install, irb, bundle_exec]
    end

    private

    def program(name, command, **rest)
      environment = @install.environment.merge(rest.delete(:environment) || {})
      usual = { folder: @work, ends: "0", prints: true }
      Program.new(name: name, command: command, environment: environment, **usual, **rest)
    end

    def rdoc
      pages = File.join(@work, "pages")
      program("rdoc of rack", ["rdoc", "--quiet", "--output", pages, @install.gem("rack", "lib")],
              before: -> { FileUtils.rm_rf(pages) })
    end

    def asciidoctor
      program("asciidoctor", ["asciidoctor", "--out-file", "-", @install.gem("asciidoctor", "README.adoc")])
    end

    # With a configuration given, it doesn't look for others in the folders above.
    def rubocop
      configuration = File.join(@work, "rubocop.yml")
      File.write(configuration, "AllCops:\n  NewCops: enable\n  SuggestExtensions: false\n")
      program("rubocop on rack", ["rubocop", "--config", configuration, "--cache", "false", "--format", "simple",
                                  @install.gem("rack", "lib")], ends: "1")
    end

    def sinatra
      program("sinatra boot", ["ruby", File.join(FILES, "sinatra_app.rb")])
    end

    def rails
      program("rails boot", ["ruby", File.join(FILES, "rails_app.rb")])
    end

    def puma
      server("puma", ["--threads", "4:4"])
    end

    def puma_cluster
      server("puma, 2 workers", ["--threads", "2:2", "--workers", "2"])
    end

    # Puma prints process ids; what its clients got is compared instead.
    def server(name, options)
      load = HttpLoad.new
      program(name, ["puma", "--quiet", "--environment", "production", "--bind", "tcp://127.0.0.1:#{load.port}",
                     *options, File.join(FILES, "config.ru")],
              ends: "SIGTERM", prints: false, driver: load.method(:run))
    end

    # The order in which gems are fetched and installed is not the same on each run.
    def bundle_install
      folder = File.join(@work, "bundle")
      gemfile = File.join(folder, "Gemfile")
      fresh = lambda do
        FileUtils.rm_rf(folder)
        FileUtils.mkdir_p(folder)
        FileUtils.cp(File.join(FILES, "small.gemfile"), gemfile)
      end
      program("bundle install", %w[bundle install], environment: bundler(gemfile, File.join(folder, "vendor")),
                                                    folder: folder, prints: false, before: fresh)
    end

    def irb
      program("irb", ["irb", "-f", "--noreadline", "--nocolorize"], input: File.join(FILES, "irb_input.txt"))
    end

    def bundle_exec
      program("bundle exec asciidoctor", ["bundle", "exec", "asciidoctor", "--out-file", "-",
                                          @install.gem("asciidoctor", "README.adoc")],
              environment: bundler(@install.gemfile, @install.vendor))
    end

    # Bundler brings its own gem path, and 2.3 fails over a newer psych in another one.
    def bundler(gemfile, path)
      { "BUNDLE_GEMFILE" => gemfile, "BUNDLE_PATH" => path, "GEM_HOME" => nil, "GEM_PATH" => nil }
    end
  end
end
