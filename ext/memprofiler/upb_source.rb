# frozen_string_literal: true

require "digest"
require "fileutils"
require "rubygems/package"
require "rubygems/remote_fetcher"
require "rubygems/source"
require "tmpdir"

# Puts upb's C sources into vendor/upb, which git ignores. They come from one
# pinned gem, through RubyGems and from whatever sources it is set up with, and
# nothing of them is compiled before the gem's checksum was found right.
#
# The gem we build carries vendor/upb, so its installation finds the stamp and
# downloads nothing.
module UpbSource
  NAME = "google-protobuf"
  VERSION = "4.36.2"
  SHA256 = "2f8daff50ae14aad36ab0ccdcf284065fa71d726c444efe114e6db82ffe62494"

  VENDOR = File.expand_path("vendor/upb", __dir__)
  STAMP = File.join(VENDOR, "stamp")
  # Says what VENDOR was made from and how; raise the number when the making changes.
  STAMP_TEXT = "#{NAME} #{VERSION} #{SHA256} 1\n".freeze

  IN_GEM = "ext/google/protobuf_c"
  FILES = %w[ruby-upb.c ruby-upb.h].freeze
  UTF8_RANGE = "third_party/utf8_range"

  # ruby-upb.h begins with port/def.inc, up to DEF_ENDS, and closes with
  # port/undef.inc, from UNDEF_BEGINS. Generated code includes both by name.
  DEF_ENDS = "#ifndef UPB_GENERATED_CODE_SUPPORT_H_\n"
  UNDEF_BEGINS = "// This should #undef all macros #defined in def.inc\n"

  class Error < StandardError; end

  module_function

  def present?
    File.exist?(STAMP) && File.read(STAMP) == STAMP_TEXT
  end

  # Makes VENDOR unless it is there. Whoever comes second at the same time
  # finds the first one's and throws its own away.
  def vendor
    return if present?

    FileUtils.mkdir_p(File.dirname(VENDOR))
    Dir.mktmpdir("upb-", File.dirname(VENDOR)) do |dir|
      made = File.join(dir, "upb")
      make(made, unpack(download(dir), dir))
      move_into_place(made, dir)
    end
  end

  # The path of the gem, downloaded into `dir` and checked.
  def download(dir)
    problems = []
    gem = Gem.sources.each_source.lazy.filter_map { |source| download_from(source, dir, problems) }.first
    raise Error, "could not download #{NAME} #{VERSION}: #{problems.join("; ")}" unless gem

    found = Digest::SHA256.file(gem).hexdigest
    return gem if found == SHA256

    raise Error, "#{NAME} #{VERSION} has the SHA-256 #{found} instead of #{SHA256}"
  end

  # RubyGems' own download of one file: `gem fetch` would load the whole list of
  # gems first, which takes a minute.
  def download_from(source, dir, problems)
    source.download(Gem::Specification.new(NAME, VERSION), dir)
  rescue Gem::Exception, SystemCallError, SocketError => e
    problems << e.message.lines.first.to_s.strip
    nil
  end

  def unpack(gem, dir)
    Gem::Package.new(gem).extract_files(File.join(dir, "gem"), "#{IN_GEM}/*")
    File.join(dir, "gem", IN_GEM)
  end

  def make(to, from)
    FileUtils.mkdir_p(File.join(to, "upb/port"))
    FileUtils.cp(FILES.map { |name| File.join(from, name) }, to)
    FileUtils.cp_r(File.join(from, UTF8_RANGE), to)
    header = File.read(File.join(from, "ruby-upb.h"), encoding: "UTF-8")
    write(to, "upb/port/def.inc", header[0, cut(header, DEF_ENDS)])
    write(to, "upb/port/undef.inc", header[cut(header, UNDEF_BEGINS)..])
    write(to, "upb/generated_code_support.h", "#include \"ruby-upb.h\"\n")
    write(to, "stamp", STAMP_TEXT)
  end

  def cut(header, mark)
    header.index(mark) || raise(Error, "#{mark.strip.inspect} is not in ruby-upb.h of #{NAME} #{VERSION}")
  end

  def write(folder, name, text)
    File.write(File.join(folder, name), text)
  end

  def move_into_place(made, dir)
    return if present?

    File.rename(VENDOR, File.join(dir, "outdated")) if File.exist?(VENDOR)
    File.rename(made, VENDOR)
  rescue SystemCallError
    raise unless present?
  end
end
