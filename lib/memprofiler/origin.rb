# frozen_string_literal: true

module Memprofiler
  class Profile
    # Tells from a file's path which gem it is of.
    #
    # @api private
    module Origin
      PLATFORM = /(?:x86|x64|i\d86|arm|aarch64|universal|java|jruby|mswin|mingw|darwin|linux|ppc|powerpc|s390|riscv)/
      # .../gems/rack-2.2.4/lib/rack.rb; the last such folder is the one that holds the file.
      INSTALLED = %r{.*/gems/([^/]+)-\d+(?:\.[0-9A-Za-z]+)*(?:-#{PLATFORM}[^/]*)?/}
      # .../bundler/gems/rack-1a2b3c4d5e6f/lib/rack.rb, a checkout made by Bundler
      CHECKOUT = %r{.*/bundler/gems/([^/]+)-\h{7,40}/}
      # Where distributions put gems as plain files: .../ruby/vendor_ruby/rspec/core.rb
      VENDORED = %r{/ruby/(?:vendor_ruby|site_ruby)/(?:\d+\.\d+\.\d+/)?([^/]+?)(?:\.rb)?(?:/|\z)}
      STANDARD_LIBRARY = %r{/ruby/\d+\.\d+\.\d+(?:\+\d+)?/}
      APP = "(app)"
      private_constant :PLATFORM, :INSTALLED, :CHECKOUT, :VENDORED, :STANDARD_LIBRARY

      # @param file [String] a frame's file
      # @return [String, nil] a gem's name, "(stdlib)", "(app)" for everything else;
      #   nil where there is no path
      def self.of(file)
        path = file[/\A\(eval at (.+):\d+\)\z/m, 1] || file # Ruby >= 3.3 says where
        return if path.empty? || path.start_with?("(", "<")

        found = path.match(CHECKOUT) || path.match(INSTALLED) || path.match(VENDORED)
        return found[1] if found

        path.match?(STANDARD_LIBRARY) ? "(stdlib)" : APP
      end
    end
  end
end
