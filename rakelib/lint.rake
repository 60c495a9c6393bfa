# frozen_string_literal: true

# What is ours in C: not upb, not what protoc generated.
c_files = Dir["ext/memprofiler/{*,{core,vm}/*}.{c,h}", "spec/{apps,core,support}/*.{c,h}", "bench/**/*.{c,h}"]

shell_files = Dir[".ci/run", "{bin,script,bench}/*"].select do |name|
  File.file?(name) && File.foreach(name).first&.match?(/\A#!.*sh$/)
end

desc "Check Ruby, C and shell scripts, and that compilers have nothing to say"
task lint: %w[lint:ruby lint:c lint:shell lint:warnings]

namespace :lint do
  desc "RuboCop"
  task(:ruby) { sh "rubocop", "--format", "simple" }

  desc "clang-format"
  task(:c) { sh "clang-format", "--dry-run", "-Werror", *c_files, verbose: false }

  desc "ShellCheck"
  task(:shell) { sh "shellcheck", *shell_files, verbose: false }

  desc "Compile the extension with strict warnings, by gcc and by clang"
  task warnings: :upb do
    %w[gcc clang].each do |compiler|
      folder = "tmp/warnings/#{compiler}"
      mkdir_p folder, verbose: false
      puts "lint: #{compiler}"
      env = { "CC" => compiler, "MEMPROFILER_DEV" => "1" }
      system(env, RbConfig.ruby, "../../../ext/memprofiler/extconf.rb", chdir: folder, out: "#{folder}/extconf.log",
                                                                        exception: true)
      sh "make", "-C", folder, "--silent", "ECHO=@:", verbose: false
    end
  end
end

desc "Bring Ruby and C into that style, as far as the tools can"
task :format do
  sh "clang-format", "-i", *c_files, verbose: false
  sh "rubocop", "--autocorrect", "--format", "quiet"
end
