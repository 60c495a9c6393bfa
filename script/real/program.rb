# frozen_string_literal: true

module Real
  ROOT = File.expand_path("../..", __dir__)
  FILES = __dir__

  # A program to run with and without the profiler.
  #   command   words; run in `folder`, with `environment` and `input` (a file) if given
  #   ends      its exit status, or the signal that ends it, in words; by itself, and under the profiler
  #   prints    whether what it prints on stdout is the same on each run
  #   driver    for a server: called with nothing while it runs, returns text that has to be the same on each run;
  #             the server is then sent TERM
  #   before    called before each run
  Program = Struct.new(:name, :command, :folder, :environment, :input, :ends, :prints, :driver, :before,
                       keyword_init: true)
end
