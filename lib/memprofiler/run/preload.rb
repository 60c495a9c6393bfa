# frozen_string_literal: true

# Loaded first thing into every Ruby below `memprofiler run`, through RUBYOPT;
# into other Rubies than ours too. So it is written in old syntax, loads nothing
# but this library's own few files, and must never harm the program: where it
# can't work it leaves a line for the report and does nothing.
lambda do |manifest, ruby, extension|
  next unless manifest && ruby && extension # RUBYOPT outlived the run's other variables

  note = lambda do |reason|
    begin # rubocop:disable Style/RedundantBegin -- not to Ruby 2.4
      line = ["skipped", Process.pid, File.basename($0.to_s), reason].map { |part| part.to_s.b.tr("\t\r\n", " ") }
      line = line.join("\t")
      File.open(manifest, File::WRONLY | File::APPEND) { |file| file.syswrite("#{line}\n") }
    rescue SystemCallError, IOError
      nil # the run has ended, or this user may not write there
    end
  end

  revision = defined?(RUBY_REVISION) ? RUBY_REVISION : ""
  begin
    if ruby != [RUBY_ENGINE, RUBY_VERSION, RUBY_PATCHLEVEL, revision, RUBY_PLATFORM].join(" ")
      note.call("it is #{RUBY_ENGINE} #{RUBY_VERSION} on #{RUBY_PLATFORM}, and memprofiler was built for another Ruby")
    elsif !defined?(Memprofiler::Run::Session) # it may be in RUBYOPT twice
      require File.join(__dir__, "session.rb")
      Memprofiler::Run::Session.begin(extension)
    end
  rescue Exception => e # rubocop:disable Lint/RescueException -- LoadError, and whatever else: the program goes on
    note.call("#{e.class}: #{e.message}")
  end
end.call(ENV["MEMPROFILER_RUN_MANIFEST"], ENV["MEMPROFILER_RUN_RUBY"], ENV["MEMPROFILER_RUN_EXTENSION"])
