# frozen_string_literal: true

module Torture
  # Something a program may do. Its own errors are its own: what it may raise it rescues.
  class Deed
    @all = []

    class << self
      # @param name [Symbol]
      # @param weight [Integer] how often, against the others
      # @param alone [Boolean] it is for the main thread only
      # @param from [String] the first Ruby that survives it
      def add(name, weight: 4, alone: false, from: "0", &body)
        @all << new(name, weight, alone, body) if Gem::Version.new(RUBY_VERSION) >= Gem::Version.new(from)
      end

      # @param names [Array<String>] none: all
      # @return [Array<Deed>] each as often as it weighs
      def known(names)
        chosen = names.empty? ? @all : @all.select { |deed| names.include?(deed.name.to_s) }
        raise ArgumentError, "deeds are #{@all.map(&:name).join(", ")}" if chosen.empty?

        chosen.flat_map { |deed| [deed] * deed.weight }
      end
    end

    attr_reader :name, :weight, :alone

    def initialize(name, weight, alone, body)
      @name = name
      @weight = weight
      @alone = alone
      @body = body
    end

    def call(hand) = @body.call(hand)
  end
end

Dir[File.join(__dir__, "deeds", "*.rb")].each { |file| require file }
