#include "hooks.h"

#include "deaths.h"
#include "labels.h"
#include "ractors.h"

/*
 * The line of a Ruby frame that JIT-compiled code entered: 3.3 and 3.4 report 0 for the innermost
 * one (its program counter is not saved), which the VM itself can still tell. C functions, which
 * have no line, are recognised once they are named.
 */
static void mend_top_line(const mp_run *run, int depth)
{
#if MP_RUBY == 303 || MP_RUBY == 304
    if (depth == 0 || run->lines[0] != 0) return;
    const mp_refs *frames = &run->recorder->frames;
    uint32_t id = mp_refs_find(frames, run->frames[0]);
    if (id == 0 || mp_refs_at(frames, id)->state != MP_REF_NAMED) return;
    if (mp_refs_at(frames, id)->flags & MP_FRAME_IS_C) return;
    run->lines[0] = rb_sourceline();
#else
    (void)run;
    (void)depth;
#endif
}

static uint32_t thread_number(mp_run *run)
{
    uintptr_t thread = rb_thread_current();
    if (thread != run->last_thread) {
        run->last_thread_id = mp_recorder_thread(run->recorder, thread);
        run->last_thread_foreign = !mp_in_main_ractor();
        if (run->last_thread_foreign) run->alone = 0;
        run->last_thread = thread;
    }
    return run->last_thread_id;
}

/* Samples between two pieces of a tidying: fewer things can become new in them than are looked at in one. */
#define TIDY_AFTER 128u

static int wants_job(const mp_run *run)
{
    const mp_recorder *recorder = run->recorder;
    if (mp_run_wants_names(run) || mp_recorder_has_new_items(recorder)) return 1;
    /* By the free hook thinning has to wait for the job; by mark bits, for the next marking. */
    if (recorder->wants_thinning && run->liveness == MP_LIVENESS_FREE) return 1;
    return mp_recorder_tidying(recorder) && recorder->counts.samples % TIDY_AFTER == 0;
}

static void sample(mp_run *run, VALUE obj)
{
    mp_recorder *recorder = run->recorder;
    uint32_t max_depth = recorder->options.max_depth;

    int depth = rb_profile_frames(0, (int)max_depth + 1, run->frames, run->lines);
    int truncated = depth > (int)max_depth;
    if (truncated) {
        depth = (int)max_depth;
        recorder->counts.truncated++;
    }
    mend_top_line(run, depth);

    VALUE klass = mp_class_of(obj);
    mp_allocation allocation = {
        .stack = mp_recorder_stack(recorder, run->frames, run->lines, (uint32_t)depth, truncated),
        .klass = klass ? mp_recorder_class(recorder, klass) : run->kinds[mp_kind_of(obj)],
        .thread = thread_number(run),
        .labels = mp_labels_here(),
        .address = obj,
        .size = mp_slot_size(obj),
        .foreign = run->last_thread_foreign,
        .class_later = klass == 0 && mp_class_may_come(obj),
    };
    mp_recorder_sample(recorder, &allocation);
    if (run->sieve) mp_sieve_add(run, obj);

    if (wants_job(run)) mp_hooks_call_job();
}

void mp_run_allocated(mp_run *run, VALUE obj)
{
    mp_run_lock(run);
    /* From 4.0 the run may have been stopped while this Ractor waited. */
    if (run->armed) {
        mp_run_check(run);
        sample(run, obj);
        mp_recorder_next_gap(run->recorder);
    }
    mp_run_unlock(run);
}
