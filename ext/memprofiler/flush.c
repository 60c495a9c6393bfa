/*
 * Collector#flush: the state of a run as a Profile, in three stages (snapshot.h), none of which
 * holds the GVL for long.
 */
#include <time.h>

#include "collector.h"

#include <ruby/thread.h> /* of 3.3 needs what ruby.h brings */

#include "comments.h"
#include "core/error.h"
#include "core/snapshot.h"
#include "vm/heap.h"
#include "vm/holds.h"
#include "vm/hooks.h"

/* Living samples dealt with between two looks at the clock. */
#define STEP 2048u
/*
 * The GVL is offered to others after so long; a piece ends at the next look at the clock. Where they
 * take it for long, some 100 ms each, pieces are longer, or a flush would take minutes.
 */
#define PIECE_NS 5000000u
#define LONG_PIECE_NS 12000000u
#define LONG_WAIT_NS 50000000u
/* The same for new stacks and sites, which cost more: a stack may have hundreds of frames. */
#define FOLDS 256u
/* Names looked up between two looks at the clock. */
#define NAMES 128u

static VALUE sym_labels, sym_gc, sym_heap, sym_class, sym_age, sym_thread;
static VALUE memprofiler_module;

/* What a flush and a stop have in common: they hold the run, and the GVL for a piece at a time. */
typedef struct {
    mp_run *run;
    mp_hold *hold;
    int own; /* this thread is marked as the profiler's */
    uint64_t since, held_ns, longest_ns;
    int waited; /* for long */
} work;

typedef struct {
    work work;
    mp_collector *collector;
    mp_run *run; /* work's */
    unsigned labels;
    uint64_t heap_bytes; /* 0: not asked for */
    int64_t time_nanos;
    mp_snapshot *snapshot;
    mp_comments comments;
    mp_buffer out;
    int error;
} flush;

/* ---- pieces ---------------------------------------------------------------------------------- */

static void own_begins(work *w)
{
    mp_own_begin();
    w->own = 1;
}

static void own_ends(work *w)
{
    if (w->own) mp_own_end();
    w->own = 0;
}

static void piece_begins(work *w)
{
    w->since = mp_clock_ns();
}

static void piece_ends(work *w)
{
    uint64_t held = mp_clock_ns() - w->since;
    w->held_ns += held;
    if (held > w->longest_ns) w->longest_ns = held;
}

/* What runs in this very thread meanwhile (trap handlers, finalizers) is the program's. */
static void offer_gvl(work *w)
{
    if (mp_clock_ns() - w->since < (w->waited ? LONG_PIECE_NS : PIECE_NS)) return;
    piece_ends(w);
    own_ends(w);
    uint64_t offered = mp_clock_ns();
    rb_thread_schedule();
    own_begins(w);
    piece_begins(w);
    w->waited = w->since - offered > LONG_WAIT_NS;
}

static void work_begins(work *w, mp_run *run)
{
    w->run = run;
    w->hold = mp_hold_begin(run);
    own_begins(w);
    piece_begins(w);
}

static void work_ends(work *w)
{
    mp_hold_end(w->hold, w->run);
    own_ends(w);
}

/* ---- stages ---------------------------------------------------------------------------------- */

/* Up to here `rb_raise` is legal; the snapshot and the buffer are freed by flush_ends. */
static void check(int error)
{
    if (error == MP_ENOMEM) rb_raise(mp_eEncode, "no memory to take a snapshot");
    if (error) rb_raise(mp_eEncode, "the profile could not be encoded (error %d)", error);
}

/* What is there when it begins, in pieces; how far that went. */
static uint32_t measure(work *w)
{
    mp_run *run = w->run;
    uint32_t at = 0, end = run->recorder->live.slabs.top;
    for (int more = 1; more;) {
        if (run->armed) mp_run_finish_sweep(run);
        mp_run_lock(run);
        mp_run_check(run);
        more = mp_run_measure(run, &at, end, STEP);
        mp_run_unlock(run);
        offer_gvl(w);
    }
    return at;
}

static void prepare(flush *f)
{
    mp_recorder *recorder = f->run->recorder;
    mp_run_lock(f->run);
    int error = mp_snapshot_new(&f->snapshot, recorder, f->labels, (uintptr_t)rb_thread_current());
    mp_run_unlock(f->run);
    check(error);
    for (int done = 0; !done;) {
        offer_gvl(&f->work);
        mp_run_lock(f->run);
        error = mp_snapshot_prepare(f->snapshot, FOLDS, &done);
        mp_run_unlock(f->run);
        check(error);
    }
}

static void name(work *w)
{
    while (mp_run_name(w->run, MP_NAME_ALL_AND_JUMP, NAMES)) offer_gvl(w);
}

/*
 * What came to light while others had the GVL has to be named as well, or what lives of it would
 * have no place. Naming may let others in, who may add some more, but not without end.
 */
static void name_and_begin(flush *f)
{
    name(&f->work);
    prepare(f);
    for (int i = 0; i < 10 && mp_run_has_unnamed(f->run); i++) name(&f->work);
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    f->time_nanos = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
    mp_run_lock(f->run);
    mp_run_check(f->run);
    int error = mp_snapshot_begin(f->snapshot);
    mp_run_unlock(f->run);
    check(error);
    mp_comments_write(&f->comments, f->run, f->heap_bytes);
}

static void copy(flush *f)
{
    for (int done = 0; !done;) {
        offer_gvl(&f->work);
        mp_run_lock(f->run);
        mp_run_check(f->run);
        int error = mp_snapshot_step(f->snapshot, STEP, &done);
        mp_run_unlock(f->run);
        check(error);
    }
}

static void free_snapshot(flush *f)
{
    mp_run_lock(f->run);
    mp_snapshot_free(f->snapshot);
    mp_run_unlock(f->run);
    f->snapshot = NULL;
}

static void take_snapshot(flush *f)
{
    for (;;) {
        measure(&f->work);
        name_and_begin(f);
        copy(f);
        if (!mp_snapshot_spoiled(f->snapshot)) return;
        free_snapshot(f);
    }
}

static void *encode(void *arg)
{
    flush *f = arg;
    mp_snapshot_header header = {
        .comments = f->comments.lines,
        .n_comments = f->comments.count,
        .time_nanos = f->time_nanos,
    };
    f->error = mp_snapshot_encode(f->snapshot, &header, &f->out);
    return NULL;
}

static VALUE flush_body(VALUE arg)
{
    flush *f = (flush *)arg;
    take_snapshot(f);
    mp_comments_write_living(&f->comments, mp_snapshot_live_samples(f->snapshot),
                             mp_snapshot_live_objects(f->snapshot));
    piece_ends(&f->work);
    /* This thread allocates nothing there, and others would pay for the mark. */
    own_ends(&f->work);
    rb_thread_call_without_gvl(encode, f, NULL, NULL);
    own_begins(&f->work);
    check(f->error);
    piece_begins(&f->work);
    VALUE bytes = rb_str_new((const char *)f->out.data, (long)f->out.len);
    rb_obj_freeze(bytes);
    VALUE profile = rb_funcall(rb_const_get(memprofiler_module, rb_intern("Profile")),
                               rb_intern("new"), 1, bytes);
    free_snapshot(f);
    piece_ends(&f->work);
    f->collector->flush_gvl_ns = f->work.held_ns;
    f->collector->flush_piece_ns = f->work.longest_ns;
    f->collector->flushes++;
    return profile;
}

static VALUE flush_ends(VALUE arg)
{
    flush *f = (flush *)arg;
    if (f->snapshot) free_snapshot(f);
    mp_buffer_free(&f->out);
    work_ends(&f->work);
    return Qnil;
}

/* ---- before a collection, and before the end ------------------------------------------------- */

static VALUE name_body(VALUE arg)
{
    name((work *)arg);
    return Qnil;
}

static VALUE stop_body(VALUE arg)
{
    work *w = (work *)arg;
    name(w);
    mp_run_stop(w->run, measure(w));
    return Qnil;
}

static VALUE body_ends(VALUE arg)
{
    work_ends((work *)arg);
    return Qnil;
}

static void ensured(mp_run *run, VALUE (*body)(VALUE))
{
    work w = {0};
    work_begins(&w, run);
    rb_ensure(body, (VALUE)&w, body_ends, (VALUE)&w);
}

void mp_stop_in_pieces(mp_run *run)
{
    ensured(run, stop_body);
}

/* ---- arguments ------------------------------------------------------------------------------- */

static unsigned label_bit(VALUE label)
{
    if (label == sym_class) return MP_LABEL_CLASS;
    if (label == sym_age) return MP_LABEL_AGE;
    if (label == sym_thread) return MP_LABEL_THREAD;
    VALUE kind = SYMBOL_P(label) ? rb_eArgError : rb_eTypeError;
    rb_raise(kind, "labels must be among :class, :age and :thread, not %" PRIsVALUE,
             rb_inspect(label));
}

static unsigned label_bits(VALUE labels)
{
    if (!RB_TYPE_P(labels, T_ARRAY)) {
        rb_raise(rb_eTypeError,
                 "labels must be an Array of :class, :age and :thread, not %" PRIsVALUE,
                 rb_obj_class(labels));
    }
    unsigned bits = 0;
    for (long i = 0; i < RARRAY_LEN(labels); i++) bits |= label_bit(RARRAY_AREF(labels, i));
    return bits;
}

static int boolean(const char *name, VALUE value)
{
    if (value == Qundef) return 0;
    if (value != Qtrue && value != Qfalse) {
        rb_raise(rb_eTypeError, "%s must be true or false, not %" PRIsVALUE, name,
                 rb_obj_class(value));
    }
    return RTEST(value);
}

/*
 * The profile so far. Resets nothing: `alloc_*` counts from the start, and never falls; `inuse_*`
 * is as of the last completed collection.
 *
 * @overload flush(labels: [], gc: false, heap: false)
 *   @param labels [Array<Symbol>] labels to give the samples: `:class`, `:age` (collections
 *     survived, on `inuse_*` only), `:thread`
 *   @param gc [Boolean] run a full collection first
 *   @param heap [Boolean] measure the whole heap, for a comment `heap_bytes` that tells how much of
 *     the bytes in use the profile knows of. Holds up the program for some 30 ms per million
 *     objects; nothing where there are other Ractors. Garbage counts, so best with `gc: true`.
 *   @return [Profile]
 *   @raise [NotStartedError] it was never started
 *   @raise [ArgumentError, TypeError] naming what is allowed
 *   @raise [EncodeError] no memory
 */
VALUE mp_collector_flush(int argc, VALUE *argv, VALUE self)
{
    mp_collector *collector = mp_collector_of(self);
    VALUE keywords, given[3];
    ID keys[3] = {SYM2ID(sym_labels), SYM2ID(sym_gc), SYM2ID(sym_heap)};
    rb_scan_args(argc, argv, "0:", &keywords);
    rb_get_kwargs(keywords, keys, 0, 3, given);
    flush f = {.collector = collector};
    f.labels = given[0] == Qundef ? 0 : label_bits(given[0]);
    int collect = boolean("gc", given[1]);
    int heap = boolean("heap", given[2]);
    if (!collector->run) rb_raise(mp_eNotStarted, "the collector was never started");

    /* Ruby takes all hooks off before it runs the last finalizers, and other tools do. */
    if (collector->run->armed) mp_hooks_check(collector->run);
    /* Before the thread is marked: finalizers that run now are the program's. */
    if (collect && collector->run->armed) {
        /* Threads that have ended are pinned until they are named: they must not look alive. */
        ensured(collector->run, name_body);
        mp_full_gc();
    }
    int alone = mp_one_ractor(); /* lets others in, who may have started anew */
    if (heap && alone) f.heap_bytes = mp_heap_bytes();
    f.run = collector->run;
    f.run->alone = alone;
    work_begins(&f.work, f.run);
    VALUE profile = rb_ensure(flush_body, (VALUE)&f, flush_ends, (VALUE)&f);
    RB_GC_GUARD(self);
    return profile;
}

void mp_init_flush(VALUE memprofiler)
{
    memprofiler_module = memprofiler;
    sym_labels = ID2SYM(rb_intern("labels"));
    sym_gc = ID2SYM(rb_intern("gc"));
    sym_heap = ID2SYM(rb_intern("heap"));
    sym_class = ID2SYM(rb_intern("class"));
    sym_age = ID2SYM(rb_intern("age"));
    sym_thread = ID2SYM(rb_intern("thread"));
    mp_init_comments();
}
