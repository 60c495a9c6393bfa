# frozen_string_literal: true

# A small web shop that forgets to forget: each visit leaves its page in a
# cache that nothing ever empties. It also makes much garbage, which is no leak.
#
#   memprofiler run -- ruby examples/leak.rb

class Shop
  PRODUCTS = %w[apples bread butter cheese coffee eggs flour honey milk rice].freeze

  def initialize
    @pages = {} # the leak: keyed by visit, where keyed by product would do
  end

  def visit(number)
    basket = choose(number)
    page = render(number, basket)
    @pages[number] = page
    total(basket)
  end

  def pages
    @pages.size
  end

  private

  # Garbage: gone when the visit is over.
  def choose(number)
    PRODUCTS.each_with_index.map do |product, i|
      { name: product.capitalize, count: (number + i) % 4, price: 1.25 * (i + 1) }
    end
  end

  def total(basket)
    basket.sum { |item| item[:count] * item[:price] }
  end

  def render(number, basket)
    lines = basket.map { |item| "#{item[:count]} x #{item[:name]}: #{format("%.2f", item[:price])}" }
    ["Visit #{number}", *lines].join("\n")
  end
end

shop = Shop.new
visits = 40_000
visits.times { |number| shop.visit(number) }
puts "#{visits} visits, #{shop.pages} pages kept"
