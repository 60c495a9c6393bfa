#include "collector.h"

#include "vm/hooks.h"
#include "vm/labels.h"
#include "vm/own.h"

static void set(VALUE hash, const char *key, VALUE value)
{
    rb_hash_aset(hash, ID2SYM(rb_intern(key)), value);
}

static void set_number(VALUE hash, const char *key, uint64_t value)
{
    set(hash, key, ULL2NUM(value));
}

static void set_counts(VALUE hash, const mp_counts *counts)
{
    set_number(hash, "samples", counts->samples);
    set_number(hash, "dropped_samples", counts->dropped);
    set_number(hash, "untracked_samples", counts->untracked);
    set_number(hash, "thinned_samples", counts->thinned);
    set_number(hash, "truncated_stacks", counts->truncated);
    set_number(hash, "overflow_stacks", counts->overflow);
    set_number(hash, "lost_collections", counts->lost_collections);
    set_number(hash, "lost_samples", counts->lost_samples);
    set_number(hash, "reused_addresses", counts->reused);
    set_number(hash, "hooks_rearmed", counts->rearmed);
    set_number(hash, "own_objects", counts->own_objects);
}

static void set_tables(VALUE hash, const mp_run *run)
{
    const mp_recorder *recorder = run->recorder;
    set_number(hash, "live_samples", mp_live_count(&recorder->live));
    set_number(hash, "live_bytes", mp_live_memsize(&recorder->live));
    set_number(hash, "stacks", recorder->named_stacks.slabs.in_use);
    set_number(hash, "raw_stacks", recorder->raw_stacks.slabs.in_use);
    set_number(hash, "sites", recorder->named_sites.slabs.in_use);
    set_number(hash, "raw_sites", recorder->raw_sites.slabs.in_use);
    set_number(hash, "functions", recorder->functions.functions.slabs.in_use);
    set_number(hash, "locations", recorder->functions.locations.slabs.in_use);
    set_number(hash, "strings", mp_strings_count(&recorder->strings));
    set_number(hash, "frames", recorder->frames.slabs.in_use);
    set_number(hash, "classes", recorder->classes.slabs.in_use);
    set_number(hash, "threads", recorder->threads.slabs.in_use);
    set_number(hash, "kept_threads", mp_run_kept_threads(run));
    set_number(hash, "memory", mp_run_memsize(run));
    /* The process', whichever collector is asked. */
    set_number(hash, "label_sets", mp_labels_all()->sets.slabs.in_use);
    set_number(hash, "label_bytes", mp_labels_memsize(mp_labels_all()));
}

static VALUE stats(VALUE arg)
{
    const mp_collector *collector = (const mp_collector *)arg;
    mp_run *run = collector->run;
    const mp_recorder *recorder = run->recorder;
    mp_run_lock(run);
    mp_run_check(run);
    mp_run_unlock(run);
    VALUE hash = rb_hash_new();
    set(hash, "running", RBOOL(run->armed));
    set(hash, "liveness", ID2SYM(rb_intern(run->liveness == MP_LIVENESS_MARK ? "mark" : "free")));
    set_number(hash, "interval", recorder->options.interval);
    set_number(hash, "interval_in_force", recorder->options.interval);
    set_number(hash, "track_one_in", recorder->options.track_one_in);
    set_number(hash, "track_one_in_force",
               (uint64_t)recorder->options.track_one_in << recorder->doublings);
    set_number(hash, "collections", recorder->completed);
    set_number(hash, "allocations", mp_recorder_allocations(recorder));
    set_number(hash, "unseen_objects", mp_run_unseen(run));
    set_counts(hash, &recorder->counts);
    set_tables(hash, run);
    set_number(hash, "flushes", collector->flushes);
    set_number(hash, "flush_bytes", collector->flush_bytes);
    set_number(hash, "flush_gvl_ns", collector->flush_gvl_ns);
    set_number(hash, "flush_longest_piece_ns", collector->flush_piece_ns);
    return hash;
}

static VALUE stats_end(VALUE unused)
{
    (void)unused;
    mp_own_end();
    return Qnil;
}

/*
 * How the profiler itself is doing. docs/stats.md says what to look at, and what to do about it.
 *
 * @return [Hash{Symbol => Integer, Symbol, Boolean}] of the current run, or of the one that `stop`
 *   ended:
 *   - what was asked for, and is in force: `running`, `liveness` (`:mark` or `:free`), `interval`,
 *     `interval_in_force` (objects), `track_one_in`, `track_one_in_force` (samples)
 *   - seen, in objects: `allocations` (by the hook), `unseen_objects` (allocated, says the VM, but
 *     past the hook), `own_objects` (the profiler's, kept out); `collections` (whose dead are known)
 *   - in samples: `samples` (taken), `dropped_samples` (not counted), `untracked_samples` (counted,
 *     not followed: no memory), `thinned_samples` (given up at max_samples), `truncated_stacks`,
 *     `overflow_stacks` (in a row of what had no room), `lost_samples` (given up since a collection went unseen),
 *     `reused_addresses` (dead, which was seen late); in times: `lost_collections`, `hooks_rearmed`
 *   - what the tables hold, in items: `live_samples`, `stacks`, `raw_stacks`, `sites`, `raw_sites`,
 *     `functions`, `locations`, `strings`, `frames`, `classes`, `threads`, `kept_threads` (until a
 *     flush, which asks for their names; what these hold is not in `memory`); in bytes of the
 *     profiler's own: `live_bytes` (the table of living samples), `memory` (all of them); and what all
 *     collectors of the process share: `label_sets`, in bytes `label_bytes`
 *   - `flushes` (of this collector), and of the last one: `flush_bytes` (the most it held beside
 *     `memory`), and in nanoseconds `flush_gvl_ns`, `flush_longest_piece_ns` (the GVL held, in all
 *     and without a break)
 * @raise [NotStartedError] it was never started
 * @raise [RactorError] outside the main Ractor
 */
VALUE mp_collector_stats(VALUE self)
{
    mp_collector *collector = mp_collector_of(self);
    mp_require_main_ractor();
    if (!collector->run) rb_raise(mp_eNotStarted, "the collector was never started");
    mp_hooks_check();
    mp_own_begin();
    return rb_ensure(stats, (VALUE)collector, stats_end, Qnil);
}
