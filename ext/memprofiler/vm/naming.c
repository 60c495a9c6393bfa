#include "naming.h"

#include <ruby/encoding.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../core/names.h"
#include "../core/platform.h"
#include "deaths.h"
#include "hooks.h"
#include "own.h"
#include "run.h"

static VALUE own_folder = Qnil;
static char start_folder[MP_PATH_MAX]; /* where a script's relative path starts from */
/* bind_call of Thread#name and Thread#to_s, as Methods: nobody's override runs. */
static VALUE thread_name, thread_to_s;

/* Interned without addresses; MP_STRING_NONE when the table is full. */
static uint32_t intern(mp_run *run, const char *bytes, size_t length)
{
    char clean[MP_NAME_MAX];
    size_t cleaned = mp_name_clean(bytes, length, clean);
    return mp_strings_intern(&run->recorder->strings, clean, cleaned);
}

static uint32_t intern_value(mp_run *run, VALUE string)
{
    if (!RB_TYPE_P(string, T_STRING)) return intern(run, "(unnamed)", 9);
    uint32_t id = intern(run, RSTRING_PTR(string), (size_t)RSTRING_LEN(string));
    RB_GC_GUARD(string);
    return id;
}

/* ---- what comes in the middle of it ---------------------------------------------------------- */

/* One call of mp_run_name. Others may be under way, in other threads or below this one. */
typedef struct {
    mp_run *run;
    int may_jump;
    int struck; /* by this tag, with errinfo set */
} naming;

/*
 * Calling Thread#name lets interrupts in: a Thread#kill, Thread#raise or Timeout can strike there, and
 * goes straight through once this item is done with. Where it could not (the VM swallows it in a
 * job), nothing is called. What else can be raised is that memory ran out: then there is no name.
 */
static VALUE protect(naming *now, VALUE (*read)(VALUE), VALUE argument)
{
    VALUE before = rb_errinfo();
    int error;
    VALUE value = rb_protect(read, argument, &error);
    if (!error) return value;
    if (now->may_jump) {
        now->struck = error;
        return Qnil;
    }
    rb_set_errinfo(rb_obj_is_kind_of(before, rb_eException) ? before : Qnil);
    return Qnil;
}

/* Reading the name took a while: somebody else may have given it one, and more may have come. */
static int still_pending(const mp_refs *refs, uint32_t id, VALUE object)
{
    const mp_ref *ref = mp_refs_at(refs, id);
    return ref->state == MP_REF_PENDING && ref->address == object;
}

/* ---- frames ---------------------------------------------------------------------------------- */

typedef struct {
    VALUE frame;
    VALUE name, file, class_path;
    int line;
} frame_names;

/*
 * Ruby's own frame below <main> (3.1), and code given to eval with a file's name, have the path as it
 * was written only; other frames call the same file by its real one. What isn't there keeps its name.
 */
static VALUE real_path(VALUE path)
{
    char whole[2 * MP_PATH_MAX], real[MP_PATH_MAX];
    struct stat status;
    const char *name = RSTRING_PTR(path);
    size_t length = (size_t)RSTRING_LEN(path);
    if (length == 0 || length >= MP_PATH_MAX || memchr(name, 0, length)) return path;
    if (name[0] == '(' || name[0] == '<' || name[0] == '-') return path;
    int absolute = name[0] == '/';
    if (!absolute && !start_folder[0]) return path;
    snprintf(whole, sizeof whole, "%s%s%.*s", absolute ? "" : start_folder, absolute ? "" : "/",
             (int)length, name);
    if (!realpath(whole, real) || stat(real, &status) != 0 || !S_ISREG(status.st_mode)) return path;
    return rb_enc_str_new_cstr(real, rb_enc_get(path));
}

static VALUE read_frame(VALUE arg)
{
    frame_names *names = (frame_names *)arg;
    VALUE path = rb_profile_frame_path(names->frame);
    names->name = rb_profile_frame_full_label(names->frame);
    if (NIL_P(names->name)) names->name = rb_profile_frame_label(names->frame);
    if (NIL_P(names->name)) names->name = rb_profile_frame_method_name(names->frame);
    if (NIL_P(path)) {
        names->class_path = rb_profile_frame_classpath(names->frame);
        return Qnil;
    }
    names->file = rb_profile_frame_absolute_path(names->frame);
    if (NIL_P(names->file)) names->file = real_path(path);
    VALUE line = rb_profile_frame_first_lineno(names->frame);
    if (FIXNUM_P(line) && FIX2LONG(line) > 0) names->line = (int)FIX2LONG(line);
    return Qnil;
}

static int starts_with(VALUE string, const char *prefix, size_t length)
{
    return RB_TYPE_P(string, T_STRING) && (size_t)RSTRING_LEN(string) >= length &&
           memcmp(RSTRING_PTR(string), prefix, length) == 0;
}

static int equals(VALUE string, const char *text)
{
    return RB_TYPE_P(string, T_STRING) && (size_t)RSTRING_LEN(string) == strlen(text) &&
           starts_with(string, text, strlen(text));
}

/* The library's own files: its folder, and the one beside it that bears its name. */
static int in_own_folder(VALUE file)
{
    if (NIL_P(own_folder)) return 0;
    size_t length = (size_t)RSTRING_LEN(own_folder);
    if (!starts_with(file, RSTRING_PTR(own_folder), length)) return 0;
    const char *rest = RSTRING_PTR(file) + length;
    size_t left = (size_t)RSTRING_LEN(file) - length;
    return (left > 0 && rest[0] == '/') || (left == 3 && memcmp(rest, ".rb", 3) == 0);
}

/* Only what really is the profiler's: its C functions by name space, its Ruby code by folder. */
static int is_ours(const frame_names *names)
{
    if (!NIL_P(names->file)) return in_own_folder(names->file);
    return equals(names->class_path, "Memprofiler") ||
           starts_with(names->class_path, "Memprofiler::", 13);
}

/* With a reference for the caller. */
static uint32_t function_of(mp_run *run, const frame_names *names)
{
    uint32_t flags = is_ours(names) ? MP_FUNCTION_OURS : 0;
    if (equals(names->name, "<main>")) flags |= MP_FUNCTION_MAIN;
    uint32_t name = intern_value(run, names->name);
    uint32_t file = NIL_P(names->file) ? 0 : intern_value(run, names->file);
    return mp_recorder_function(run->recorder, name, file, (uint32_t)names->line, flags);
}

static void name_frame(naming *now, uint32_t id, VALUE frame)
{
    mp_run *run = now->run;
    frame_names names = {.frame = frame, .name = Qnil, .file = Qnil, .class_path = Qnil};
    protect(now, read_frame, (VALUE)&names);

    mp_run_lock(run);
    if (still_pending(&run->recorder->frames, id, frame)) {
        mp_refs_name(&run->recorder->frames, id, function_of(run, &names),
                     NIL_P(names.file) ? MP_FRAME_IS_C : 0);
    }
    mp_run_unlock(run);
    RB_GC_GUARD(names.name);
    RB_GC_GUARD(names.file);
    RB_GC_GUARD(names.class_path);
    RB_GC_GUARD(frame);
}

/* ---- classes --------------------------------------------------------------------------------- */

/* An object's singleton class is called after the class it specialises. */
static VALUE read_class(VALUE klass)
{
    return rb_class_path(rb_class_real(klass));
}

static void name_class(naming *now, uint32_t id, VALUE klass)
{
    mp_run *run = now->run;
    mp_recorder *recorder = run->recorder;
    VALUE string = protect(now, read_class, klass);
    mp_run_lock(run);
    if (still_pending(&recorder->classes, id, klass)) {
        uint32_t name = intern_value(run, string);
        if (name == MP_STRING_NONE) {
            name = mp_refs_at(&recorder->classes, recorder->overflow_class)->name;
            mp_strings_retain(&recorder->strings, name);
        }
        mp_refs_name(&recorder->classes, id, name, 0);
    }
    mp_run_unlock(run);
    RB_GC_GUARD(klass);
}

/* More than Thread#name and Thread#to_s allocate: 1 to 4. */
#define NAME_OBJECTS 8

/* ---- threads --------------------------------------------------------------------------------- */

/*
 * Its name; else where its block stands, which is the same in each process:
 * "#<Thread:0x000... worker.rb:12 run>" gives "worker.rb:12".
 */
static VALUE read_thread(VALUE thread)
{
    VALUE name = rb_method_call(1, &thread, thread_name);
    if (RB_TYPE_P(name, T_STRING) && RSTRING_LEN(name) > 0) return name;
    VALUE text = rb_method_call(1, &thread, thread_to_s);
    if (!RB_TYPE_P(text, T_STRING)) return Qnil;
    const char *from = memchr(RSTRING_PTR(text), ' ', (size_t)RSTRING_LEN(text));
    const char *to = RSTRING_PTR(text) + RSTRING_LEN(text);
    while (to > RSTRING_PTR(text) && to[-1] != ' ') to--;
    if (!from || to - 1 <= from) return rb_str_new_cstr("(thread)");
    VALUE place = rb_str_new(from + 1, to - 1 - (from + 1));
    RB_GC_GUARD(text);
    return place;
}

static void name_thread(naming *now, uint32_t id, VALUE thread)
{
    mp_run *run = now->run;
    VALUE string = Qnil;
    int is_main = thread == rb_thread_main();
    if (now->may_jump && !is_main) {
        mp_own_limit(NAME_OBJECTS * mp_hooks_running());
        string = protect(now, read_thread, thread);
        mp_own_limit(-1);
    }
    mp_run_lock(run);
    mp_run_check(run); /* while the list is as that collection had it: its newest are pinned */
    if (still_pending(&run->recorder->threads, id, thread)) {
        uint32_t name = is_main         ? intern(run, "main", 4)
                        : now->may_jump ? intern_value(run, string)
                                        : intern(run, "(thread)", 8);
        mp_refs_name(&run->recorder->threads, id, name == MP_STRING_NONE ? 0 : name, 0);
    }
    mp_run_unlock(run);
    RB_GC_GUARD(thread);
}

/* ---------------------------------------------------------------------------------------------- */

/*
 * Pending items stay pinned until they are named, or are known to live. The names are read without the lock, since that
 * allocates; meanwhile others may add items, and name them.
 */
static uint32_t name_some(naming *now, mp_refs *refs, void (*name)(naming *, uint32_t, VALUE),
                          uint32_t most)
{
    mp_run *run = now->run;
    for (; most > 0 && !run->orphaned && !now->struck; most--) {
        mp_run_lock(run);
        mp_run_check(run); /* not all threads are pinned */
        uint32_t id = refs->pending;
        VALUE object = id ? (VALUE)mp_refs_at(refs, id)->address : 0;
        mp_run_unlock(run);
        if (!id) break;
        name(now, id, object);
    }
    return most;
}

int mp_run_name(mp_run *run, mp_naming_of which, uint32_t most)
{
    mp_recorder *recorder = run->recorder;
    naming now = {.run = run, .may_jump = which == MP_NAME_ALL_AND_JUMP};
    if (run->orphaned) return 0;
    most = name_some(&now, &recorder->frames, name_frame, most);
    most = name_some(&now, &recorder->classes, name_class, most);
    if (which != MP_NAME_NO_THREADS) {
        most = name_some(&now, &recorder->threads, name_thread, most);
    }
    if (now.struck) rb_jump_tag(now.struck);
    return most == 0;
}

void mp_naming_own_folder(VALUE folder)
{
    own_folder = rb_str_new_frozen(folder);
}

static VALUE caller_of(const char *method)
{
    VALUE unbound =
        rb_funcall(rb_cThread, rb_intern("instance_method"), 1, ID2SYM(rb_intern(method)));
    return rb_obj_method(unbound, ID2SYM(rb_intern("bind_call")));
}

void mp_naming_init(void)
{
    if (!getcwd(start_folder, sizeof start_folder)) start_folder[0] = 0;
    thread_name = caller_of("name");
    thread_to_s = caller_of("to_s");
    rb_gc_register_mark_object(thread_name);
    rb_gc_register_mark_object(thread_to_s);
    rb_global_variable(&own_folder);
}
