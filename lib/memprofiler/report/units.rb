# frozen_string_literal: true

module Memprofiler
  class Report
    FEW = 20 # samples; what rests on fewer may well be half or double

    # Numbers as people read them. Units are powers of ten: 1 kB is 1000 bytes.
    module Units
      STEPS = ["", "k", "M", "G", "T", "P", "E"].freeze
      SMALL = 10_000
      private_constant :STEPS, :SMALL

      module_function

      # @param value [Integer]
      # @param unit [String] the metric's: "bytes", "count" or another program's
      # @param small [Boolean] whether four digits are written out; not beside larger
      #   values. (Bytes never are.)
      def value(value, unit, small: true)
        from = small && unit != "bytes" ? SMALL : 1000
        case unit
        when "bytes" then "#{scaled(value, from)}B"
        when "count" then scaled(value, from).rstrip
        else "#{scaled(value, from).rstrip} #{unit}"
        end
      end

      def small?(value)
        value.abs < SMALL
      end

      # "12.3 k": four digits at most, a blank and a prefix. Below `from` as it is.
      def scaled(value, from)
        return "#{value} " if value.abs < from

        step = 0
        scaled = value.to_f
        while scaled.round(1).abs >= 1000 && step < STEPS.size - 1
          scaled /= 1000
          step += 1
        end
        "#{scaled.round(1)} #{STEPS[step]}"
      end
      private_class_method :scaled

      # @param fraction [Float]
      def percent(fraction)
        "#{(fraction * 100).round(1)}%"
      end

      # "1 sample", "12 samples"
      def plural(count, noun)
        "#{value(count, "count")} #{noun}#{"s" unless count == 1}"
      end
    end
  end
end
