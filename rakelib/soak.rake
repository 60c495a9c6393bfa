# frozen_string_literal: true

desc "What the profiler takes of memory while programs do something new without end, for SECONDS (60) in all"
task :soak, %i[seconds] => :compile do |_, given|
  ruby "-I", "lib", "spec/soak/run.rb", "--seconds", given.seconds || "60"
end
