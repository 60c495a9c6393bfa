# frozen_string_literal: true

module Memprofiler
  # What every error of this library descends from. Wrong arguments are the
  # exception: they are ArgumentError and TypeError, as everywhere in Ruby.
  class Error < StandardError; end

  # A collector was asked for a profile, or its stats, before it was started.
  class NotStartedError < Error; end

  # A collector was started while it runs.
  class AlreadyStartedError < Error; end

  # A collector was made or used outside the main Ractor. (From Ruby 4.0 finalizers run in any.)
  class RactorError < Error; end

  # A profile could not be turned into pprof bytes.
  class EncodeError < Error; end

  # A profile's file could not be read: it isn't there, or may not be read.
  class ReadError < Error; end

  # Bytes, or what is in a file, are not a profile, or damaged.
  class DecodeError < Error; end

  # A profile could not be written to a file.
  class WriteError < Error; end

  # A profile could not be pushed to a server.
  class PushError < Error; end

  # A profile was asked to group by a label that none of its samples has.
  class MissingLabelError < Error; end
end
