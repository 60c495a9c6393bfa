/*
 * Collector#flush: the state of a run as a Profile, in three stages (snapshot.h), none of which
 * holds the GVL for long.
 */
#include <time.h>

#include "collector.h"

#include "comments.h"
#include "core/error.h"
#include "core/snapshot.h"
#include "earlier.h"
#include "vm/heap.h"
#include "vm/hooks.h"
#include "vm/turns.h"
#include "work.h"

/* Living samples dealt with between two looks at the clock. */
#define STEP 2048u
/* The same for new stacks and sites, which cost more: a stack may have hundreds of frames. */
#define FOLDS 256u
/* Names looked up between two looks at the clock. */
#define NAMES 128u

static VALUE sym_labels, sym_gc, sym_heap, sym_class, sym_age, sym_thread, sym_pid;
static VALUE sym_in_use, sym_allocs;
static VALUE memprofiler_module;

typedef struct {
    unsigned labels;
    int collect, heap, alloc_first;
    VALUE since; /* a baseline, or nil */
    int in_use_since;
    int only_baseline;     /* no profile is wanted */
    int keep, keep_in_use; /* the next baseline is, with what is in use */
} mp_flush_options;

typedef struct {
    mp_work work; /* comes first */
    mp_collector *collector;
    mp_run *run; /* work's */
    mp_flush_options options;
    const mp_earlier *since; /* of this run; NULL: all since the start */
    uint64_t heap_bytes;     /* 0: not asked for */
    int64_t time_nanos;
    mp_snapshot *snapshot;
    mp_comments comments;
    mp_buffer out;
    mp_earlier kept;
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
        more = mp_run_measure(run, &so_far, end, mp_turns_share(STEP));
        mp_run_unlock(run);
        offer_gvl_and_look(w);
    }
    return so_far;
}

static void prepare(flush *f)
{
    mp_recorder *recorder = f->run->recorder;
    mp_run_lock(f->run);
    int error =
        mp_snapshot_new(&f->snapshot, recorder, f->options.labels, (uintptr_t)rb_thread_current());
    mp_run_unlock(f->run);
    check(error);
    if (f->since) mp_snapshot_since(f->snapshot, f->since->counted, f->options.in_use_since);
    for (int done = 0; !done;) {
        mp_work_offer_gvl(&f->work);
        mp_run_lock(f->run);
        error = mp_snapshot_prepare(f->snapshot, mp_turns_share(FOLDS), &done);
        mp_run_unlock(f->run);
        check(error);
    }
}

static void name(mp_work *w)
{
    while (mp_run_name(w->run, MP_NAME_ALL_AND_JUMP, mp_turns_share(NAMES))) mp_work_offer_gvl(w);
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
    mp_comments_write(&f->comments, f->run, f->heap_bytes, f->since);
    f->kept = mp_earlier_at(f->collector, f->run, f->time_nanos);
}

static void copy(flush *f)
{
    for (int done = 0; !done;) {
        mp_work_offer_gvl(&f->work);
        mp_run_lock(f->run);
        mp_run_check(f->run);
        mp_snapshot_step(f->snapshot, mp_turns_share(STEP), &done);
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
        /* Of what was allocated all is known. */
        if (f->options.only_baseline && !f->options.keep_in_use) return;
        copy(f);
        if (!mp_snapshot_spoiled(f->snapshot)) return;
        free_snapshot(f);
    }
}

/* Nanoseconds, for a difference; the clock may have been set back. */
static int64_t duration(const flush *f)
{
    if (!f->since || f->time_nanos < f->since->time_nanos) return 0;
    return f->time_nanos - f->since->time_nanos;
}

static void *encode(void *arg)
{
    flush *f = arg;
    if (f->options.keep) {
        f->kept.counted = mp_snapshot_baseline(f->snapshot, f->options.keep_in_use);
        if (!f->kept.counted) f->error = MP_ENOMEM;
    }
    if (f->error || f->options.only_baseline) return NULL;
    mp_snapshot_header header = {
        .comments = f->comments.lines,
        .n_comments = f->comments.count,
        .time_nanos = f->time_nanos,
        .duration_nanos = duration(f),
        .alloc_first = f->options.alloc_first,
    };
    f->error = mp_snapshot_encode(f->snapshot, &header, &f->out);
    return NULL;
}

static void write_rest_of_comments(flush *f)
{
    if (f->since) {
        const char *of = f->options.in_use_since ? "two profiles" : "alloc_* only";
        mp_comments_write_difference(&f->comments, of, f->run, f->since, f->time_nanos,
                                     duration(f));
    }
    if (f->since && f->options.in_use_since) return; /* those that stayed cancel out */
    mp_comments_write_living(&f->comments, mp_snapshot_live_samples(f->snapshot),
                             mp_snapshot_live_objects(f->snapshot));
}

static VALUE profile_of(const flush *f)
{
    VALUE bytes = rb_obj_freeze(rb_str_new((const char *)f->out.data, (long)f->out.len));
    /* Profile.new would run what the program may have made of String and Object. */
    VALUE profile = rb_obj_alloc(rb_const_get(memprofiler_module, rb_intern("Profile")));
    rb_ivar_set(profile, rb_intern("@pprof_data"), bytes);
    return profile;
}

static VALUE baseline_of(flush *f)
{
    VALUE baseline = mp_earlier_wrap(&f->kept);
    f->kept.counted = NULL;
    return baseline;
}

static VALUE flush_body(VALUE arg)
{
    flush *f = (flush *)arg;
    take_snapshot(f);
    write_rest_of_comments(f);
    mp_work_piece_ends(&f->work);
    /* This thread allocates nothing there, and others would pay for the mark. */
    mp_work_own_ends(&f->work);
    mp_turns_without_gvl(encode, f);
    mp_work_own_begins(&f->work);
    check(f->error);
    mp_work_piece_begins(&f->work);
    VALUE result = f->options.only_baseline ? Qnil : profile_of(f);
    if (f->options.keep) {
        VALUE baseline = baseline_of(f);
        result = f->options.only_baseline ? baseline : rb_assoc_new(result, baseline);
    }
    size_t held = mp_snapshot_held(f->snapshot);
    free_snapshot(f);
    mp_work_piece_ends(&f->work);
    f->collector->flush_bytes = held;
    f->collector->flush_gvl_ns = f->work.held_ns;
    f->collector->flush_piece_ns = f->work.longest_ns;
    f->collector->flushes++;
    return result;
}

static void let_go(mp_work *work)
{
    flush *f = (flush *)work;
    if (f->snapshot) free_snapshot(f);
    mp_baseline_free(f->kept.counted);
    mp_buffer_free(&f->out);
}

/* ---- before a collection, and before the end ------------------------------------------------- */

static VALUE name_body(VALUE arg)
{
    name((mp_work *)arg);
    return Qnil;
}

/* What is there when it begins; most of the work is a new site's. */
static void fold(mp_work *w)
{
    uint32_t end = w->run->recorder->raw_sites.slabs.top;
    for (uint32_t at = 0; at < end; mp_work_offer_gvl(w)) {
        mp_run_lock(w->run);
        mp_recorder_fold_some(w->run->recorder, &at, mp_turns_share(FOLDS));
        mp_run_unlock(w->run);
    }
}

static VALUE stop_body(VALUE arg)
{
    mp_work *w = (mp_work *)arg;
    mp_run *run = w->run;
    name(w);
    fold(w);
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

static int looks_before;

void mp_look_before_flush(int whether)
{
    looks_before = whether;
}

static VALUE flush_now(VALUE self, const mp_flush_options *options)
{
    mp_collector *collector = mp_collector_of(self);
    mp_require_main_ractor();
    if (!collector->run) rb_raise(mp_eNotStarted, "the collector was never started");
    if (looks_before) rb_funcall(memprofiler_module, rb_intern("before_flush"), 0);
    const mp_earlier *since = mp_earlier_of(options->since, collector);

    /* Ruby takes all hooks off before it runs the last finalizers, and other tools do. */
    mp_hooks_check();
    /* Before the thread is marked: finalizers that run now are the program's. */
    if (options->collect && collector->run->armed) {
        /* Threads that have ended are pinned until they are named: they must not look alive. */
        mp_work_through(collector->run, name_body);
        mp_full_gc();
    }
    VALUE keeper;
    flush *f = (flush *)mp_work_new(sizeof *f, &keeper);
    int alone = mp_hooks_one_ractor(); /* lets others in, who may have started anew */
    if (options->heap && alone > 0) f->heap_bytes = mp_heap_bytes();
    f->work.let_go = let_go;
    f->collector = collector;
    f->options = *options;
    f->run = collector->run;
    if (since && mp_earlier_is_of(since, f->run)) f->since = since;
    note_alone(f->run, alone);
    VALUE result = mp_work_do(&f->work, f->run, flush_body);
    VALUE baseline = options->since;
    RB_GC_GUARD(baseline);
    RB_GC_GUARD(keeper);
    RB_GC_GUARD(self);
    return result;
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
    mp_flush_options options = {.since = Qnil};
    if (given[0] != Qundef) options.labels = label_bits(given[0]);
    options.collect = mp_boolean("gc", given[1]);
    options.heap = mp_boolean("heap", given[2]);
    return flush_now(self, &options);
}

/*
 * As flush(labels: labels, gc: true, heap: true), but that the call allocates nothing.
 * @api private
 */
VALUE mp_collector_flush_block(VALUE self, VALUE labels)
{
    mp_flush_options options = {
        .labels = label_bits(labels), .collect = 1, .heap = 1, .since = Qnil};
    return flush_now(self, &options);
}

/*
 * As flush(gc: collect), but that readers show alloc_space first: what Go's /allocs has.
 * @api private
 */
VALUE mp_collector_flush_allocs(VALUE self, VALUE collect)
{
    mp_flush_options options = {
        .collect = mp_boolean("gc", collect), .alloc_first = 1, .since = Qnil};
    return flush_now(self, &options);
}

/*
 * What was allocated since an earlier moment, and what is in use, or what that has changed by. No
 * Ruby object is made of it, and the GVL isn't held.
 *
 * @overload flush_since(baseline, labels: [], gc: false, in_use: false, allocs: false)
 *   @param baseline [Baseline, nil] the earlier moment. nil, or of another run of the collector: the
 *     run's start, so that the profile is flush's
 *   @param labels [Array<Symbol>] as flush has them, but that `:age`, which each collection changes, is
 *     left out
 *   @param gc [Boolean] run a full collection first
 *   @param in_use [Boolean] whether `inuse_*` is the change, be it negative; needs a baseline with it
 *   @param allocs [Boolean] whether readers show alloc_space first
 *   @return [Array(Profile, Baseline)] with the later one's time, and what lies between as
 *     `duration_nanos`; and that moment, with what is in use if this one was asked for it
 *   @raise [ArgumentError] the baseline is of another collector, or was taken without `in_use`
 *   @raise [TypeError, NotStartedError, RactorError, EncodeError] as flush
 * @api private
 */
VALUE mp_collector_flush_since(int argc, VALUE *argv, VALUE self)
{
    VALUE baseline, keywords, given[4];
    ID keys[4] = {SYM2ID(sym_labels), SYM2ID(sym_gc), SYM2ID(sym_in_use), SYM2ID(sym_allocs)};
    rb_scan_args(argc, argv, "1:", &baseline, &keywords);
    rb_get_kwargs(keywords, keys, 0, 4, given);
    mp_flush_options options = {.keep = 1, .since = baseline};
    if (given[0] != Qundef) options.labels = label_bits(given[0]) & ~(unsigned)MP_LABEL_AGE;
    options.collect = mp_boolean("gc", given[1]);
    options.in_use_since = options.keep_in_use = mp_boolean("in_use", given[2]);
    options.alloc_first = mp_boolean("allocs", given[3]);
    const mp_earlier *since = mp_earlier_of(baseline, mp_collector_of(self));
    if (since && options.in_use_since && !since->counted->in_use)
        rb_raise(rb_eArgError, "the baseline was taken without in_use: true");
    return flush_now(self, &options);
}

/*
 * The moment alone, as flush_since gives it. Its profile is never made.
 *
 * @overload baseline(gc: false, in_use: false)
 *   @param gc [Boolean] run a full collection first
 *   @param in_use [Boolean] keep what is in use as well
 *   @return [Baseline] 24 bytes for each site (stack, class, thread and labels), 56 with `in_use`
 *   @raise [TypeError, NotStartedError, RactorError, EncodeError] as flush
 * @api private
 */
VALUE mp_collector_baseline(int argc, VALUE *argv, VALUE self)
{
    VALUE keywords, given[2];
    ID keys[2] = {SYM2ID(sym_gc), SYM2ID(sym_in_use)};
    rb_scan_args(argc, argv, "0:", &keywords);
    rb_get_kwargs(keywords, keys, 0, 2, given);
    mp_flush_options options = {.keep = 1, .only_baseline = 1, .since = Qnil};
    options.collect = mp_boolean("gc", given[0]);
    options.keep_in_use = mp_boolean("in_use", given[1]);
    return flush_now(self, &options);
}

void mp_init_flush(VALUE memprofiler)
{
    memprofiler_module = memprofiler;
    sym_labels = ID2SYM(rb_intern("labels"));
    sym_gc = ID2SYM(rb_intern("gc"));
    sym_heap = ID2SYM(rb_intern("heap"));
    sym_in_use = ID2SYM(rb_intern("in_use"));
    sym_allocs = ID2SYM(rb_intern("allocs"));
    sym_class = ID2SYM(rb_intern("class"));
    sym_age = ID2SYM(rb_intern("age"));
    sym_thread = ID2SYM(rb_intern("thread"));
    sym_pid = ID2SYM(rb_intern("pid"));
    mp_init_comments();
    mp_init_baseline(memprofiler);
}
