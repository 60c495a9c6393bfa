# frozen_string_literal: true

require "open3"

module Real
  # Opens a profile with Go's pprof, in each way that prints text.
  class Pprof
    # What has to stand in the output of each, so that a run which printed nothing doesn't count.
    REPORTS = { "-top" => /flat%/, "-peek" => /calls%/, "-list" => /Total:/, "-tags" => //,
                "-traces" => /-----\+---/ }.freeze
    METRICS = %w[alloc_objects alloc_space inuse_objects inuse_space].freeze

    def self.available?
      system("go", "version", out: File::NULL, err: File::NULL)
    end

    # @param file [String]
    # @param profile [Memprofiler::Profile] what is in it
    # @return [Array<String>] what failed, a line each
    def self.failures(file, profile)
      METRICS.flat_map do |metric|
        function = function(profile, metric)
        REPORTS.filter_map do |report, expected|
          by_name = %w[-peek -list].include?(report)
          next if by_name && function.nil?

          failure(by_name ? "#{report}=#{pattern(function)}" : report, metric, file, expected)
        end
      end
    end

    # One with a value and a source file that is there, for -peek and -list.
    def self.function(profile, metric)
      frames = profile.samples.select { |sample| sample.values.fetch(metric.to_sym).positive? }.flat_map(&:stack)
      frames.find { |frame| File.file?(frame.file) }&.function
    end

    # For Go's regular expressions, which take a backslash before signs only.
    def self.pattern(function)
      "^#{function.gsub(/[[:ascii:]&&[^A-Za-z0-9_ ]]/) { |sign| "\\#{sign}" }}$"
    end

    def self.failure(argument, metric, file, expected)
      output, errors, status = Open3.capture3("go", "tool", "pprof", "-symbolize=none", argument,
                                              "-sample_index=#{metric}", file)
      return if status.success? && output.match?(expected) && !errors.match?(/error|malformed|no matches/i)

      why = errors.lines.last || "not what was expected: #{output[0, 80]}"
      "pprof #{argument} #{metric} #{File.basename(file)}: #{why}"
    end
    private_class_method :failure, :function, :pattern
  end
end
