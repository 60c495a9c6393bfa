# frozen_string_literal: true

require_relative "profile"
require_relative "report/units"
require_relative "report/text"
require_relative "report/head"
require_relative "report/title"
require_relative "report/table"

module Memprofiler
  # A profile as text for people.
  #
  # @api private
  class Report
    # @param profile [Profile]
    # @param width [Integer, nil] columns of the terminal, which lines are cut to;
    #   nil: nothing is ever cut
    # @param directory [String] files below it are shown relative to it
    def initialize(profile, width: nil, directory: Dir.pwd)
      @profile = profile
      @text = Text.new(width, directory)
    end

    # @return [String] how the profile was made, how far its numbers can be
    #   trusted, and what is missing from it
    def head
      lines(Head.new(@profile).lines)
    end

    # @param metric [Symbol]
    # @param by [Symbol]
    # @param count [Integer, nil] how many rows; nil: all
    # @param sort [Symbol] as Profile#top has it, but that by :flat the rows on few samples come last
    # @return [String]
    # @raise see Profile#top
    def table(metric, by:, count: nil, sort: :flat)
      lines(Table.new(@profile, metric, by: by, count: count, sort: sort, text: @text).lines)
    end

    private

    def lines(lines)
      lines.map { |line| "#{@text.printable(line)}\n" }.join # comments are a file's own words, too
    end
  end
end
