# frozen_string_literal: true

module Memprofiler
  class Rack
    # Who may read profiles, unless the program says so itself: this machine, without a proxy between.
    #
    # A header can be written by whoever sends the request, so none makes it loopback. But one that proxies
    # add tells that the request has come by one, and the peer's address is the proxy's. A Host that is not this
    # machine's is what a browser sends which was led here by a name that now points to 127.0.0.1 (DNS
    # rebinding), and Sec-Fetch-Site what it sends for another site's page.
    #
    # @api private
    module Permission
      ADDRESS = /\A(?:::ffff:)?127(?:\.\d{1,3}){3}\z|\A(?:0{0,4}:){2,7}0{0,3}1\z/i
      HOST = /\A(?:(?:[a-z0-9-]+\.)*localhost\.?|127(?:\.\d{1,3}){3}|\[::(?:1|ffff:127(?:\.\d{1,3}){3})\])(?::\d*)?\z/i
      # X-Forwarded-For, -Host, -Proto and the like, those of providers, and what proxies say of themselves.
      PROXY = /\AHTTP_(?:(?:X_)?(?:ORIGINAL_)?FORWARDED|X_ORIGINAL_|X_ENVOY_|X_ARR_|TAILSCALE_|VIA\z|CDN_LOOP\z|
                 X_VARNISH\z|X_HOST\z|X_ORIGINATING_IP\z|X_REMOTE_(?:IP|ADDR)\z|X_REAL_IP\z|(?:\w+_)?CLIENT_?IP\z|
                 (?:\w+_)?CONNECTING_IP\z|X_PROXYUSER_IP\z)/x
      REMEDY = "Say who may with Memprofiler::Rack's option permit: ->(env) { ... }"
      private_constant :ADDRESS, :HOST, :PROXY, :REMEDY

      module_function

      # @param env [Hash]
      # @return [String, nil] why not; nil: it's permitted
      def refusal(env)
        reason = if !env["REMOTE_ADDR"].to_s.b.match?(ADDRESS)
                   "profiles are for requests from this machine"
                 elsif proxied?(env)
                   "profiles are for requests that did not come by a proxy"
                 elsif !host?(env["HTTP_HOST"])
                   "profiles are for requests to localhost, by that name"
                 elsif env["HTTP_SEC_FETCH_SITE"].to_s.b.casecmp?("cross-site") || !origin?(env["HTTP_ORIGIN"])
                   "profiles are not for pages of other sites"
                 end
        reason && "#{reason}. #{REMEDY}"
      end

      def proxied?(env)
        env.each_key.any? { |key| key.match?(PROXY) }
      end
      private_class_method :proxied?

      def host?(host)
        host.nil? || host.empty? || host.b.match?(HOST)
      end
      private_class_method :host?

      # What a browser sends for a page's script, those that know no Sec-Fetch-Site too; "null" is anybody's.
      def origin?(origin)
        origin.nil? || origin.b.sub(%r{\Ahttps?://}, "").match?(HOST)
      end
      private_class_method :origin?
    end
  end
end
