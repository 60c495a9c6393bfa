# frozen_string_literal: true

module Memprofiler
  module Run
    # The variables by which every Ruby below the command finds the profiler.
    module Environment
      PRELOAD = File.expand_path("preload.rb", __dir__)
      LIBRARY = File.expand_path("../..", __dir__)
      BLANK = /\s/ # Ruby splits RUBYOPT at these and knows no quotes
      private_constant :PRELOAD, :LIBRARY, :BLANK

      # @param output [String] absolute path of the folder that profiles go to
      # @param manifest [String] absolute path of the list that processes write to
      # @param interval [Integer]
      # @param extension [String] absolute path of the compiled extension
      # @param quiet [Boolean] nothing is printed, not even by a process that can't save its profile
      # @return [Hash{String => String}, nil] nil: no Ruby can be told where the
      #   profiler is
      def self.build(output:, manifest:, interval:, extension:, quiet: false)
        way = loading(PRELOAD, LIBRARY, ENV)
        way&.merge("MEMPROFILER_RUN_OUTPUT" => output, "MEMPROFILER_RUN_MANIFEST" => manifest,
                   "MEMPROFILER_RUN_INTERVAL" => interval.to_s, "MEMPROFILER_RUN_EXTENSION" => extension,
                   "MEMPROFILER_RUN_RUBY" => ruby, "MEMPROFILER_RUN_QUIET" => quiet ? "1" : nil)
      end

      # An absolute path needs nothing else to be in order. One with blanks can't
      # stand in RUBYOPT; the folder can stand in RUBYLIB, unless a separator is in it.
      def self.loading(preload, library, env)
        if !preload.match?(BLANK)
          { "RUBYOPT" => ["-r#{preload}", env["RUBYOPT"]].compact.join(" ") }
        elsif !library.include?(File::PATH_SEPARATOR)
          name = preload.delete_prefix("#{library}/").delete_suffix(".rb")
          { "RUBYOPT" => ["-r#{name}", env["RUBYOPT"]].compact.join(" "),
            "RUBYLIB" => [library, env["RUBYLIB"]].compact.join(File::PATH_SEPARATOR) }
        end
      end

      # What a Ruby must be for the extension to fit, as preload.rb says it too: a
      # native extension can crash one that is only nearly the same.
      def self.ruby
        "#{RUBY_ENGINE} #{RUBY_VERSION} #{RUBY_PATCHLEVEL} #{RUBY_REVISION} #{RUBY_PLATFORM}"
      end
      private_class_method :ruby
    end
  end
end
