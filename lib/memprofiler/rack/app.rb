# frozen_string_literal: true

require_relative "../pieces" # up to Ruby 3.1 each constant that comes later empties all of the program's caches
require_relative "answer"
require_relative "options"
require_relative "permission"
require_relative "query"
require_relative "scrape"

module Memprofiler
  # The middleware is in middleware.rb.
  class Rack
    autoload :FlameGraph, File.join(__dir__, "flame_graph.rb")
    autoload :LegacyText, File.join(__dir__, "legacy_text.rb")
    autoload :Pages, File.join(__dir__, "pages.rb")

    # The profiles alone, as a Rack app.
    #
    # @example config.ru
    #   require "memprofiler/rack"
    #   run Memprofiler::Rack::App.new
    # @example Rails, in config/routes.rb
    #   mount Memprofiler::Rack::App.new => "/debug/pprof"
    class App
      PAGES = { "/heap" => :heap, "/allocs" => :allocs, "/delta_heap" => :delta_heap, "/cmdline" => :cmdline,
                "/top" => :top, "/flamegraph" => :flamegraph, "/" => :index, "" => :index }.freeze
      # What isn't a question of the request's; SystemExit, signals and the like are the server's.
      FAULTS = [StandardError, ScriptError, NoMemoryError, SystemStackError].freeze
      NO_PATH = %r{[^\w.~/%!$&'()*+,;=:@-]}n # bytes that a URL's path has not
      private_constant :PAGES, :FAULTS, :NO_PATH

      # @return [String] what all paths begin with
      attr_reader :path

      # @param path [String] what all paths begin with; where the app is mounted at a place of its own (Rack's
      #   `map`, Rails' `mount`), that place
      # @param collector [Collector, nil] whose profiles are served. nil: the process' own, which is started
      #   (see {Memprofiler.start}) if it doesn't run yet
      # @param start [Hash] what {Collector.new} takes, for the process' own
      # @param permit [#call, nil] given the env, says whether the request is allowed. nil: requests from this
      #   machine, see docs/endpoint-security.md
      # @param max_seconds [Integer] the most that `seconds` may ask for, 1..86,400
      # @param max_waiting [Integer] how many requests with `seconds` may wait at once, 1..1,000. Each takes one
      #   of the server's threads; a further one gets a 429 with Retry-After
      # @raise [ArgumentError, TypeError] naming the option and what is allowed
      # @raise [AlreadyStartedError] the process' own collector runs with other options than `start`
      def initialize(path: "/debug/pprof", collector: nil, start: {}, permit: nil, max_seconds: 300, max_waiting: 2)
        @path = Options.path(path)
        @permit = Options.permit(permit)
        @max_seconds = Arguments.integer("max_seconds", max_seconds, 1..86_400)
        Arguments.integer("max_waiting", max_waiting, 1..1_000)
        @scrape = Scrape.new(Options.collector(collector, start), start, max_waiting)
      end

      # (Of a path in UTF-16, or the like, start_with? would raise.)
      #
      # @param path [String, nil] PATH_INFO
      # @return [Boolean]
      # @api private
      def serves?(path)
        return false unless path&.encoding&.ascii_compatible? && path.start_with?(@path)

        size = @path.bytesize
        path.bytesize == size || path.getbyte(size) == 47 # "/"
      end

      # @param env [Hash]
      # @return [Array(Integer, Hash, #each)]
      def call(env)
        answer = begin
          answer_to(env)
        rescue Answer::Refusal => e
          Answer.error(e.status, e.message, e.headers)
        end
        env["REQUEST_METHOD"] == "HEAD" ? Answer.head(answer) : answer
      rescue *FAULTS => e
        fault(env, e)
      end

      private

      def answer_to(env)
        base, name = place(env)
        check_permission(env)
        page = PAGES[name] or raise Answer::Refusal.new(404, unknown(name, base))
        unless %w[GET HEAD].include?(env["REQUEST_METHOD"])
          raise Answer::Refusal.new(405, "only GET and HEAD are allowed", { "allow" => "GET, HEAD" })
        end

        send(page, Query.new(env["QUERY_STRING"]), env, base)
      end

      # @return [Array(String, String)] what comes before a page's name, in links, and that name
      def place(env)
        # "//host" would be another one, and to browsers a backslash is a slash: nothing is left but what a path has.
        script = env["SCRIPT_NAME"].to_s.b.gsub(NO_PATH) { |byte| format("%%%02X", byte.ord) }.sub(%r{\A/*}, "/")
        script = "" if script == "/"
        path = env["PATH_INFO"].to_s.b
        return [script + @path, path.byteslice(@path.bytesize..)] if serves?(path)

        script.empty? ? ["", nil] : [script, path]
      end

      def check_permission(env)
        reason = @permit ? !@permit.call(env) && "permit says no" : Permission.refusal(env)
        raise Answer::Refusal.new(403, "Forbidden: #{reason}") if reason
      end

      def unknown(name, base)
        return "Nothing here: profiles are at #{@path}/" if name.nil?

        "Unknown profile: there are #{(PAGES.keys - ["", "/"]).map { |known| base + known }.join(", ")}"
      end

      # ---- profiles ----------------------------------------------------------------------------

      def heap(query, env, _)
        scrape(query, env, "heap") { |gc| @scrape.profile(collect: gc) }
      end

      def allocs(query, env, _)
        scrape(query, env, "allocs", allocs: true) { |gc| @scrape.allocs(collect: gc) }
      end

      def scrape(query, env, name, allocs: false)
        seconds = seconds(query)
        gc = query.on?("gc")
        text = query.on?("debug")
        raise Answer::Refusal.new(400, "seconds and debug are not both possible") if seconds && text

        @scrape.collector # or a HEAD would promise what a GET has not got
        name += "-delta" if seconds
        return text ? Answer.text("") : Answer.profile("", name) if head?(env)

        profile = seconds ? @scrape.difference(seconds, collect: gc, allocs: allocs) : yield(gc)
        return Answer.profile(profile.pprof_data, name) unless text

        @scrape.compute { Answer.text(LegacyText.of(profile)) }
      end

      def delta_heap(query, env, _)
        %w[seconds debug].each do |name|
          raise Answer::Refusal.new(400, "#{name} is for heap and allocs, not for delta_heap") if query[name]
        end
        gc = query.on?("gc")
        @scrape.collector
        return Answer.profile("", "delta_heap") if head?(env)

        Answer.profile(@scrape.since_last(collect: gc).pprof_data, "delta_heap")
      end

      def cmdline(*)
        Answer.text([$PROGRAM_NAME, *ARGV].map { |word| word.to_s.b }.join("\0"))
      end

      # ---- pages for people --------------------------------------------------------------------

      def index(_, env, base)
        @scrape.compute { Answer.html(Pages.index(@scrape, base, env)) }
      end

      def top(query, env, base)
        page(query, env) { |profile, options| Pages.top(profile, base, **options) }
      end

      def flamegraph(query, env, base)
        page(query, env) { |profile, options| FlameGraph.page(profile, base, options[:metric]) }
      end

      def page(query, env)
        seconds = seconds(query)
        gc = query.on?("gc")
        options = Pages.options(query)
        @scrape.collector
        return Answer.html("") if head?(env)

        how = { collect: gc, labels: options[:by] == :class ? [:class] : [] }
        profile = seconds ? @scrape.difference(seconds, **how) : @scrape.profile(**how)
        @scrape.compute { Answer.html(yield(profile, options)) }
      rescue MissingLabelError => e
        raise Answer::Refusal.new(400, e.message)
      end

      # ------------------------------------------------------------------------------------------

      def seconds(query)
        query.integer("seconds", 1..@max_seconds)
      end

      def head?(env)
        env["REQUEST_METHOD"] == "HEAD"
      end

      # The program's log has it all; who asks gets a line.
      def fault(env, error)
        places = error.backtrace.to_a.first(20).map { |line| Printable.of(line) }
        lines = ["memprofiler: #{Printable.error(error)}", *places]
        env["rack.errors"]&.puts(lines.join("\n  "))
        unavailable = error.is_a?(NotStartedError) || error.is_a?(RactorError)
        answer = Answer.error(unavailable ? 503 : 500, unavailable ? error.message : "memprofiler: #{error.class}")
        env["REQUEST_METHOD"] == "HEAD" ? Answer.head(answer) : answer
      end
    end
  end
end
