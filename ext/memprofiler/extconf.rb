# frozen_string_literal: true

require_relative "requirements"

refusal = Platform.refusal
abort refusal if refusal
missing = Requirements.missing
abort Requirements.message(missing) if missing

require "mkmf"
require_relative "platform"
require_relative "upb_source"

# Functions of this Ruby that not every Ruby from 3.1 to 4.1 has; vm/compat.h says
# which has which. Most stand in no public header, so the linker is asked.
FUNCTIONS = %w[
  rb_gc_obj_slot_size
  rb_gc_object_metadata
  rb_obj_gc_flags
  rb_objspace_each_objects
  rb_objspace_marked_object_p
  rb_postponed_job_preregister
].freeze

# A Ruby with libruby linked in exports less than the archive that a probe links
# against holds: there the program itself is asked too. Nil where that is no question.
def exported_by_ruby
  return if RbConfig::CONFIG["ENABLE_SHARED"] == "yes"

  names = IO.popen([*Platform.exported_names, RbConfig.ruby], err: File::NULL, &:read).scan(/ [TtW] _?(\w+)$/).flatten
  names unless names.empty?
rescue SystemCallError
  nil # no nm: the linker's word is all there is
end

if ENV["CC"] # mkmf itself takes it from the command line only
  RbConfig::CONFIG["CC"] = RbConfig::MAKEFILE_CONFIG["CC"] = ENV["CC"]
end

abort Requirements.message(:compiler) unless try_compile("#include <stdlib.h>\nint main(void) { return 0; }\n")
abort Requirements.message(:zlib) unless have_header("zlib.h") && have_library("z", "deflate", "zlib.h")

exported = exported_by_ruby
FUNCTIONS.each { |name| have_func(name) if exported.nil? || exported.include?(name) }

begin
  UpbSource.vendor
rescue UpbSource::Error, SystemCallError => e
  abort "memprofiler: upb's sources are needed once: #{e.message}"
end

# Only Init_memprofiler is seen from outside: the google-protobuf gem in the same
# process has an upb too, of any version.
append_cflags(%w[-std=gnu11 -fvisibility=hidden -ffunction-sections -fdata-sections])
append_ldflags(Platform::LINKER)

if ENV["MEMPROFILER_ASAN"] == "1" # also keeps the assertions
  # What undefined behaviour does is told by ending the process: a line on stderr could go unseen.
  sanitizer = "-fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer"
  # What rb_raise jumps over would stay poisoned on the stack, for whoever uses it next.
  stack = ["--param=asan-stack=0", "-mllvm -asan-stack=0"].find { |flag| try_cflags("#{sanitizer} #{flag}") }
  sanitizer = [sanitizer, stack].compact.join(" ")
  $CFLAGS << " -O1 -g #{sanitizer}"
  $LDFLAGS << " #{sanitizer}"
else
  $CPPFLAGS << " -DNDEBUG"
end

if ENV["MEMPROFILER_DEV"] == "1" # Ruby's own headers would not pass as ours do
  require_relative "../../script/warnings"
  # (Ruby's rb_scan_args is a macro with both in it.)
  $CFLAGS << " " << [*Warnings.of(RbConfig::CONFIG["CC"]), "-Wno-vla", "-Wno-cast-qual"].join(" ")
  $INCFLAGS << " -isystem $(arch_hdrdir) -isystem $(hdrdir)"
end

# Our folders are for quoted includes only: core/strings.h is not <strings.h>.
OURS = %w[. core vm].freeze
UPB = %w[upb vendor/upb vendor/upb/utf8_range].freeze # and what protoc generated for it
OURS.each { |folder| $INCFLAGS << " -iquote $(srcdir)/#{folder}" }
UPB.each { |folder| $INCFLAGS << " -isystem $(srcdir)/#{folder}" }
$VPATH.concat((OURS + UPB - ["."]).map { |folder| "$(srcdir)/#{folder}" }) # (make finds nothing by "./.")
sources = ->(folders) { folders.flat_map { |folder| Dir.children(File.join(__dir__, folder)).grep(/\.c\z/).sort } }
$srcs = sources.call(OURS + UPB)

create_header
create_makefile("memprofiler/memprofiler") do |lines|
  objects = ->(folders) { sources.call(folders).map { |name| name.sub(/c\z/, $OBJEXT) }.join(" ") }
  headers = (OURS + ["upb"]).flat_map { |folder| Dir[File.join(folder, "*.h"), base: __dir__].sort }
  lines << <<~MAKE
    OUR_OBJS = #{objects.call(OURS)}
    OUR_HDRS = #{headers.map { |name| "$(srcdir)/#{name}" }.join(" ")}
    UPB_OBJS = #{objects.call(UPB)}
  MAKE
end
