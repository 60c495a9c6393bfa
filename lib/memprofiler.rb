# frozen_string_literal: true

# Below `memprofiler run`, and after `ruby -rmemprofiler/auto`, the library or a part of it is there
# already, maybe another copy's (the Gemfile's is this one). Two extensions in one process spoil each
# other, so the rest comes from there too.
if defined?(Memprofiler::Run::Session) && __dir__ != Memprofiler::Run::Session::LIBRARY
  require File.join(Memprofiler::Run::Session::LIBRARY, "memprofiler.rb")
  return
elsif defined?(Memprofiler::Auto::LIBRARY) && __dir__ != Memprofiler::Auto::LIBRARY
  require File.join(Memprofiler::Auto::LIBRARY, "memprofiler.rb")
  return
end

require_relative "memprofiler/version"
require_relative "memprofiler/errors"
require_relative "memprofiler/profile"
require_relative "memprofiler/arguments" # signal handlers, where nothing can be loaded, may flush and write
require_relative "memprofiler/vm_faults"
require_relative "memprofiler/memprofiler"
require_relative "memprofiler/current"

# Where a Ruby program allocates memory, and which lines made what is still in use.
module Memprofiler
  autoload :ActiveJobLabels, File.join(__dir__, "memprofiler/active_job_labels.rb")
  autoload :Background, File.join(__dir__, "memprofiler/background.rb")
  autoload :FileFlusher, File.join(__dir__, "memprofiler/file_flusher.rb")
  autoload :PyroscopeExporter, File.join(__dir__, "memprofiler/pyroscope_exporter.rb")
  autoload :Rack, File.join(__dir__, "memprofiler/rack/middleware.rb")
  autoload :SidekiqMiddleware, File.join(__dir__, "memprofiler/sidekiq_middleware.rb")

  self.own_folder = File.expand_path("memprofiler", __dir__) # frames of its files, and of this one, are left out
  self.program = NewFile.name_of($0)

  # Profiles a block. What the block returns is lost: let it assign what is needed.
  #
  # @param labels [Array<Symbol>] what to note for each sample besides its stack:
  #   any of `:class`, `:age`, `:thread`
  # @param options [Hash{Symbol => Object}] what {Collector.new} takes: `interval:`, `max_depth:`,
  #   `max_samples:`, `track_one_in:`, `liveness:`, `seed:`
  # @return [Profile] what the block allocated (`alloc_*`) and what of that was
  #   in use after a collection at its end (`inuse_*`)
  # @raise [ArgumentError, TypeError] no block, or an option that is not allowed; the block has not
  #   run then
  # @raise [RactorError] called outside the main Ractor
  # An exception of the block's passes through, once the collector has stopped; there is no profile
  # then.
  #
  # @example
  #   profile = Memprofiler.profile(interval: 1) { Report.render }
  #   profile.total(:alloc_objects) # => 10_234
  def self.profile(labels: [], **options)
    raise ArgumentError, "Memprofiler.profile needs a block" unless block_given?

    collector = Collector.new(**options)
    check_labels(collector, labels)
    profile = nil
    collector.start(heap: true)
    begin
      yield
      # Keywords would be a Hash that counts as the block's; under `own` what finalizers allocate wouldn't.
      profile = collector.send(:flush_block, labels)
    ensure
      collector.stop
    end
    profile
  end

  # Of a collector that was never started, flush refuses labels before it refuses to flush.
  def self.check_labels(collector, labels)
    collector.flush(labels: labels)
  rescue NotStartedError
    nil
  end
  private_class_method :check_labels
end
