# frozen_string_literal: true

require "objspace"

module Bench
  module Accuracy
    # What a program holds, by Ruby's own account: all that can be reached from it, but for classes, and for what the VM
    # keeps to itself.
    module Held
      module_function

      # @param root [Array] does not count
      # @return [Hash{String => Array(Integer, Integer)}] class to objects and bytes
      def by_class(root)
        seen = {}.compare_by_identity
        seen[root] = true
        waiting = [root]
        sums = Hash.new { |hash, name| hash[name] = [0, 0] }
        while (object = waiting.pop)
          add(sums, object) unless object.equal?(root)
          (ObjectSpace.reachable_objects_from(object) || []).each do |found|
            next if found.is_a?(Module) || found.is_a?(ObjectSpace::InternalObjectWrapper) || seen[found]

            seen[found] = true
            waiting << found
          end
        end
        sums
      end

      def add(sums, object)
        sum = sums[object.class.name]
        sum[0] += 1
        sum[1] += ObjectSpace.memsize_of(object)
      end
      private_class_method :add
    end
  end
end
