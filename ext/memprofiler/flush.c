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
#include "vm/hooks.h"
#include "work.h"

/* Living samples dealt with between two looks at the clock. */
#define STEP 2048u
/* The same for new stacks and sites, which cost more: a stack may have hundreds of frames. */
#define FOLDS 256u
/* Names looked up between two looks at the clock. */
#define NAMES 128u

static VALUE sym_labels, sym_gc, sym_heap, sym_class, sym_age, sym_thread, sym_pid;
static VALUE memprofiler_module;

typedef struct {
    mp_work work; /* comes first */
    mp_collector *collector;
    mp_run *run; /* work's */
    unsigned labels;
    int alloc_first;
    uint64_t heap_bytes; /* 0: not asked for */
    int64_t time_nanos;
    mp_snapshot *snapshot;
    mp_comments comments;
    mp_buffer out;
    int error;
} flush;

/* ---- stages ---------------------------------------------------------------------------------- */

/* May raise at every stage: let_go frees the snapshot and the buffer. */
static void check(int error)
{
    if (error == MP_ENOMEM) rb_raise(mp_eEncode, "no memory to take a snapshot");
    if (error) rb_raise(mp_eEncode, "the profile could not be encoded (error %d)", error);
}

/* Where nobody can say, what was known before is the best guess: sizes would be missing. */
static void note_alone(mp_run *run, int one_ractor)
{
    if (one_ractor >= 0) run->alone = one_ractor;
}

/* Another Ractor may have begun while others had the GVL. */
static void offer_gvl_and_look(mp_work *w)
{
    if (!mp_work_offer_gvl(w)) return;
    mp_work_own_ends(w); /* before a question that lets others in */
    note_alone(w->run, mp_hooks_one_ractor());
    mp_work_own_begins(w);
}

/* What is there when it begins, in pieces; how far that went. */
static mp_measured measure(mp_work *w)
{
    mp_run *run = w->run;
    mp_measured so_far = {0};
    uint32_t end = run->recorder->live.slabs.top;
    for (int more = 1; more;) {
        if (run->armed) mp_run_finish_sweep(run);
        mp_run_lock(run);
        mp_run_check(run);
        more = mp_run_measure(run, &so_far, end, STEP);
        mp_run_unlock(run);
        offer_gvl_and_look(w);
    }
    return so_far;
}

static void prepare(flush *f)
{
    mp_recorder *recorder = f->run->recorder;
    mp_run_lock(f->run);
    int error = mp_snapshot_new(&f->snapshot, recorder, f->labels, (uintptr_t)rb_thread_current());
    mp_run_unlock(f->run);
    check(error);
    for (int done = 0; !done;) {
        mp_work_offer_gvl(&f->work);
        mp_run_lock(f->run);
        error = mp_snapshot_prepare(f->snapshot, FOLDS, &done);
        mp_run_unlock(f->run);
        check(error);
    }
}

static void name(mp_work *w)
{
    while (mp_run_name(w->run, MP_NAME_ALL_AND_JUMP, NAMES)) mp_work_offer_gvl(w);
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
        mp_work_offer_gvl(&f->work);
        mp_run_lock(f->run);
        mp_run_check(f->run);
        mp_snapshot_step(f->snapshot, STEP, &done);
        mp_run_unlock(f->run);
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
        .alloc_first = f->alloc_first,
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
    mp_work_piece_ends(&f->work);
    /* This thread allocates nothing there, and others would pay for the mark. */
    mp_work_own_ends(&f->work);
    rb_thread_call_without_gvl(encode, f, NULL, NULL);
    mp_work_own_begins(&f->work);
    check(f->error);
    mp_work_piece_begins(&f->work);
    VALUE bytes = rb_str_new((const char *)f->out.data, (long)f->out.len);
    rb_obj_freeze(bytes);
    /* Profile.new would run what the program may have made of String and Object. */
    VALUE profile = rb_obj_alloc(rb_const_get(memprofiler_module, rb_intern("Profile")));
    rb_ivar_set(profile, rb_intern("@pprof_data"), bytes);
    free_snapshot(f);
    mp_work_piece_ends(&f->work);
    f->collector->flush_gvl_ns = f->work.held_ns;
    f->collector->flush_piece_ns = f->work.longest_ns;
    f->collector->flushes++;
    return profile;
}

static void let_go(mp_work *work)
{
    flush *f = (flush *)work;
    if (f->snapshot) free_snapshot(f);
    mp_buffer_free(&f->out);
}

/* ---- before a collection, and before the end ------------------------------------------------- */

static VALUE name_body(VALUE arg)
{
    name((mp_work *)arg);
    return Qnil;
}

static VALUE stop_body(VALUE arg)
{
    mp_work *w = (mp_work *)arg;
    mp_run *run = w->run;
    name(w);
    mp_run_stop(run, measure(w));
    mp_work_own_ends(w); /* before a question that lets others in */
    if (!MP_HOOKS_ARE_GLOBAL || mp_hooks_one_ractor() > 0) {
        run->met = 0;
        mp_hooks_tidy();
    }
    return Qnil;
}

void mp_stop_in_pieces(mp_run *run)
{
    mp_work_through(run, stop_body);
}

/* ---- arguments ------------------------------------------------------------------------------- */

static unsigned label_bit(VALUE label)
{
    if (label == sym_class) return MP_LABEL_CLASS;
    if (label == sym_age) return MP_LABEL_AGE;
    if (label == sym_thread) return MP_LABEL_THREAD;
    if (label == sym_pid) return MP_LABEL_PID;
    VALUE kind = SYMBOL_P(label) ? rb_eArgError : rb_eTypeError;
    rb_raise(kind, "labels must be among :class, :age, :thread and :pid, not %" PRIsVALUE,
             rb_inspect(label));
}

static unsigned label_bits(VALUE labels)
{
    if (!RB_TYPE_P(labels, T_ARRAY)) {
        rb_raise(rb_eTypeError,
                 "labels must be an Array of :class, :age, :thread and :pid, not %" PRIsVALUE,
                 rb_obj_class(labels));
    }
    unsigned bits = 0;
    for (long i = 0; i < RARRAY_LEN(labels); i++) bits |= label_bit(RARRAY_AREF(labels, i));
    return bits;
}

int mp_boolean(const char *name, VALUE value)
{
    if (value == Qundef) return 0;
    if (value != Qtrue && value != Qfalse) {
        rb_raise(rb_eTypeError, "%s must be true or false, not %" PRIsVALUE, name,
                 rb_obj_class(value));
    }
    return RTEST(value);
}

/* ---------------------------------------------------------------------------------------------- */

static VALUE flush_now(VALUE self, unsigned labels, int collect, int heap, int alloc_first)
{
    mp_collector *collector = mp_collector_of(self);
    mp_require_main_ractor();
    if (!collector->run) rb_raise(mp_eNotStarted, "the collector was never started");

    /* Ruby takes all hooks off before it runs the last finalizers, and other tools do. */
    if (collector->run->armed) mp_hooks_check(collector->run);
    /* Before the thread is marked: finalizers that run now are the program's. */
    if (collect && collector->run->armed) {
        /* Threads that have ended are pinned until they are named: they must not look alive. */
        mp_work_through(collector->run, name_body);
        mp_full_gc();
    }
    VALUE keeper;
    flush *f = (flush *)mp_work_new(sizeof *f, &keeper);
    int alone = mp_hooks_one_ractor(); /* lets others in, who may have started anew */
    if (heap && alone > 0) f->heap_bytes = mp_heap_bytes();
    f->work.let_go = let_go;
    f->collector = collector;
    f->labels = labels;
    f->alloc_first = alloc_first;
    f->run = collector->run;
    note_alone(f->run, alone);
    VALUE profile = mp_work_do(&f->work, f->run, flush_body);
    RB_GC_GUARD(keeper);
    RB_GC_GUARD(self);
    return profile;
}

/*
 * The profile so far. Resets nothing: `alloc_*` counts from the start, and never falls; `inuse_*`
 * is as of the last completed collection.
 *
 * @overload flush(labels: [], gc: false, heap: false)
 *   @param labels [Array<Symbol>] labels to give the samples: `:class`, `:age` (collections
 *     survived, on `inuse_*` only), `:thread`, `:pid` (of this process, for where files of several
 *     are merged). What the program has set with {Memprofiler.with_labels} is always there.
 *   @param gc [Boolean] run a full collection first
 *   @param heap [Boolean] measure the whole heap, for a comment `heap_bytes` that tells how much of
 *     the bytes in use the profile knows of. Holds up the program for some 30 ms per million
 *     objects; nothing where there are other Ractors. Garbage counts, so best with `gc: true`.
 *   @return [Profile]
 *   @raise [NotStartedError] it was never started
 *   @raise [RactorError] outside the main Ractor
 *   @raise [ArgumentError, TypeError] naming what is allowed
 *   @raise [EncodeError] no memory
 */
VALUE mp_collector_flush(int argc, VALUE *argv, VALUE self)
{
    VALUE keywords, given[3];
    ID keys[3] = {SYM2ID(sym_labels), SYM2ID(sym_gc), SYM2ID(sym_heap)};
    rb_scan_args(argc, argv, "0:", &keywords);
    rb_get_kwargs(keywords, keys, 0, 3, given);
    unsigned labels = given[0] == Qundef ? 0 : label_bits(given[0]);
    int collect = mp_boolean("gc", given[1]);
    int heap = mp_boolean("heap", given[2]);
    return flush_now(self, labels, collect, heap, 0);
}

/*
 * As flush(labels: labels, gc: true, heap: true), but that the call allocates nothing.
 * @api private
 */
VALUE mp_collector_flush_block(VALUE self, VALUE labels)
{
    return flush_now(self, label_bits(labels), 1, 1, 0);
}

/*
 * As flush(gc: collect), but that readers show alloc_space first: what Go's /allocs has.
 * @api private
 */
VALUE mp_collector_flush_allocs(VALUE self, VALUE collect)
{
    return flush_now(self, 0, mp_boolean("gc", collect), 0, 1);
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
    sym_pid = ID2SYM(rb_intern("pid"));
    mp_init_comments();
}
