# frozen_string_literal: true

require_relative "errors"
require_relative "new_file"

module Memprofiler # rubocop:disable Style/Documentation -- it's in lib/memprofiler.rb
  autoload :Arguments, File.join(__dir__, "arguments.rb")

  # One state of a collector, or a pprof file: where objects were allocated, and
  # which of them were in use. It never changes, and may be frozen or made shareable.
  #
  # The metrics of a heap profile, all of them estimates of the true value:
  #
  #   :alloc_objects  objects allocated since the collector's start
  #   :alloc_space    bytes of these, the slot and the most that the object was seen to own
  #   :inuse_objects  objects that the last completed collection left alive
  #   :inuse_space    bytes of these, the slot and what the object owned at the flush
  #
  # This file is loaded into profiled programs, so it loads the analysis, and decodes bytes, only when
  # that is asked for: what is damaged raises DecodeError then, from whatever method asks first.
  class Profile
    autoload :Attribution, File.join(__dir__, "attribution.rb")
    autoload :Combination, File.join(__dir__, "combination.rb")
    autoload :Metadata, File.join(__dir__, "metadata.rb")
    autoload :Origin, File.join(__dir__, "origin.rb")
    autoload :Pieces, File.join(__dir__, "pieces.rb")
    autoload :Ranking, File.join(__dir__, "ranking.rb")
    autoload :Refusals, File.join(__dir__, "refusals.rb")
    autoload :Sampling, File.join(__dir__, "sampling.rb")
    autoload :Spans, File.join(__dir__, "spans.rb")

    # A line of {#top}. For the metric that was asked for: `flat` is what the
    # named thing itself allocated, `cumulative` adds what it called (Integers, in
    # the metric's unit); `share` and `cumulative_share` are these as fractions of
    # the whole (-1.0..1.0), which in a difference is growth and shrinkage together;
    # `samples` and `cumulative_samples` how many samples they rest on (Integers; in a sum of
    # profiles of different intervals, how many of one interval would be as good),
    # `error` and `cumulative_error` their 95 % errors as fractions of them (0.0: exact;
    # nil of what is 0). The last four are nil where the profile doesn't say how it was sampled.
    Row = Struct.new(:name, :flat, :cumulative, :share, :cumulative_share, :samples, :cumulative_samples, :error,
                     :cumulative_error, keyword_init: true)

    # A stack with what was allocated there. `stack` has {Frame}s, innermost
    # first; `values` is a Hash from metric to Integer; `labels` a Hash from String
    # to String, or to [Integer, unit].
    Sample = Struct.new(:stack, :values, :labels, keyword_init: true) # rubocop:disable Lint/StructNewOverride

    # A place in a program. `file` is "" and `line` 0 for a function written in C.
    Frame = Struct.new(:function, :file, :line, keyword_init: true)

    # Files larger than this are refused; so are those that unpack to more, or whose samples would take
    # more memory.
    MAX_BYTES = 512 * 1024 * 1024

    GZIP = "\x1F\x8B".b.freeze # what gzipped bytes begin with
    private_constant :GZIP

    # Reads a pprof file, gzipped or not, this library's or another's, and decodes all of it.
    #
    # @param path [String, Pathname]
    # @return [Profile]
    # @raise [TypeError, ArgumentError] path is none
    # @raise [ReadError] naming the file: it isn't there, is a folder, may not be read
    # @raise [DecodeError] naming the file: what's in it is no profile, or damaged
    def self.load(path)
      path = Arguments.path("path", path)
      bytes = read_file(path)
      raise DecodeError, "larger than #{MAX_BYTES} bytes" if bytes.bytesize > MAX_BYTES

      new(bytes).tap(&:model)
    rescue SystemCallError => e
      raise ReadError, "#{path}: #{SystemCallError.new(e.errno).message}"
    rescue DecodeError => e
      raise DecodeError, "#{path}: #{e.message}"
    end

    class << self
      private

      # Not more at once than there is: from Ruby 4.0 `read` clears all the memory it's asked to fill.
      def read_file(path)
        File.open(path, "rb") do |file|
          stat = file.stat
          file.read(stat.file? ? [stat.size, MAX_BYTES].min + 1 : MAX_BYTES + 1) || ""
        end
      end
    end

    # @param model [Hash] what Codec.decode gives
    # @return [Profile]
    # @api private
    def self.from_model(model)
      allocate.tap { |profile| profile.send(:initialize_from_model, model) }
    end

    # @param pprof_data [String] a profile in the pprof format, gzipped or not. Gzipped bytes are
    #   decoded when first needed: if they are damaged, that raises the DecodeError ({load} decodes at
    #   once). Others are decoded here, as nothing but that tells a profile from other bytes.
    # @raise [TypeError] it is no String
    # @raise [DecodeError] it is neither gzipped nor a profile
    def initialize(pprof_data)
      Arguments.bytes("pprof_data", pprof_data) unless pprof_data.is_a?(String)
      binary = pprof_data.encoding == Encoding::BINARY
      pprof_data = pprof_data.dup.force_encoding(Encoding::BINARY) unless binary && pprof_data.frozen?
      @pprof_data = pprof_data.freeze
      model unless pprof_data.start_with?(GZIP)
    end

    # @return [String] the profile in the pprof format, gzipped (as it came, if
    #   it was loaded), frozen
    # @raise [EncodeError]
    def pprof_data
      @pprof_data || once(:@pprof_data) { Codec.encode(@model).freeze }
    end

    # Writes the profile to a new file, which appears whole or not at all and is
    # readable by its owner only (mode 0600). A file that is there stays.
    #
    # @param path [String, Pathname]
    # @return [self]
    # @raise [TypeError, ArgumentError] path is none
    # @raise [WriteError] naming the path and why
    def write(path)
      path = Arguments.path("path", path)
      bytes = pprof_data
      begin
        NewFile.write(path, bytes)
      rescue Errno::EEXIST
        there = NewFile.folder?(path) ? "a folder" : "a file"
        raise WriteError, "#{path}: #{there} is there already, and is never replaced"
      rescue SystemCallError => e
        raise WriteError, "#{path}: #{SystemCallError.new(e.errno).message}"
      end
      self
    end

    # @param metric [Symbol] one of {#sample_types}
    # @return [Integer] the metric's sum, in its unit (objects or bytes)
    # @raise [ArgumentError, TypeError] the profile has no such metric
    def total(metric)
      column = column(metric)
      Thread.pass # there may be very many samples, and reports want several totals: see Pieces
      model[:samples].sum { |_, values, _| values[column] }
    end

    # Who allocated most, or made most of what is in use: rows by falling `flat`, or
    # `cumulative`, value, of a difference by how far these are from 0. However few
    # samples a row rests on, it stands where its value puts it.
    #
    # What a C function or a frame of Ruby's own (`<internal:kernel>`) allocates
    # counts for the Ruby code that called it, except by `:function`. A row's
    # cumulative value counts a stack once, however often the row is in it.
    #
    # @param metric [Symbol] one of {#sample_types}
    # @param by [:line, :file, :gem, :function, :class, "label:NAME"] what a row is. `:class`
    #   needs a profile with class labels: `flush(labels: [:class])`. "label:NAME": a value of the label
    #   of that name, as {Memprofiler.with_labels} gives it, or `thread`, `pid`.
    # @param n [Integer, nil] how many rows, at least 1; nil: all
    # @param sort [:flat, :cumulative] which value is to fall
    # @return [Array<Row>]
    # @raise [ArgumentError, TypeError] an argument is not allowed
    # @raise [MissingLabelError] by class or label, and no sample has it; by class, and one of the
    #   profiles that were summed has none
    def top(metric = :inuse_space, by: :line, n: nil, sort: :flat) # rubocop:disable Naming/MethodParameterName
      column = column(metric)
      by = Arguments.group("by", by)
      Arguments.count("n", n)
      Arguments.choice("sort", sort, Ranking::ORDERS)
      ranking(by).rows(column, n, sort)
    end

    # What happened between two profiles of one collector.
    #
    # `alloc_*` is what was allocated in between. `inuse_*` is the change of what
    # was in use, negative where more died than was born, as in the delta
    # profiles of Go's net/http/pprof. (`go tool pprof` shows negative values,
    # speedscope and Pyroscope refuse them: give these `alloc_*` only.) A label that
    # only one of the two was asked for is left out; so is `:age`, since each collection changes it.
    #
    # What garbage is still counted in use depends on when Ruby last collected: flush both with
    # `gc: true`, or `inuse_*` may grow where nothing does.
    #
    # @param earlier [Profile]
    # @return [Profile]
    # @raise [TypeError] earlier is not a Profile
    # @raise [ArgumentError] the metrics, period types or periods differ; one of the two is a difference;
    #   or they are not of one collector, or in the wrong order, as their runs or numbers that fall tell
    def -(earlier) # rubocop:disable Naming/BinaryOperatorParameterName
      Arguments.profile("earlier", earlier)
      Profile.from_model(Combination.difference(model, earlier.model))
    end

    # Adds up profiles of different processes or runs, or differences, those of one run as well: what was
    # allocated from x to y and from y to z. Lines, functions, files and gems add up whatever labels the
    # profiles have; classes only if all have them.
    #
    # @param other [Profile]
    # @return [Profile]
    # @raise [TypeError] other is not a Profile
    # @raise [ArgumentError] the metrics or the period types differ; only one is a difference; or something
    #   would count twice, as both are of one run of a collector, or are differences that overlap
    def +(other)
      Profile.sum([self, Arguments.profile("other", other)])
    end

    # As `+`, for any number of profiles.
    #
    # @param profiles [Enumerable<Profile>] at least one
    # @return [Profile]
    # @raise [TypeError] profiles, or one of them, is something else
    # @raise [ArgumentError] as `+`; or there is none
    def self.sum(profiles)
      combination = Combination.new
      Arguments.profiles("profiles", profiles).each do |profile|
        combination.add(Arguments.profile("each of profiles", profile).model)
      end
      from_model(combination.model)
    end

    # @return [Hash{Symbol => String}] metric to unit ("count", "bytes")
    def sample_types
      model[:sample_types].to_h { |type, unit| [type.to_sym, unit] }
    end

    # @return [Integer] one object in how many was sampled, nominally: the
    #   interval that was asked for. In other programs' profiles, what their
    #   period type says.
    def period
      model[:period]
    end

    # @return [Time, nil] when the profile was taken
    def time
      nanos = model[:time_nanos]
      Time.at(0, nanos, :nanosecond) unless nanos.zero?
    end

    # @return [Array<String>] the file's comments, "key: value" or "# key: value" in this library's
    #   ("#" keeps pprof from printing them above its tables)
    def comments
      model[:comments]
    end

    # @return [Hash{Symbol => Integer, String}] the comments that are "key: value": how the profile was
    #   made and what was dropped. What a sum has several of is a text, as "5772, 5787".
    def metadata
      @metadata || once(:@metadata) { Metadata.parse(comments).freeze }
    end

    # @return [Array<Symbol>] what samples say besides their stack: `:class`, `:age`, `:thread`, `:pid`
    #   and what the program has set; in other programs' profiles whatever these note
    def labels
      model[:samples].flat_map { |_, _, labels| labels ? labels.keys : [] }.uniq.map(&:to_sym)
    end

    # @return [Array<Sample>] one for each stack and set of labels
    def samples
      @samples || once(:@samples) { samples_of(model) }
    end

    # Decodes first what can't be kept any more afterwards, and loads what another Ractor can't.
    #
    # @return [self]
    # @raise [DecodeError] what it was made of is damaged
    def freeze
      model
      # (Before 4.0 only the main one can autoload.)
      [Arguments, *Profile.constants.map { |name| Profile.const_get(name) }]
      super
    end

    # @return [Hash] what Codec.decode gives
    # @api private
    def model
      @model || once(:@model) { Codec.decode(@pprof_data, max_bytes: MAX_BYTES, max_model_bytes: MAX_BYTES) }
    end

    def inspect
      size = @pprof_data && " (#{@pprof_data.bytesize} bytes of pprof)"
      "#<#{self.class}#{size}>"
    end

    private

    def initialize_from_model(model)
      @model = model
    end

    def once(variable)
      value = yield
      instance_variable_set(variable, value) unless frozen?
      value
    end

    def samples_of(model)
      metrics = sample_types.keys
      frames = model[:locations].map do |function, line, _|
        name, _, file, = model[:functions][function]
        Frame.new(function: name, file: file, line: line).freeze
      end
      model[:samples].map do |stack, values, labels|
        Sample.new(stack: frames.values_at(*stack), values: metrics.zip(values).to_h, labels: labels || {}).freeze
      end.freeze
    end

    def column(metric)
      metrics = sample_types.keys
      metrics.index(Arguments.choice("metric", metric, metrics))
    end

    def ranking(by)
      rankings = @rankings || once(:@rankings) { {} }
      rankings[by] || Ranking.new(model, metadata, by).tap { |ranking| rankings[by] = ranking unless rankings.frozen? }
    end
  end
end
