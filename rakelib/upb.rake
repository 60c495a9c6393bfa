# frozen_string_literal: true

desc "Fetch upb's sources into ext/memprofiler/vendor/upb"
task :upb do
  require_relative "../ext/memprofiler/upb_source"
  UpbSource.vendor
end

desc "Generate ext/memprofiler/upb from proto/ (protoc 36, in a chroot: needs root on Debian)"
task :proto do
  to = "ext/memprofiler/upb"
  plugins = %w[upb upb_minitable].map { |name| "--plugin=protoc-gen-#{name}=/usr/bin/protoc-gen-#{name}" }
  sh "script/ruby-chroot", "protoc", *plugins, "--proto_path=proto", "--upb_out=#{to}", "--upb_minitable_out=#{to}",
     "profile.proto"
  rm_f "#{to}/profile.upb.c" # it is empty
end
