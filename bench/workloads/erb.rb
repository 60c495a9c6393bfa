# frozen_string_literal: true

# Renders a table of a compiled template; every 50th time the template is compiled again.
require "erb"

count = Integer(ARGV.fetch(0))
source = <<~ERB
  <h1><%= title %></h1>
  <table>
  <% rows.each do |row| -%>
    <tr class="<%= row[:even] ? "even" : "odd" %>"><td><%= row[:id] %></td><td><%= ERB::Util.h(row[:name]) %></td></tr>
  <% end -%>
  </table>
ERB
rows = Array.new(40) { |i| { id: i, even: i.even?, name: "row <#{i}> & its name" } }
template = nil
count.times do |i|
  template = ERB.new(source, trim_mode: "-") if (i % 50).zero?
  template.result_with_hash(title: "Page #{i}", rows: rows)
end
