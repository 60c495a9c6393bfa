# frozen_string_literal: true

desc "Random programs under the profiler, held against what Ruby says, for SECONDS (60) from SEED (1)"
task :torture, %i[seconds seed] => :compile do |_, given|
  ruby "-I", "lib", "spec/torture/run.rb", "--seconds", given.seconds || "60", "--seed", given.seed || "1"
end
