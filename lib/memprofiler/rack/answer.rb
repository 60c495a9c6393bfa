# frozen_string_literal: true

require_relative "../report/text"

module Memprofiler
  class Rack
    # What is sent back, as Rack 2 and 3 both allow it.
    #
    # @api private
    module Answer
      TEXT = "text/plain; charset=utf-8"
      HTML = "text/html; charset=utf-8"
      # No browser guesses at a type, keeps it, or lets another site's page have it for a picture or a script.
      COMMON = { "x-content-type-options" => "nosniff", "cache-control" => "no-store",
                 "cross-origin-resource-policy" => "same-origin" }.freeze
      # The pages have no script, and load nothing.
      HTML_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; " \
                    "frame-ancestors 'none'"
      private_constant :COMMON, :HTML_POLICY

      module_function

      # @param body [Array<String>]
      # @return [Array(Integer, Hash, Array<String>)]
      def make(status, type, body, headers = {})
        length = body.sum(&:bytesize).to_s
        [status, { "content-type" => type, "content-length" => length, **COMMON, **headers }, body]
      end

      # @param body [String, Array<String>]
      def text(body)
        make(200, TEXT, [*body])
      end

      def html(body)
        make(200, HTML, [body], { "content-security-policy" => HTML_POLICY })
      end

      # A deflater would pack it again.
      def profile(body, name)
        make(200, "application/octet-stream", [body],
             { "content-disposition" => "attachment; filename=\"#{name}\"",
               "cache-control" => "no-store, no-transform" })
      end

      # pprof prints what has this header, to a terminal; and a part of it may be the request's own words.
      def error(status, message, headers = {})
        make(status, TEXT, ["#{Report::Text.printable(message)}\n"], { "x-go-pprof" => "1", **headers })
      end

      # To a HEAD: no body, and no length, as nothing was made of which it could be told.
      def head(answer)
        status, headers, = answer
        [status, headers.except("content-length"), []]
      end

      # A request that gets an error.
      class Refusal < Error
        attr_reader :status, :headers

        # @param status [Integer] of HTTP
        # @param message [String]
        # @param headers [Hash{String => String}]
        def initialize(status, message, headers = {})
          super(message)
          @status = status
          @headers = headers
        end
      end
    end
  end
end
