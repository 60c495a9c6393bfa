# frozen_string_literal: true

# Profiling by variables alone: RUBYOPT=-rmemprofiler/auto and MEMPROFILER=1 (docs/zero-code.md). Without
# the second one nothing else is loaded, and whatever goes wrong the program goes on: RUBYOPT is for every
# Ruby, other versions too, whence the old syntax.
lambda do |wanted|
  next if ["", "0", "false", "no", "off"].include?(wanted.to_s.b.downcase)
  # The variables of a setuid program are those of whoever calls it.
  next if Process.uid != Process.euid || Process.gid != Process.egid
  # Below `memprofiler run` all is profiled already. It may be in RUBYOPT twice, by two paths.
  next if ENV["MEMPROFILER_RUN_MANIFEST"] || defined?(Memprofiler::Auto)

  begin
    require File.join(__dir__, "auto", "process.rb")
    Memprofiler::Auto.begin(ENV)
  rescue StandardError, ScriptError => e # the extension may be another Ruby's, or not be there
    begin
      require File.join(__dir__, "printable.rb")
      Memprofiler::Printable.say("memprofiler: this process is not profiled: #{e.message.lines.first.to_s.chomp}")
    rescue StandardError, LoadError
      nil # there's nobody to tell
    end
  end
end.call(ENV["MEMPROFILER"])
