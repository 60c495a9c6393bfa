# frozen_string_literal: true

require_relative "../report"

module Memprofiler
  class Rack
    # What a browser shows. Nothing in it is loaded from elsewhere.
    #
    # @api private
    module Pages
      METRICS = %w[inuse_space inuse_objects alloc_space alloc_objects].freeze
      GROUPS = %w[line file gem function class].freeze
      ESCAPES = { "&" => "&amp;", "<" => "&lt;", ">" => "&gt;", '"' => "&quot;", "'" => "&#39;" }.freeze
      STYLE = "body{font:15px/1.5 sans-serif;margin:2em;max-width:75em}pre,code{font:13px/1.4 monospace}" \
              "td,th{padding:.2em 1em .2em 0;text-align:left;vertical-align:top}td.n{text-align:right}"
      PROFILES = [
        ["heap", :live_samples, "what is in use now, and what was allocated since the start"],
        ["allocs", :samples, "the same, but that pprof shows allocations first"],
        ["delta_heap", :since_last, "what was allocated since the last such request, and what is in use now"]
      ].freeze
      private_constant :METRICS, :GROUPS, :ESCAPES, :STYLE, :PROFILES

      module_function

      # @param scrape [Scrape]
      # @param base [String] what paths begin with
      # @param env [Hash]
      # @return [String]
      def index(scrape, base, env)
        host = env["HTTP_HOST"].to_s
        url = plain("#{env["rack.url_scheme"].to_s.b}://#{host.empty? ? "localhost" : host.b}#{base.b}")
        state, counts = state(scrape)
        rows = PROFILES.map do |name, count, description|
          "<tr><td><a href=\"#{escape("#{base}/#{name}")}\">#{name}</a></td><td class=\"n\">#{counts[count]}</td>" \
            "<td>#{description}</td><td><code>go tool pprof #{escape("#{url}/#{name}")}</code></td></tr>\n"
        end
        page("memprofiler: #{$PROGRAM_NAME}", <<~HTML)
          <p>#{escape(state)}</p>
          <table>
          <tr><th>profile</th><th>samples</th><th>what it has</th><th>how to open it</th></tr>
          #{rows.join}</table>
          <p>Read here: <a href="#{escape("#{base}/top")}">top</a>, <a href="#{escape("#{base}/flamegraph")}">flame graph</a>;
          also <a href="#{escape("#{base}/heap?debug=1")}">heap as text</a>, <a href="#{escape("#{base}/cmdline")}">command line</a>.</p>
          <p>To find a leak, look at what grows in half a minute of work, with a collection before and after:<br>
          <code>go tool pprof -sample_index=inuse_space '#{escape("#{url}/heap?seconds=30&gc=1")}'</code><br>
          What grows by less than some ten samples meanwhile (an interval of 512: 5,000 objects) it may not see: take more seconds.</p>
          <p><code>?seconds=N</code>: the difference over N seconds. <code>?gc=1</code>: a full collection first; without it
          what is in use is as of the last one. <code>?debug=1</code>: as text.</p>
        HTML
      end

      # @param query [Query]
      # @return [Hash] for {top}
      # @raise [Answer::Refusal]
      def options(query)
        by = query["by"]
        by = choice("by", by, GROUPS, " or label:NAME") unless by&.match?(/\Alabel:./)
        { metric: choice("metric", query["metric"], METRICS), by: by, count: query.integer("n", 1..10_000) || 30,
          sort: choice("sort", query["sort"], %w[flat cumulative]) }
      end

      # @param profile [Profile]
      # @param base [String]
      # @return [String]
      # @raise [MissingLabelError]
      def top(profile, base, metric:, by:, count:, sort:)
        report = Report.new(profile)
        table = report.table(metric, by: by, count: count, sort: sort)
        links = [*METRICS.map { |name| [name, "metric=#{name}&by=#{URI.encode_www_form_component(by.to_s)}"] },
                 *GROUPS.map { |name| ["by #{name}", "metric=#{metric}&by=#{name}"] }].map do |text, query|
          "<a href=\"#{escape("#{base}/top?#{query}")}\">#{text}</a>"
        end
        page("memprofiler: top", "<p>#{links.join(" ")}</p>\n<pre>#{html(report.head)}\n#{html(table)}</pre>\n")
      end

      # @param title [String]
      # @param body [String] HTML
      # @param style [String] CSS
      # @return [String] HTML
      def page(title, body, style = "")
        <<~HTML
          <!DOCTYPE html>
          <html lang="en"><head><meta charset="utf-8"><title>#{escape(title)}</title><style>#{STYLE}#{style}</style></head>
          <body><h1>#{escape(title)}</h1>
          #{body}</body></html>
        HTML
      end

      # @param text [String] of one line
      # @return [String] HTML, of a text or of an attribute in quotes
      def escape(text)
        html(Report::Text.printable(text))
      end

      def html(text)
        text.gsub(/[&<>"']/, ESCAPES)
      end

      # What is meant for a shell, and holds words of the request: nothing that a shell would do something with.
      def plain(url)
        url.gsub(%r{[^A-Za-z0-9._~:/\[\]-]}n) { |char| format("%%%02X", char.ord) }
      end
      private_class_method :html, :plain

      def state(scrape)
        stats = scrape.collector.stats
        since_last = scrape.samples_since_last(stats[:samples])
        ["One object in #{stats[:interval]} is sampled; values are estimates. Process #{Process.pid}.",
         { **stats.slice(:samples, :live_samples), since_last: since_last }]
      rescue Answer::Refusal => e
        ["No profiles: #{e.message}.", {}]
      end
      private_class_method :state

      def choice(name, value, allowed, others = "")
        return allowed.first.to_sym if value.nil?
        return value.to_sym if allowed.include?(value)

        raise Answer::Refusal.new(400, "invalid value for \"#{name}\": must be one of #{allowed.join(", ")}#{others}")
      end
      private_class_method :choice
    end
  end
end
