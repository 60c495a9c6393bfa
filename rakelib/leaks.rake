# frozen_string_literal: true

desc "Look for leaks of the extension, by all or one TOOL of lsan (LeakSanitizer), valgrind, rss"
task :leaks, %i[tool] => :compile do |_, given|
  ruby "-I", "lib", "spec/leaks/run.rb", *given.tool
end
