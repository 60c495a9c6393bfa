#include "collector.h"

#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/error.h"
#include "core/mem.h"
#include "vm/heap.h"
#include "vm/holds.h"
#include "vm/hooks.h"
#include "vm/own.h"
#include "vm/ractors.h"

#define DEFAULT_INTERVAL 512
#define DEFAULT_MAX_DEPTH 512
#define DEFAULT_MAX_SAMPLES 200000

#define MAX_DEPTH_LIMIT 10000
#define MAX_SAMPLES_LIMIT 1000000000
#define TRACK_ONE_IN_LIMIT 1000000

static VALUE cCollector, memprofiler_module;
/* A Method, whatever the program makes of this name. */
static VALUE gc_start;
static VALUE sym_auto, sym_mark, sym_free;

/* ---- the object ------------------------------------------------------------------------------ */

static void collector_mark(void *ptr)
{
    mp_collector *collector = ptr;
    if (collector->run) mp_run_mark(collector->run);
}

static void collector_free(void *ptr)
{
    mp_collector *collector = ptr;
    if (collector->run) mp_run_drop(collector->run);
    mp_free(collector);
}

static size_t collector_size(const void *ptr)
{
    const mp_collector *collector = ptr;
    return sizeof *collector + (collector->run ? mp_run_memsize(collector->run) : 0);
}

static void collector_compact(void *ptr)
{
    mp_collector *collector = ptr;
    if (collector->run) mp_run_compact(collector->run);
}

/* No RUBY_TYPED_WB_PROTECTED: a promoted holder is not marked in minor collections. */
static const rb_data_type_t collector_type = {
    .wrap_struct_name = "Memprofiler::Collector",
    .function = {.dmark = collector_mark,
                 .dfree = collector_free,
                 .dsize = collector_size,
                 .dcompact = collector_compact},
    .flags = RUBY_TYPED_FREE_IMMEDIATELY,
};

mp_collector *mp_collector_of(VALUE self)
{
    return rb_check_typeddata(self, &collector_type);
}

uint64_t mp_clock_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static VALUE collect(VALUE unused)
{
    (void)unused;
    return rb_method_call(0, NULL, gc_start); /* rb_gc_start does nothing while GC is disabled */
}

static VALUE resume_own(VALUE thread)
{
    mp_own_resume_of(thread);
    return Qnil;
}

/* Finalizers run in it. */
void mp_full_gc(void)
{
    VALUE thread = rb_thread_current();
    if (mp_own_pause())
        rb_ensure(collect, Qnil, resume_own, thread);
    else
        collect(Qnil);
}

static VALUE collector_alloc(VALUE klass)
{
    mp_collector *collector = mp_calloc(1, sizeof *collector);
    if (!collector) rb_raise(rb_eNoMemError, "no memory for a collector");
    static uint64_t made;
    collector->number = ++made;
    return TypedData_Wrap_Struct(klass, &collector_type, collector);
}

/* ---- options --------------------------------------------------------------------------------- */

/* Whatever the program makes of Integer's methods. */
static int compare(VALUE integer, uint64_t bound)
{
    VALUE big = FIXNUM_P(integer) ? rb_int2big(FIX2LONG(integer)) : integer;
    return FIX2INT(rb_big_cmp(big, ULL2NUM(bound)));
}

static uint64_t integer_option(const char *name, VALUE value, uint64_t least, uint64_t most,
                               const char *also)
{
    if (!RB_INTEGER_TYPE_P(value)) {
        rb_raise(rb_eTypeError,
                 "%s must be an Integer from %" PRIu64 " to %" PRIu64 "%s, not %" PRIsVALUE, name,
                 least, most, also, rb_obj_class(value));
    }
    if (compare(value, least) < 0 || compare(value, most) > 0) {
        rb_raise(rb_eArgError,
                 "%s must be an Integer from %" PRIu64 " to %" PRIu64 "%s, not %" PRIsVALUE, name,
                 least, most, also, rb_inspect(value));
    }
    return NUM2ULL(value);
}

static mp_liveness liveness_option(VALUE value)
{
    const char *allowed = MP_HAS_MARK_BITS ? ":auto, :mark or :free" : ":auto or :free";
    if (!SYMBOL_P(value)) {
        rb_raise(rb_eTypeError, "liveness must be a Symbol, %s, not %" PRIsVALUE, allowed,
                 rb_obj_class(value));
    }
    if (value == sym_free) return MP_LIVENESS_FREE;
    if (value == sym_auto) return MP_HAS_MARK_BITS ? MP_LIVENESS_MARK : MP_LIVENESS_FREE;
    if (value == sym_mark && MP_HAS_MARK_BITS) return MP_LIVENESS_MARK;
    rb_raise(rb_eArgError, "liveness must be %s, not %" PRIsVALUE, allowed, rb_inspect(value));
}

void mp_require_main_ractor(void)
{
    if (!mp_in_main_ractor()) {
        rb_raise(mp_eRactor, "a collector can only be used in the main Ractor");
    }
}

/*
 * @overload initialize(interval: 512, max_depth: 512, max_samples: 200_000, track_one_in: 1,
 *                      liveness: :auto, seed: nil)
 *   @param interval [Integer] one object in how many is sampled, on average: 1..1,000,000,000.
 *     1 is exact: every object.
 *   @param max_depth [Integer] frames kept of a stack, the innermost: 1..10,000
 *   @param max_samples [Integer, nil] living samples to follow at most, 1..1,000,000,000; beyond,
 *     half of them are given up and the others count twice. nil: no cap, the default of interval 1.
 *   @param track_one_in [Integer] follow one in how many samples to its death: 1..1,000,000, and
 *     times the interval at most 1,000,000,000
 *   @param liveness [:auto, :mark, :free] how deaths are seen: by the mark bits at the end of each
 *     collection's marking, or by the VM's free event
 *   @param seed [Integer, nil] of the sampling, 0..2**64-1, for repeatable runs; nil: drawn
 *   @raise [ArgumentError, TypeError] naming the option and what is allowed
 *   @raise [RactorError] outside the main Ractor
 */
static VALUE collector_initialize(int argc, VALUE *argv, VALUE self)
{
    static ID keys[6];
    if (!keys[0]) {
        static const char *const names[6] = {"interval",     "max_depth", "max_samples",
                                             "track_one_in", "liveness",  "seed"};
        for (int i = 0; i < 6; i++) keys[i] = rb_intern(names[i]);
    }
    mp_collector *collector = mp_collector_of(self);
    VALUE keywords, given[6];
    rb_scan_args(argc, argv, "0:", &keywords);
    rb_get_kwargs(keywords, keys, 0, 6, given);
    mp_require_main_ractor();
    if (collector->run) rb_raise(rb_eTypeError, "already initialized");

    mp_options options = {DEFAULT_INTERVAL, 1, DEFAULT_MAX_SAMPLES, DEFAULT_MAX_DEPTH, 0};
    if (given[0] != Qundef) {
        options.interval = (uint32_t)integer_option("interval", given[0], 1, MP_INTERVAL_MAX, "");
    }
    if (given[1] != Qundef) {
        options.max_depth = (uint32_t)integer_option("max_depth", given[1], 1, MAX_DEPTH_LIMIT, "");
    }
    if (given[2] != Qundef) {
        options.max_samples = NIL_P(given[2])
                                  ? 0
                                  : (uint32_t)integer_option("max_samples", given[2], 1,
                                                             MAX_SAMPLES_LIMIT, ", or nil");
    } else if (options.interval == 1) {
        options.max_samples = 0;
    }
    if (given[3] != Qundef) {
        options.track_one_in =
            (uint32_t)integer_option("track_one_in", given[3], 1, TRACK_ONE_IN_LIMIT, "");
    }
    if ((uint64_t)options.interval * options.track_one_in > MP_INTERVAL_MAX) {
        rb_raise(rb_eArgError, "interval times track_one_in must be at most %" PRIu32,
                 MP_INTERVAL_MAX);
    }
    collector->liveness = liveness_option(given[4] == Qundef ? sym_auto : given[4]);
    collector->seeded = given[5] != Qundef && !NIL_P(given[5]);
    if (collector->seeded) {
        options.seed = integer_option("seed", given[5], 0, UINT64_MAX, ", or nil");
    }
    collector->options = options;
    return self;
}

/* @raise [TypeError] always: two collectors can't share a run */
static VALUE collector_no_copy(VALUE self, VALUE original)
{
    (void)original;
    rb_raise(rb_eTypeError, "a %" PRIsVALUE " can't be copied", rb_obj_class(self));
}

/* ---- start and stop -------------------------------------------------------------------------- */

/* Not from Ruby's generator: that would change what the program draws from it. */
static uint64_t random_seed(void)
{
    uint64_t seed;
    if (getentropy(&seed, sizeof seed) != 0) seed = mp_clock_ns() ^ (uint64_t)getpid() << 32;
    return seed;
}

static int running(const mp_collector *collector)
{
    return collector->run && collector->run->armed;
}

/* Lets interrupts in. */
static void tidy_hooks(void)
{
    if (!MP_HOOKS_ARE_GLOBAL || mp_hooks_one_ractor() > 0) mp_hooks_tidy();
}

/*
 * All that lets others in comes before a run is made. If a Ractor began meanwhile, all over again,
 * where that matters. Whether there is one only, as mp_hooks_one_ractor has it.
 */
static int get_ready(const mp_collector *collector)
{
    uint64_t begun;
    int alone;
    do {
        begun = mp_ractors_begun();
        mp_look_before_flush(RTEST(rb_funcall(memprofiler_module, rb_intern("before_start"), 0)));
        tidy_hooks();
        if (mp_hooks_full(
                collector->liveness)) { /* dropped collectors leave their places when they go */
            mp_full_gc();
            tidy_hooks();
        }
        alone = mp_hooks_one_ractor();
    } while (mp_ractors_begun() != begun);
    return alone;
}

NORETURN(static void refuse_running(void));
static void refuse_running(void)
{
    rb_raise(mp_eAlreadyStarted, "the collector is running already");
}

/* Zero where it can't be measured. */
static uint64_t heap_before(int argc, VALUE *argv)
{
    static ID key;
    VALUE keywords, heap;
    if (!key) key = rb_intern("heap");
    rb_scan_args(argc, argv, "0:", &keywords);
    rb_get_kwargs(keywords, &key, 0, 1, &heap);
    return mp_boolean("heap", heap) && mp_hooks_one_ractor() > 0 ? mp_heap_bytes() : 0;
}

/*
 * Begin a new profile: what an earlier run gathered is forgotten.
 * @overload start(heap: false)
 *   @param heap [Boolean] measure the whole heap first, so that after `flush(heap: true)` the report
 *     can tell what came since from what was there before. Holds up the program for some 30 ms per
 *     million objects; nothing where there are other Ractors.
 * @return [self]
 * @raise [TypeError] naming what is allowed
 * @raise [AlreadyStartedError] it is running
 * @raise [RactorError] outside the main Ractor
 * @raise [Error] no memory; 64 collectors run already; this Ruby can't be profiled, or not while there
 *   are Ractors (see the README's limits)
 */
static VALUE collector_start(int argc, VALUE *argv, VALUE self)
{
    mp_collector *collector = mp_collector_of(self);
    mp_require_main_ractor();
    uint64_t heap = heap_before(argc, argv);
    if (running(collector)) refuse_running();
    if (!collector->options.interval) rb_raise(rb_eTypeError, "uninitialized collector");
    int alone = get_ready(collector);
    /* Nothing lets others in any more. */
    if (running(collector)) refuse_running(); /* another thread was quicker */

    if (!collector->seeded) collector->options.seed = random_seed();
    mp_run *run = mp_run_new(&collector->options, collector->liveness);
    if (!run) rb_raise(mp_eError, "no memory to start a collector");
    run->heap_before = heap;
    run->alone = alone != 0;
    mp_run *earlier = collector->run;
    collector->run = run;
    int error = mp_run_start(run, self);
    if (error) {
        collector->run = earlier;
        mp_run_release(run);
        if (error == MP_ENOMEM) rb_raise(mp_eError, "no memory to start a collector");
        rb_raise(mp_eError, "%d collectors are running already, and more can't", MP_MAX_RUNS);
    }
    if (earlier) mp_run_drop(earlier);
    return self;
}

/*
 * End the run; its last state stays to be flushed. Nothing when it is not running.
 * @return [self]
 * @raise [RactorError] outside the main Ractor
 */
static VALUE collector_stop(VALUE self)
{
    mp_collector *collector = mp_collector_of(self);
    mp_require_main_ractor();
    int alone = mp_hooks_one_ractor(); /* lets others in, who may have started anew */
    if (running(collector)) {
        mp_hooks_check(); /* if they are lost, the profile has to say so */
        if (alone >= 0) collector->run->alone = alone;
        mp_stop_in_pieces(collector->run);
    }
    return self;
}

/*
 * @return [Boolean]
 * @raise [RactorError] outside the main Ractor
 */
static VALUE collector_running_p(VALUE self)
{
    mp_require_main_ractor();
    return RBOOL(running(mp_collector_of(self)));
}

/*
 * Allocations that the hook has met. Asks nothing and arms nothing.
 * @return [Integer]
 * @api private
 */
static VALUE collector_allocations(VALUE self)
{
    const mp_collector *collector = mp_collector_of(self);
    return collector->run ? ULL2NUM(mp_recorder_allocations(collector->run->recorder)) : INT2FIX(0);
}

void mp_init_collector(VALUE memprofiler)
{
    sym_auto = ID2SYM(rb_intern("auto"));
    sym_mark = ID2SYM(rb_intern("mark"));
    sym_free = ID2SYM(rb_intern("free"));

    memprofiler_module = memprofiler;
    gc_start = rb_obj_method(rb_mGC, ID2SYM(rb_intern("start")));
    rb_gc_register_mark_object(gc_start);
    cCollector = rb_define_class_under(memprofiler, "Collector", rb_cObject);
    rb_gc_register_mark_object(cCollector);
    rb_define_alloc_func(cCollector, collector_alloc);
    rb_define_method(cCollector, "initialize_copy", collector_no_copy, 1);
    rb_define_method(cCollector, "initialize", collector_initialize, -1);
    rb_define_method(cCollector, "start", collector_start, -1);
    rb_define_method(cCollector, "stop", collector_stop, 0);
    rb_define_method(cCollector, "running?", collector_running_p, 0);
    rb_define_method(cCollector, "flush", mp_collector_flush, -1);
    rb_define_private_method(cCollector, "allocations", collector_allocations, 0);
    rb_define_private_method(cCollector, "flush_block", mp_collector_flush_block, 1);
    rb_define_private_method(cCollector, "flush_allocs", mp_collector_flush_allocs, 1);
    rb_define_private_method(cCollector, "flush_since", mp_collector_flush_since, -1);
    rb_define_private_method(cCollector, "baseline", mp_collector_baseline, -1);
    rb_define_method(cCollector, "stats", mp_collector_stats, 0);
}
