# frozen_string_literal: true

# Loaded first thing into every Ruby below `memprofiler run`, through RUBYOPT;
# into other Rubies than ours too. So it is written in old syntax, loads nothing
# but this library's own few files, and must never harm the program: where it
# can't work it leaves a line for the report and does nothing. Names are bytes
# here: a script's may be invalid in the locale.
lambda do |manifest, ruby, extension, append|
  next unless manifest && ruby && extension # RUBYOPT outlived the run's other variables

  note = lambda do |reason|
    begin # rubocop:disable Style/RedundantBegin -- not to Ruby 2.4
      reason = "#{reason.class}: ".b << reason.message.b if reason.is_a?(Exception)
      program = File.basename($0.b).tr("\t\r\n", " ")
      line = "skipped\t#{Process.pid}\t#{program}\t#{reason.b.tr("\t\r\n", " ")}\n"
      before = Signal.trap("XFSZ", "IGNORE") # it would end a program that may write no more
      File.open(manifest.b, append, 0) { |file| file.syswrite(line) }
    rescue StandardError
      nil # the run has ended, this user may not write there, or nothing works in here
    ensure
      Signal.trap("XFSZ", before) if before
    end
  end

  revision = defined?(RUBY_REVISION) ? RUBY_REVISION : ""
  begin
    if ruby != "#{RUBY_ENGINE} #{RUBY_VERSION} #{RUBY_PATCHLEVEL} #{revision} #{RUBY_PLATFORM}"
      note.call("it is #{RUBY_ENGINE} #{RUBY_VERSION} on #{RUBY_PLATFORM}, and memprofiler was built for another Ruby")
    elsif !defined?(Memprofiler::Run::Session) # it may be in RUBYOPT twice
      require File.join(__dir__, "session.rb")
      Memprofiler::Run::Session.begin(extension)
    end
  rescue Exception => e # rubocop:disable Lint/RescueException -- LoadError, and whatever else: the program goes on
    note.call(e)
  end
end.call(ENV["MEMPROFILER_RUN_MANIFEST"], ENV["MEMPROFILER_RUN_RUBY"], ENV["MEMPROFILER_RUN_EXTENSION"],
         # (Whoever else may write to the folder could have put a link there, or a pipe that nobody reads.)
         %w[WRONLY APPEND NOFOLLOW NONBLOCK].map do |name|
           File.const_defined?(name) ? File.const_get(name) : 0
         end.inject(:|))
