# frozen_string_literal: true

require_relative "pages"

module Memprofiler
  class Rack
    # A profile as a picture: each box is a function, as wide as what it and what it called stand for, and what it
    # called lies below it. HTML and CSS alone.
    #
    # @api private
    module FlameGraph
      LEAST = 0.002 # of the whole; smaller boxes can't be seen
      DEEPEST = 400
      HEIGHT = 18 # pixels
      STYLE = "body{max-width:none}.g{position:relative}.g div{position:absolute;height:#{HEIGHT - 1}px;" \
              "overflow:hidden;white-space:nowrap;font:12px/#{HEIGHT - 1}px monospace;border-right:1px solid #fff;" \
              "box-sizing:border-box;border-radius:2px}.g div:hover{outline:1px solid #000}".freeze
      Node = Struct.new(:value, :objects, :variance, :objects_variance, :called)
      Boxes = Struct.new(:html, :pieces, :whole, :numbers)
      private_constant :LEAST, :DEEPEST, :HEIGHT, :STYLE, :Node, :Boxes

      module_function

      # @param profile [Profile]
      # @param base [String] what paths begin with
      # @param metric [Symbol]
      # @return [String] HTML
      def page(profile, base, metric)
        numbers = Numbers.new(profile, metric)
        root = tree(profile.model, numbers)
        boxes = Boxes.new(+"", Profile::Pieces.new, root.value, numbers)
        levels = root.value.positive? ? draw(boxes, root, 0.0, 0) : 0
        links = profile.sample_types.keys.map do |name|
          "<a href=\"#{Pages.escape("#{base}/flamegraph?metric=#{name}")}\">#{name}</a>"
        end
        Pages.page("memprofiler: flame graph of #{metric}", <<~HTML, STYLE)
          <p>#{links.join(" ")} &mdash; #{numbers.amount(root.value)} in all#{note(profile)}#{numbers.certainty(root)}.
          A box is as wide as what was allocated in it; callers are above. Point at one for its numbers.</p>
          <div class="g" style="height:#{(levels * HEIGHT) + HEIGHT}px">#{boxes.html}</div>
        HTML
      end

      # Of what shrank in a difference no box can be drawn.
      def tree(model, numbers)
        root = Node.new(0, 0, 0.0, 0.0, {})
        pieces = Profile::Pieces.new
        names = model[:functions].map { |name, _, file, line| [name, file.empty? ? "" : "#{file}:#{line}"] }
        model[:samples].each do |sample|
          pieces.step
          added = numbers.of(sample)
          next unless added.first.positive?

          node = root
          add(node, *added)
          sample.first.reverse_each.first(DEEPEST).each do |location|
            node = (node.called[names[model[:locations][location][0]]] ||= Node.new(0, 0, 0.0, 0.0, {}))
            add(node, *added)
          end
        end
        root
      end

      def add(node, value, objects, variance, objects_variance)
        node.value += value
        node.objects += objects
        node.variance += variance
        node.objects_variance += objects_variance
      end

      # @return [Integer] how many levels there are
      def draw(boxes, node, left, depth)
        deepest = depth
        node.called.sort_by { |name, called| [-called.value, name] }.each do |name, called|
          share = called.value.fdiv(boxes.whole)
          break if share < LEAST

          boxes.html << box(name, boxes.numbers.about(called, share), left, share, depth)
          boxes.pieces.step
          deepest = [deepest, draw(boxes, called, left, depth + 1)].max
          left += share
        end
        deepest
      end

      def box((name, place), about, left, share, depth)
        text = Pages.escape(name)
        title = [name, place, about].map { |line| Pages.escape(line) }.join("
")
        hue = name.sum % 50
        "<div title=\"#{title}\" style=\"left:#{(left * 100).round(3)}%;width:#{(share * 100).round(3)}%;" \
          "top:#{depth * HEIGHT}px;background:hsl(#{hue},85%,70%)\">#{text}</div>\n"
      end

      def note(profile)
        profile.metadata.key?(:difference) ? ", of what grew" : ""
      end
      private_class_method :tree, :add, :draw, :box, :note

      # What is said of a box: how much it is, how far that may be off, and on how many samples it rests.
      class Numbers
        # @param profile [Profile]
        # @param metric [Symbol]
        def initialize(profile, metric)
          metrics = profile.sample_types.keys
          @unit = profile.sample_types[metric]
          @column = metrics.index(metric)
          @objects = metrics.index(metric.name.sub(/_space\z/, "_objects").to_sym)
          @sampling = Profile::Sampling.new(profile.model, profile.metadata)
        end

        # @param sample [Array] of the model
        # @return [Array(Integer, Integer, Float, Float)] value, objects, and the variances of both
        def of(sample)
          values = sample[1]
          [values[@column], values[@objects], @sampling.variance(@column, sample), @sampling.variance(@objects, sample)]
        end

        def amount(value)
          Report::Units.value(value, @unit) + (@unit == "count" ? " objects" : "")
        end

        # @param node [Node]
        # @return [String] that begins with a comma; "" where it isn't known
        def certainty(node)
          values = { @objects => node.objects, @column => node.value }
          variances = { @objects => node.objects_variance, @column => node.variance }
          samples, error = @sampling.behind(@column, values, variances)
          return "" unless error

          samples = Report::Units.plural(samples, "sample")
          error.zero? ? ", exactly" : ", +/- #{Report::Units.percent(error)} (95 %), on #{samples}"
        end

        def about(node, share)
          "#{amount(node.value)}, #{Report::Units.percent(share)}#{certainty(node)}"
        end
      end
      private_constant :Numbers
    end
  end
end
