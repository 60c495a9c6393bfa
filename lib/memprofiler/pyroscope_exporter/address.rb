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
      TAG_CLASSES = [String, Symbol, Integer, TrueClass, FalseClass].freeze
      private_constant :APP_NAME, :TAG_NAME, :TAG_VALUE, :HEADER, :TAG_CLASSES

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
        hide(line(hide(text)))[0, 200]
      end

      def inspect
        "#<#{self.class} #{@shown}>"
      end

      private

      # In bytes: neither is of any known encoding.
      def hide(text)
        hidden = secrets.flat_map { |secret| forms(secret) }.reduce(text.b) do |rest, form|
          form.empty? ? rest : rest.gsub(form, "[secret]")
        end
        hidden.force_encoding(Encoding::UTF_8).scrub("?")
      end

      # As it was sent, as it is in one line, and as Ruby's own errors show it
      def forms(secret)
        [secret, line(secret), secret.dump[1..-2], secret.dup.force_encoding(Encoding::UTF_8).inspect[1..-2]].map(&:b).uniq
      end

      def line(text)
        text.dup.force_encoding(Encoding::UTF_8).scrub("?").gsub(/[[:cntrl:]\p{Cf}\s]+/, " ").strip
      end

      def secrets
        [@token, @user && ["#{@user[0]}:#{@user[1]}"].pack("m0"), @user && @user[1]].compact.reject(&:empty?)
      end

      def hostname
        value = Socket.gethostname.scrub("_").gsub(/[,{}\s[:cntrl:]]/, "_")
        value.empty? ? nil : value
      end

      # (It may hold a password.)
      def check_url(url)
        uri = parse(url) if url.is_a?(String) || url.is_a?(URI::HTTP)
        what = "http://HOST or https://HOST, as a String or a URI, with a port and a path if need be, and no more"
        Arguments.check("url", url, what, String, URI::HTTP, secret: true) do
          uri.is_a?(URI::HTTP) && !uri.host.to_s.empty? && uri.query.nil? && uri.fragment.nil?
        end
        uri
      end

      def parse(url)
        URI.parse(url.to_s)
      rescue URI::Error, ArgumentError, EncodingError
        nil
      end

      def check_app_name(name)
        what = "a String of 1 to 200 letters, digits, _ . / and -"
        Arguments.check("app_name", name, what, String) { Arguments.match?(name, APP_NAME) }.dup.freeze
      end

      def check_tags(tags)
        Arguments.check("tags", tags, "a Hash", Hash).to_h do |name, value|
          what = "letters, digits and _, and not begin with a digit or __"
          name = name.to_s.dup.freeze
          Arguments.check("a tag's name", name, what, String) { Arguments.match?(name, TAG_NAME) }
          [name, value.nil? ? nil : check_tag(name, value)]
        end.freeze
      end

      def check_tag(name, value)
        what = "a String, Symbol, Integer, true, false or nil, of 1 to 1000 characters of UTF-8, without " \
               ", { } and control characters, and without blanks at its ends"
        Arguments.check("tag #{name}", value, what, *TAG_CLASSES) { tag_text(value) }
        tag_text(value).freeze
      end

      def tag_text(value)
        text = value.to_s.encode(Encoding::UTF_8)
        text if text.valid_encoding? && text.match?(TAG_VALUE) && text == text.strip
      rescue EncodingError
        nil
      end

      def check_user(name, password)
        Arguments.check("password", password, "a String, or nil", String, NilClass, secret: true)
        if @uri.userinfo
          raise ArgumentError, "a username and password are in the url already" if name || password

          name, password = decoded(@uri.userinfo)
        end
        what = "a String without a colon, or nil"
        Arguments.check("username", name, what, String, NilClass, secret: true) { !name&.include?(":") }
        raise ArgumentError, "password needs a username" if password && !name

        [name.dup.freeze, password.to_s.dup.freeze].freeze if name
      end

      def decoded(userinfo)
        userinfo.split(":", 2).map { |part| URI.decode_www_form_component(part.gsub("+", "%2B")) }
      end

      def header(option, value)
        what = "a String of printable ASCII without blanks, or nil"
        Arguments.check(option, value, what, String, NilClass, secret: true) do
          value.nil? || Arguments.match?(value, HEADER)
        end
        value&.dup&.freeze
      end
    end
  end
end
