#include "deaths.h"

#include <string.h>

#include "../core/hash.h"
#include "../core/platform.h"
#include "gc_bits.h"
#include "hooks.h"

/* ---- lost collections ------------------------------------------------------------------------ */

static void lost(mp_run *run, size_t seen)
{
    mp_recorder_lost(run->recorder);
    run->doomed = 0;
    run->last_thread = 0;
    run->gc_count = run->lost_at = seen;
}

void mp_run_check(mp_run *run)
{
    size_t now = rb_gc_count();
    if (MP_LIKELY(now == run->gc_count) || !run->armed) return;
    int marking = mp_gc_is_marking();
    if (marking && now == run->gc_count + 1) return;
    lost(run, marking ? now - 1 : now);
}

/* ---- classes that come later ----------------------------------------------------------------- */

int mp_read_class(mp_run *run, uint32_t live, VALUE obj)
{
    mp_recorder *recorder = run->recorder;
    if (!(mp_live_at(&recorder->live, live)->flags & MP_LIVE_CLASS_LATER)) return 1;
    VALUE klass = mp_class_of(obj);
    uint32_t id = klass ? mp_recorder_class(recorder, klass) : 0;
    return mp_recorder_class_known(recorder, live, id);
}

/* ---- mark scan ------------------------------------------------------------------------------- */

/* A class that dies in this very collection can't be named any more. */
static int read_class_in_gc(mp_run *run, uint32_t live, VALUE obj)
{
    mp_recorder *recorder = run->recorder;
    if (!(mp_live_at(&recorder->live, live)->flags & MP_LIVE_CLASS_LATER)) return 1;
    VALUE klass = mp_class_of(obj);
    uint32_t id = klass ? mp_refs_find(&recorder->classes, klass) : 0;
    if (klass && !id && mp_gc_marked(klass)) id = mp_recorder_class(recorder, klass);
    return mp_recorder_class_known(recorder, live, id);
}

static void measure_in_gc(mp_recorder *recorder, uint32_t live, VALUE obj)
{
    size_t size = mp_measure(obj);
    if (size) mp_recorder_measured(recorder, live, size);
}

static void scan_live(mp_run *run)
{
    mp_recorder *recorder = run->recorder;
    mp_live *live = &recorder->live;
    int major = mp_gc_is_major();
    uint32_t id = 0;
    while ((id = major ? mp_live_next(live, id) : mp_live_next_unsettled(live, id)) != 0) {
        VALUE obj = (VALUE)mp_live_at(live, id)->address;
        if (!read_class_in_gc(run, id, obj)) continue;
        if (mp_gc_marked(obj)) {
            /* All Ractors are stopped: outside collections others may be writing to it. */
            if (!run->alone || mp_live_at(live, id)->flags & MP_LIVE_FOREIGN)
                measure_in_gc(recorder, id, obj);
            mp_live_settle(live, id, mp_gc_settled(obj));
        } else {
            measure_in_gc(recorder, id, obj);
            mp_recorder_died(recorder, id);
        }
    }
}

static void scan_refs(mp_refs *refs)
{
    for (uint32_t id = 0; (id = mp_refs_next(refs, id)) != 0;) {
        const mp_ref *ref = mp_refs_at(refs, id);
        if (ref->state == MP_REF_NAMED && !mp_gc_marked((VALUE)ref->address)) {
            mp_refs_die(refs, id);
        }
    }
}

static void scan_threads(mp_recorder *recorder)
{
    for (uint32_t id = 0; (id = mp_refs_next(&recorder->threads, id)) != 0;) {
        VALUE thread = (VALUE)mp_refs_at(&recorder->threads, id)->address;
        if (!mp_gc_marked(thread)) mp_recorder_thread_gone(recorder, id);
    }
}

/*
 * Free hook: who has to be freed now. Another tool's hook that allocates, or collects, may have a part
 * of the sweep, or all of it, to itself: neither FREEOBJ nor GC_END_SWEEP come to anybody then.
 */
static void doom(mp_run *run)
{
    mp_live *live = &run->recorder->live;
    int major = mp_gc_is_major();
    uint32_t id = 0;
    while ((id = major ? mp_live_next(live, id) : mp_live_next_unsettled(live, id)) != 0) {
        mp_live_entry *entry = mp_live_at(live, id);
        if (mp_gc_marked((VALUE)entry->address)) {
            mp_live_settle(live, id, mp_gc_settled((VALUE)entry->address));
        } else {
            entry->flags |= MP_LIVE_DOOMED;
            run->doomed++;
        }
    }
}

/* The sweep has ended: who should have been freed was, and we were not told. */
static void bury_doomed(mp_run *run)
{
    mp_recorder *recorder = run->recorder;
    if (run->doomed == 0) return;
    run->doomed = 0;
    for (uint32_t id = 0; (id = mp_live_next(&recorder->live, id)) != 0;) {
        if (!(mp_live_at(&recorder->live, id)->flags & MP_LIVE_DOOMED)) continue;
        recorder->counts.reused++;
        mp_recorder_died(recorder, id);
    }
}

void mp_run_marking_ended(mp_run *run)
{
    mp_recorder *recorder = run->recorder;
    /* Pending things hung on the holder, and will be swept with it. */
    if (MP_HAS_MARK_BITS && !mp_gc_marked(run->holder)) {
        run->orphaned = 1;
        mp_hooks_drop(run);
        return;
    }
    size_t now = rb_gc_count();
    /* Equal: the hook was put on while this collection's marking was under way. */
    if (now != run->gc_count && now != run->gc_count + 1) lost(run, now);
    run->gc_count = now;
    run->lost_hooks = 0;
    if (run->patience > MP_LOST_HOOKS_AT) run->patience--;
    run->last_thread = 0;
    mp_recorder_marked(recorder);
    mp_run_before_moves(run);
    if (run->liveness == MP_LIVENESS_FREE) bury_doomed(run);
    if (MP_HAS_MARK_BITS) {
        if (run->liveness == MP_LIVENESS_FREE) doom(run);
        if (run->liveness == MP_LIVENESS_MARK) scan_live(run);
        scan_refs(&recorder->frames);
        scan_refs(&recorder->classes);
        scan_threads(recorder);
    }
    if (run->liveness == MP_LIVENESS_MARK) {
        recorder->completed = recorder->collections;
        mp_run_thin(run);
        mp_recorder_relax(recorder);
    }
    if (recorder->classes.pending || mp_recorder_untidy(recorder) ||
        mp_live_sparse(&recorder->live))
        mp_hooks_call_job();
}

/* ---- free hook ------------------------------------------------------------------------------- */

static uint32_t sieve_bit(VALUE obj)
{
    return (uint32_t)(mp_hash_u64(obj) >> 40) & (MP_SIEVE_BITS - 1);
}

void mp_sieve_add(mp_run *run, VALUE obj)
{
    uint32_t bit = sieve_bit(obj);
    uint64_t mask = UINT64_C(1) << (bit & 63);
    if (run->sieve[bit >> 6] & mask) return;
    run->sieve[bit >> 6] |= mask;
    run->sieve_set++;
}

static void freed_ref(mp_refs *refs, VALUE obj)
{
    uint32_t id = mp_refs_find(refs, obj);
    if (id && mp_refs_at(refs, id)->state == MP_REF_NAMED) mp_refs_die(refs, id);
}

/* Its class may have been swept before it: only one that is known, and so not freed yet, counts. */
static int read_class_of_dying(mp_run *run, uint32_t live, VALUE obj)
{
    mp_recorder *recorder = run->recorder;
    if (!(mp_live_at(&recorder->live, live)->flags & MP_LIVE_CLASS_LATER)) return 1;
    VALUE klass = mp_class_of(obj);
    uint32_t id = klass ? mp_refs_find(&recorder->classes, klass) : 0;
    return mp_recorder_class_known(recorder, live, id);
}

void mp_run_freed(mp_run *run, VALUE obj)
{
    mp_recorder *recorder = run->recorder;
    switch (RB_BUILTIN_TYPE(obj)) {
    case T_IMEMO:
        freed_ref(&recorder->frames, obj);
        break;
    case T_CLASS:
    case T_MODULE:
    case T_ICLASS:
        freed_ref(&recorder->classes, obj);
        break;
    case T_DATA:
        freed_ref(&recorder->threads, obj);
        break;
    default:
        break;
    }
    uint32_t bit = sieve_bit(obj);
    if (!(run->sieve[bit >> 6] & (UINT64_C(1) << (bit & 63)))) return;
    uint32_t id = mp_live_find(&recorder->live, obj);
    if (!id || !read_class_of_dying(run, id, obj)) return;
    if (mp_live_at(&recorder->live, id)->flags & MP_LIVE_DOOMED && run->doomed) run->doomed--;
    size_t size = mp_measure_dying(obj);
    if (size) mp_recorder_measured(recorder, id, size);
    mp_recorder_died(recorder, id);
}

void mp_run_sweep_ended(mp_run *run)
{
    mp_recorder *recorder = run->recorder;
    bury_doomed(run);
    recorder->completed = recorder->collections;
    mp_recorder_relax(recorder);
    if (run->sieve_set < MP_SIEVE_BITS / 8) return;
    memset(run->sieve, 0, MP_SIEVE_BITS / 8);
    run->sieve_set = 0;
    for (uint32_t id = 0; (id = mp_live_next(&recorder->live, id)) != 0;) {
        mp_sieve_add(run, (VALUE)mp_live_at(&recorder->live, id)->address);
    }
}
