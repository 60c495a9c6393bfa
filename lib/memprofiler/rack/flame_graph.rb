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
      Node = Struct.new(:value, :called)
      Boxes = Struct.new(:html, :pieces)
      private_constant :LEAST, :DEEPEST, :HEIGHT, :STYLE, :Node, :Boxes

      module_function

      # @param profile [Profile]
      # @param base [String] what paths begin with
      # @param metric [Symbol]
      # @return [String] HTML
      def page(profile, base, metric)
        root = tree(profile.model, profile.sample_types.keys.index(metric))
        boxes = Boxes.new(+"", Profile::Pieces.new)
        levels = root.value.positive? ? draw(boxes, root, 0.0, 0, [root.value, profile.sample_types[metric]]) : 0
        links = profile.sample_types.keys.map do |name|
          "<a href=\"#{Pages.escape("#{base}/flamegraph?metric=#{name}")}\">#{name}</a>"
        end
        Pages.page("memprofiler: flame graph of #{metric}", <<~HTML, STYLE)
          <p>#{links.join(" ")} &mdash; #{amount(root.value, profile.sample_types[metric])} in all#{note(profile)}.
          A box is as wide as what was allocated in it; callers are above. Point at one for its numbers.</p>
          <div class="g" style="height:#{(levels * HEIGHT) + HEIGHT}px">#{boxes.html}</div>
        HTML
      end

      # Of what shrank in a difference no box can be drawn.
      def tree(model, column)
        root = Node.new(0, {})
        pieces = Profile::Pieces.new
        names = model[:functions].map { |name, _, file, line| [name, file.empty? ? "" : "#{file}:#{line}"] }
        model[:samples].each do |stack, values, _|
          value = values[column]
          pieces.step
          next unless value.positive?

          node = root
          node.value += value
          stack.reverse_each.first(DEEPEST).each do |location|
            node = (node.called[names[model[:locations][location][0]]] ||= Node.new(0, {}))
            node.value += value
          end
        end
        root
      end

      # @return [Integer] how many levels there are
      def draw(boxes, node, left, depth, whole)
        deepest = depth
        node.called.sort_by { |name, called| [-called.value, name] }.each do |name, called|
          share = called.value.fdiv(whole[0])
          break if share < LEAST

          boxes.html << box(name, amount(called.value, whole[1]), left, share, depth)
          boxes.pieces.step
          deepest = [deepest, draw(boxes, called, left, depth + 1, whole)].max
          left += share
        end
        deepest
      end

      def box((name, place), amount, left, share, depth)
        text = Pages.escape(name)
        title = [name, place, "#{amount}, #{Report::Units.percent(share)}"].map { |line| Pages.escape(line) }.join("\n")
        hue = name.sum % 50
        "<div title=\"#{title}\" style=\"left:#{(left * 100).round(3)}%;width:#{(share * 100).round(3)}%;" \
          "top:#{depth * HEIGHT}px;background:hsl(#{hue},85%,70%)\">#{text}</div>\n"
      end

      def amount(value, unit)
        Report::Units.value(value, unit) + (unit == "count" ? " objects" : "")
      end

      def note(profile)
        profile.metadata.key?(:difference) ? ", of what grew" : ""
      end
      private_class_method :tree, :draw, :box, :amount, :note
    end
  end
end
