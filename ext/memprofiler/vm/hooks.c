#include "hooks.h"

#include <stdio.h>

#include "../core/error.h"
#include "../core/platform.h"
#include "holds.h"
#include "own.h"
#include "ractors.h"
#include "turns.h"

/* The runs that hooks find theirs in, by the Fixnum in the hook's data. */
static mp_run *runs[MP_MAX_RUNS];
/* Places whose hooks could not be taken off where their run ended: 1 + what liveness they are for. */
static int stale[MP_MAX_RUNS];

#if MP_JOBS_HAVE_HANDLES
static rb_postponed_job_handle_t job_handle;
#endif
static int job_called;

static uint64_t idle_events; /* NEWOBJ events of places without a run */
static uint64_t own_events;  /* NEWOBJ events of own allocations, for mp_hooks_check */

/* ---- handlers -------------------------------------------------------------------------------- */

static inline mp_run *run_of(VALUE data)
{
    return runs[FIX2LONG(data)]; /* FIX2INT would be a function call */
}

MP_NOINLINE static int is_own(mp_run *run)
{
    if (!mp_own_event()) return 0;
    own_events++;
    run->recorder->counts.own_objects++;
    return 1;
}

/* The first lines are what every allocation pays. */
static void on_newobj(VALUE data, rb_trace_arg_t *arg)
{
    mp_run *run = run_of(data);
    if (MP_RARELY(run == NULL)) {
        idle_events++;
        return;
    }
    if (MP_RARELY(mp_own_marks != 0) && is_own(run)) return;
    /* From 4.0 too one at a time: the VM lock is held. */
    if (MP_LIKELY(--*run->countdown > 0)) return;
    mp_run_allocated(run, rb_tracearg_object(arg));
}

static void on_end_mark(VALUE data, rb_trace_arg_t *arg)
{
    (void)arg;
    mp_run *run = run_of(data);
    if (run) mp_run_marking_ended(run);
}

static void on_end_sweep(VALUE data, rb_trace_arg_t *arg)
{
    (void)arg;
    mp_run *run = run_of(data);
    if (run) mp_run_sweep_ended(run);
}

static void on_freeobj(VALUE data, rb_trace_arg_t *arg)
{
    mp_run *run = run_of(data);
    if (run) mp_run_freed(run, rb_tracearg_object(arg));
}

/* ---- on and off ------------------------------------------------------------------------------ */

typedef void (*raw_hook)(VALUE, rb_trace_arg_t *);

static void add(raw_hook hook, rb_event_flag_t event, int slot)
{
    rb_add_event_hook2(
        (rb_event_hook_func_t)(void (*)(void))hook, event, INT2FIX(slot),
        (rb_event_hook_flag_t)(RUBY_EVENT_HOOK_FLAG_SAFE | RUBY_EVENT_HOOK_FLAG_RAW_ARG));
}

static int take_off(raw_hook hook, int slot)
{
    return rb_remove_event_hook_with_data((rb_event_hook_func_t)(void (*)(void))hook,
                                          INT2FIX(slot));
}

/* Adding a hook allocates, and may collect: samples come last, when collections are heard of. */
static void add_all(mp_run *run)
{
    int slot = run->slot; /* it may lose that place on the way, with its collector */
    add(on_end_mark, RUBY_INTERNAL_EVENT_GC_END_MARK, slot);
    if (run->liveness == MP_LIVENESS_FREE) {
        add(on_end_sweep, RUBY_INTERNAL_EVENT_GC_END_SWEEP, slot);
        add(on_freeobj, RUBY_INTERNAL_EVENT_FREEOBJ, slot);
    }
    add(on_newobj, RUBY_INTERNAL_EVENT_NEWOBJ, slot);
}

static VALUE add_all_protected(VALUE run)
{
    add_all((mp_run *)run);
    return Qtrue;
}

/* False where that raised: NoMemoryError, as nothing else can. */
static int add_all_safely(mp_run *run)
{
    VALUE before = rb_errinfo();
    int error;
    rb_protect(add_all_protected, (VALUE)run, &error);
    if (error) rb_set_errinfo(rb_obj_is_kind_of(before, rb_eException) ? before : Qnil);
    return !error;
}

/* How many were found; 0 when this Ractor's list is not the one that has them. */
static int take_all_off(int slot)
{
    return take_off(on_newobj, slot) + take_off(on_end_mark, slot) + take_off(on_end_sweep, slot) +
           take_off(on_freeobj, slot);
}

/* Where this Ractor's list is the one: the main one's, outside a dfree. None may be found any more. */
static void empty(int slot)
{
    take_all_off(slot);
    stale[slot] = 0;
}

/* From 4.0 hooks that stayed on are as good as new ones, and may be all that is to be had. */
static int reusable(int slot, mp_liveness liveness)
{
    return MP_HOOKS_ARE_GLOBAL && stale[slot] == 1 + (int)liveness;
}

static int place_for(mp_liveness liveness)
{
    int free = -1;
    for (int slot = 0; slot < MP_MAX_RUNS; slot++) {
        if (reusable(slot, liveness)) return slot;
        if (free < 0 && !runs[slot] && !stale[slot]) free = slot;
    }
    return free;
}

int mp_hooks_running(void)
{
    int running = 0;
    for (int slot = 0; slot < MP_MAX_RUNS; slot++) running += runs[slot] != NULL;
    return running;
}

/* Allocations that any hook of ours has met. */
static uint64_t events(void)
{
    uint64_t sum = idle_events + own_events;
    for (int slot = 0; slot < MP_MAX_RUNS; slot++) {
        if (runs[slot]) sum += mp_recorder_allocations(runs[slot]->recorder);
    }
    return sum;
}

int mp_hooks_one_ractor(void)
{
    for (int i = 0; i < 3; i++) {
        mp_turns_check(); /* what waits to come in comes in here */
        uint64_t before = events();
        if (!mp_one_ractor()) return 0;
        if (events() == before) return 1;
    }
    return -1;
}

static VALUE allocate_one(VALUE klass)
{
    return rb_obj_alloc(klass);
}

/* False where there is no object, or no room for the mark that it's ours: that tells nothing. */
static int allocate_own(void)
{
    VALUE errinfo = rb_errinfo();
    int error;
    mp_own_begin();
    int marked = mp_own_event();
    rb_protect(allocate_one, rb_cObject, &error);
    mp_own_end();
    if (error) rb_set_errinfo(rb_obj_is_kind_of(errinfo, rb_eException) ? errinfo : Qnil);
    return marked && !error;
}

/* The collections that nobody saw are still to be noticed, by the next END_MARK or use of an address. */
static void arm_again(mp_run *run)
{
    int slot = run->slot;
    mp_hold *hold = mp_hold_begin(run);
    take_all_off(slot);
    if (add_all_safely(run)) run->recorder->counts.rearmed++; /* or the next look tries again */
    /* Its collector died of that: some hooks may have been put on since they were taken off. */
    if (runs[slot] != run) empty(slot);
    mp_hold_end(hold, run);
}

/* The look itself collects, where each allocation does: what it made them miss is no reason for the next. */
static void looked_at(mp_run *run, int lost)
{
    if (lost) {
        run->patience = MP_LOST_HOOKS_AT;
    } else if (run->lost_hooks >= run->patience && run->patience < MP_LOST_HOOKS_AT_MOST) {
        run->patience *= 2; /* that was why */
    }
    run->lost_hooks = 0;
}

void mp_hooks_check(void)
{
    mp_run *lost[MP_MAX_RUNS] = {NULL};
    uint64_t before[MP_MAX_RUNS] = {0};
    for (int slot = 0; slot < MP_MAX_RUNS; slot++) {
        if (runs[slot]) before[slot] = runs[slot]->recorder->counts.own_objects;
    }
    if (!mp_hooks_running() || !allocate_own()) return;
    /* All are found out before any is armed, which brings the VM's events back for all. */
    for (int slot = 0; slot < MP_MAX_RUNS; slot++) {
        mp_run *run = runs[slot];
        if (!run) continue;
        if (run->recorder->counts.own_objects == before[slot]) lost[slot] = run;
        looked_at(run, lost[slot] != NULL);
    }
    for (int slot = 0; slot < MP_MAX_RUNS; slot++) {
        /* Arming allocates: a collector may go meanwhile. */
        if (lost[slot] && lost[slot] == runs[slot]) arm_again(lost[slot]);
    }
}

void mp_hooks_check_before_change(void)
{
    if (!MP_HOOKS_ARE_GLOBAL) mp_hooks_check();
}

int mp_hooks_arm(mp_run *run)
{
    int slot = place_for(run->liveness);
    if (slot < 0) return MP_ELIMIT;
    run->slot = slot;
    run->armed = 1;
    run->met = MP_HOOKS_ARE_GLOBAL;
    run->gc_count = rb_gc_count();
    int on = stale[slot];
    stale[slot] = 0;
    runs[slot] = run;
    if (on) return MP_OK;
    if (add_all_safely(run)) {
        run->gc_count = rb_gc_count(); /* earlier ones had nothing to tell it */
        return MP_OK;
    }
    mp_hooks_disarm(run);
    return MP_ENOMEM;
}

void mp_hooks_tidy(void)
{
    int checked = 0;
    for (int slot = 0; slot < MP_MAX_RUNS; slot++) {
        if (!stale[slot]) continue;
        if (!checked) mp_hooks_check_before_change();
        checked = 1;
        empty(slot);
    }
}

int mp_hooks_full(mp_liveness liveness)
{
    return place_for(liveness) < 0;
}

/* True when it had a place. */
static int leave_place(mp_run *run, int take_hooks_off)
{
    int slot = run->slot;
    run->armed = 0;
    if (slot < 0) return 0;
    runs[slot] = NULL;
    run->slot = -1;
    if (!take_hooks_off || !take_all_off(slot)) stale[slot] = 1 + (int)run->liveness;
    return 1;
}

void mp_hooks_disarm(mp_run *run)
{
    leave_place(run, !MP_HOOKS_ARE_GLOBAL);
}

void mp_hooks_drop(mp_run *run)
{
    if (MP_HOOKS_ARE_GLOBAL) {
        leave_place(run, 0);
    } else if (leave_place(run, mp_hooks_running() == 1) && mp_hooks_running()) {
        mp_hooks_call_job();
    }
}

int mp_hooks_stop_all(const char *reason)
{
    int any = 0;
    for (int slot = 0; slot < MP_MAX_RUNS; slot++) {
        mp_run *run = runs[slot];
        if (!run) continue;
        any = 1;
        snprintf(run->stopped, sizeof run->stopped, "%s", reason);
        mp_run_stop(run, (mp_measured){0});
    }
    return any;
}

/* ---- the postponed job ----------------------------------------------------------------------- */

static void job(void *unused)
{
    (void)unused;
    job_called = 0;
    /* From 3.3 it runs where it was called from, which may be a Ractor beside the main one: that is
     * no place to touch the tables. The next sample, or flush, of the main one sees to it. */
    if (!mp_in_main_ractor()) return;
    mp_own_begin();
    if (!MP_HOOKS_ARE_GLOBAL) mp_hooks_tidy();
    for (int slot = 0; slot < MP_MAX_RUNS; slot++) {
        mp_run *run = runs[slot];
        if (!run) continue;
        mp_hold *hold = mp_hold_begin(run); /* settling allocates: its collector may go */
        mp_run_settle(run);
        mp_hold_end(hold, run);
    }
    mp_own_end();
}

void mp_hooks_call_job(void)
{
    if (job_called) return;
    job_called = 1;
#if MP_JOBS_HAVE_HANDLES
    rb_postponed_job_trigger(job_handle);
#else
    if (!rb_postponed_job_register_one(0, job, NULL)) job_called = 0;
#endif
}

/* ---- forks ----------------------------------------------------------------------------------- */

/*
 * In the child of a fork, before any Ruby code: of all threads only the forking one is left, and
 * what others were doing inside the profiler has ended for good.
 */
static void forked(void)
{
    /* A thread that is not Ruby's (a library's own) has no business in the table. */
    VALUE here = ruby_native_thread_p() ? rb_thread_current() : 0;
    mp_own_forked(here);
    job_called = 0;
    for (int slot = 0; slot < MP_MAX_RUNS; slot++) {
        mp_run *run = runs[slot];
        if (run) mp_run_forked(run, here);
    }
    mp_holds_forked(here);
    mp_ractors_forked();
}

void mp_hooks_init(void)
{
    pthread_atfork(NULL, NULL, forked);
#if MP_JOBS_HAVE_HANDLES
    job_handle = rb_postponed_job_preregister(0, job, NULL);
#endif
}
