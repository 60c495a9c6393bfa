# frozen_string_literal: true

require "socket"
require "uri"

module Memprofiler
  class PyroscopeExporter
    # Where profiles go, under which name, and who says so. What is secret gets into no message: `shown`
    # is the address without, and `scrub` takes it out of what others say.
    #
    # @api private
    class Address
      # What Pyroscope's parser of names takes. There is no way to escape anything in a value.
      APP_NAME = %r{\A[A-Za-z0-9_./-]{1,200}\z}
      TAG_NAME = /\A(?!__)[A-Za-z_][A-Za-z0-9_]{0,199}\z/
      TAG_VALUE = /\A[^,{}[:cntrl:]]{1,1000}\z/
      HEADER = /\A[\x21-\x7E]+\z/
      private_constant :APP_NAME, :TAG_NAME, :TAG_VALUE, :HEADER

      # @return [String] scheme, host, port and path
      attr_reader :shown
      # @return [URI::HTTP]
      attr_reader :uri

      # @raise [ArgumentError, TypeError]
      def initialize(url:, app_name:, tags:, username:, password:, token:, tenant:)
        @uri = check_url(url)
        @app_name = check_app_name(app_name)
        @tags = check_tags(tags)
        @user = check_user(username, password)
        @token = header("token", token)
        @tenant = header("tenant", tenant)
        raise ArgumentError, "either username and password or a token can be given, not both" if @user && @token

        @path = "#{@uri.path.chomp("/")}/ingest"
        @shown = "#{@uri.scheme}://#{@uri.host}:#{@uri.port}#{@uri.path}"
      end

      # @return [Net::HTTP::Post]
      def request(body, from, till)
        query = URI.encode_www_form(name: name, from: from, until: till, format: "pprof", spyName: "memprofiler")
        request = Net::HTTP::Post.new("#{@path}?#{query}")
        request["Content-Type"] = "application/octet-stream" # not of an encoding: the profile is gzipped itself
        request["User-Agent"] = "memprofiler/#{VERSION}"
        request["X-Scope-OrgID"] = @tenant if @tenant
        request["Authorization"] = "Bearer #{@token}" if @token
        request.basic_auth(*@user) if @user
        request.body = body
        request
      end

      # @return [String] app{k=v,...}
      def name
        tags = { "hostname" => hostname, "pid" => Process.pid.to_s }.merge(@tags).compact
        "#{@app_name}{#{tags.sort.map { |pair| pair.join("=") }.join(",")}}"
      end

      # @param text [String] a server's answer or an error's message
      # @return [String] one line, without secrets
      def scrub(text)
        text = text.dup.force_encoding(Encoding::UTF_8).scrub("?").gsub(/[[:cntrl:]\s]+/, " ").strip
        secrets.reduce(text) { |line, secret| line.gsub(secret, "[secret]") }[0, 200]
      end

      def inspect
        "#<#{self.class} #{@shown}>"
      end

      private

      def secrets
        [@token, @user && ["#{@user[0]}:#{@user[1]}"].pack("m0"), @user && @user[1]].compact.reject(&:empty?)
      end

      def hostname
        value = Socket.gethostname.scrub("_").gsub(/[,{}\s[:cntrl:]]/, "_")
        value.empty? ? nil : value
      end

      # (It may hold a password: messages don't show it.)
      def check_url(url)
        unless url.is_a?(String) || url.is_a?(URI::HTTP)
          raise TypeError, "url must be a String or a URI of http or https, not an instance of #{url.class}"
        end

        uri = parse(url)
        return uri if uri.is_a?(URI::HTTP) && !uri.host.to_s.empty? && uri.query.nil? && uri.fragment.nil?

        raise ArgumentError, "url must be http://HOST or https://HOST, with a port and a path if need be, and no more"
      end

      def parse(url)
        URI.parse(url.to_s)
      rescue URI::Error
        nil
      end

      def check_app_name(name)
        raise TypeError, "app_name must be a String, not an instance of #{name.class}" unless name.is_a?(String)
        return name.dup.freeze if name.match?(APP_NAME)

        raise ArgumentError, "app_name must be 1 to 200 of letters, digits, _ . / and -, not #{name[0, 80].inspect}"
      end

      def check_tags(tags)
        raise TypeError, "tags must be a Hash, not an instance of #{tags.class}" unless tags.is_a?(Hash)

        tags.to_h do |name, value|
          name = name.to_s
          unless name.match?(TAG_NAME)
            raise ArgumentError, "a tag's name must be letters, digits and _, and not begin with a digit or __, " \
                                 "not #{name[0, 80].inspect}"
          end
          [name.freeze, value.nil? ? nil : check_tag(name, value)]
        end.freeze
      end

      def check_tag(name, value)
        unless [String, Symbol, Integer, TrueClass, FalseClass].any? { |kind| value.is_a?(kind) }
          raise TypeError, "tag #{name} must be a String, Symbol, Integer, true, false or nil, " \
                           "not an instance of #{value.class}"
        end
        text = value.to_s.encode(Encoding::UTF_8)
        return text.freeze if text.valid_encoding? && text.match?(TAG_VALUE) && text == text.strip

        raise ArgumentError, "tag #{name} must be 1 to 1000 characters without , { } and control characters, " \
                             "and without blanks at its ends"
      rescue EncodingError
        raise ArgumentError, "tag #{name} can't be told in UTF-8"
      end

      def check_user(name, password)
        Service::Options.string("username", name)
        Service::Options.string("password", password)
        if @uri.userinfo
          raise ArgumentError, "a username and password are in the url already" if name || password

          name, password = decoded(@uri.userinfo)
        end
        raise ArgumentError, "password needs a username" if password && !name
        raise ArgumentError, "username must not hold a colon" if name&.include?(":")

        [name.dup.freeze, password.to_s.dup.freeze].freeze if name
      end

      def decoded(userinfo)
        userinfo.split(":", 2).map { |part| URI.decode_www_form_component(part.gsub("+", "%2B")) }
      end

      def header(option, value)
        return if Service::Options.string(option, value).nil?
        return value.dup.freeze if value.match?(HEADER)

        raise ArgumentError, "#{option} must be printable ASCII without blanks"
      end
    end
  end
end
