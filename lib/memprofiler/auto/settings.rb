# frozen_string_literal: true

module Memprofiler
  module Auto
    # The MEMPROFILER_* variables, checked. One that says what isn't allowed counts as if it weren't
    # there, and is complained of.
    class Settings
      # Those of a collector's options
      OPTIONS = {
        "MEMPROFILER_INTERVAL" => :interval, "MEMPROFILER_MAX_DEPTH" => :max_depth,
        "MEMPROFILER_MAX_SAMPLES" => :max_samples, "MEMPROFILER_TRACK_ONE_IN" => :track_one_in,
        "MEMPROFILER_LIVENESS" => :liveness
      }.freeze
      # Those that end no process by what they are for. (Ruby keeps some for itself.)
      SIGNALS = (%w[USR1 USR2 HUP WINCH TTIN TTOU URG PROF IO CONT TSTP ALRM PWR] & Signal.list.keys).freeze
      DIR = "MEMPROFILER_DIR"
      EVERY = "MEMPROFILER_EVERY"
      KEEP = "MEMPROFILER_KEEP"
      SIGNAL = "MEMPROFILER_SIGNAL"
      # All that there are.
      VARIABLES = [DIR, SIGNAL, EVERY, KEEP, *OPTIONS.keys].freeze
      # What begins so and is none: that of `memprofiler run`, and of a checkout's own commands.
      OTHERS = /\AMEMPROFILER_(?:RUN_|(?:ASAN|CHROOTS|DEBIAN_MIRROR|DEV|NO_SKIP)\z)/
      PREFIX = /\AMEMPROFILER_/i
      private_constant :SIGNALS, :DIR, :EVERY, :KEEP, :SIGNAL, :OTHERS, :PREFIX

      # @return [Hash{Symbol => Object}] for the collector
      attr_reader :collector_options
      # @return [String] absolute path of the folder for profiles
      attr_reader :dir
      # @return [Integer, Float, nil] seconds, above 0; what else FileFlusher refuses it says itself
      attr_reader :every
      # @return [Hash{Symbol => Object}] `keep`, if it's given
      attr_reader :flusher_options
      # @return [String, nil] a signal's name without "SIG"
      attr_reader :signal
      # @return [Array<String>] a line for each variable that isn't followed: its name, what is allowed; and one
      #   for all that there are not
      attr_reader :complaints

      # @param env [Hash{String => String}]
      def initialize(env)
        @env = env
        @complaints = []
        @collector_options = collector_options_from(OPTIONS)
        @dir = folder(DIR)
        @every = seconds(EVERY)
        @flusher_options = keep
        @signal = signal_name(SIGNAL)
        complain_of_unknown
      end

      private

      def given(variable)
        text = @env[variable]
        text unless text.nil? || text.empty?
      end

      def complain(variable, allowed, text, instead = "it has its default")
        @complaints << "#{variable} must be #{allowed}, not #{Arguments.shown(text)}: #{instead}"
        nil
      end

      # Misspelled ones, most likely, and their default is not what was wanted.
      def complain_of_unknown
        unknown = @env.keys.map(&:b).grep(PREFIX).grep_v(OTHERS) - VARIABLES
        return if unknown.empty?

        names = unknown.map { |name| name.match?(/\A\w+\z/) ? name[0, 80] : Arguments.shown(name) }
        @complaints << "there is no #{names.join(", ")}: there are #{VARIABLES.join(", ")}"
      end

      # What is allowed the collector knows.
      def collector_options_from(variables)
        variables.each_with_object({}) do |(variable, option), options|
          text = given(variable)
          next unless text

          value = option == :liveness ? text.b.to_sym : number(text)
          Collector.new(option => value)
          options[option] = value
        rescue ArgumentError, TypeError => e
          complain(variable, e.message[/(?<=must be ).+(?=, not )/].to_s.delete(":"), text)
        end
      end

      def number(text)
        return if text == "nil" # no limit

        whole(text) || text
      end

      # Digits only: what Ruby takes for a number besides ("1_0", " 1", "0x1") is rather a slip.
      def whole(text)
        text.to_i if text.b.match?(/\A-?\d+\z/)
      end

      # One that isn't there is made with the first profile.
      def folder(variable)
        text = given(variable)
        path = writable(text) if text
        return path if path

        complain(variable, "a folder that can be written", text, "the current folder is used") if text
        current_folder
      end

      # @return [String, nil] absolute path
      def writable(text)
        there = path = File.expand_path(text)
        there = File.dirname(there) until File.exist?(there)
        path if File.directory?(there) && File.writable?(there)
      rescue ArgumentError, SystemCallError # "~nobody"
        nil
      end

      # (Where it's gone nothing can be written, which is said then.)
      def current_folder
        Dir.pwd
      rescue SystemCallError
        "."
      end

      def seconds(variable)
        text = given(variable)
        return unless text

        value = whole(text) || (text.to_f if text.b.match?(/\A-?\d+\.\d+\z/))
        return value if value&.positive? && value.finite?

        complain(variable, "a number of seconds above 0", text, "profiles are written at the end only")
      end

      def keep
        text = given(KEEP)
        return {} unless text

        value = whole(text)
        return { keep: value } if value&.positive?

        complain(KEEP, "a whole number of at least 1", text)
        {}
      end

      def signal_name(variable)
        text = given(variable)
        return unless text

        name = text.b.upcase.delete_prefix("SIG").force_encoding(text.encoding)
        return name if SIGNALS.include?(name)

        complain(variable, "one of #{SIGNALS.join(", ")}", text, "no signal is trapped")
      end
    end
  end
end
