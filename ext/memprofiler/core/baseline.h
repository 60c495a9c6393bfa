/*
 * A baseline: what each named site of a recorder had counted at the moment of one snapshot, for a
 * later snapshot of the same recorder to subtract (mp_snapshot_since). A named site is never let go
 * of while the recorder lives, its number never means another one, and what was allocated never
 * falls: so an array by site number is all it takes.
 *
 * How far sampling may be off. What was allocated since is what the later samples brought, whose
 * variance is the later sum's less the earlier's: an object that grew from a to b adds b^2 - a^2,
 * which is at least the (b - a)^2 of what it grew by. What is in use changes both ways, and there
 * the variances of both sides count: of what was born since, and of what has gone. A sample that
 * stayed as it is cancels out, and is taken from the earlier sum. One that stayed but changed, in
 * size or weight, by w (b - a) at most in all: it counts on both sides, as a^2 + b^2 is no less than
 * (b - a)^2. (mp_recorder_changed tells which did.)
 *
 * Memory: its own, malloc(3); it holds nothing. Locks: none, it never changes once it is made.
 * Failure: NULL without memory.
 */
#ifndef MEMPROFILER_CORE_BASELINE_H
#define MEMPROFILER_CORE_BASELINE_H

#include <stddef.h>
#include <stdint.h>

#include "recorder.h"

/* Allocated since the start. */
typedef struct {
    uint64_t objects, bytes;
    double bytes_variance;
} mp_baseline_allocated;

typedef struct {
    uint64_t objects, bytes;
    double objects_variance, bytes_variance;
} mp_baseline_in_use;

typedef struct {
    uint32_t sites;  /* named sites 1..sites had counted something: later ones nothing */
    uint32_t moment; /* the recorder's count of snapshots; what changed since has this, or more */
    uint32_t completed; /* collections: samples born before were in use */
    mp_counts counts;
    mp_baseline_allocated *allocated; /* by site number - 1, as the next */
    mp_baseline_in_use *in_use;       /* NULL: not kept */
} mp_baseline;

/* All zero. */
mp_baseline *mp_baseline_new(uint32_t sites, int in_use);
void mp_baseline_free(mp_baseline *baseline); /* NULL is fine */
size_t mp_baseline_memsize(const mp_baseline *baseline);

/* Zeros for a site that there was not. */
static inline mp_baseline_allocated mp_baseline_allocated_at(const mp_baseline *baseline,
                                                             uint32_t site)
{
    if (site > baseline->sites) return (mp_baseline_allocated){0};
    return baseline->allocated[site - 1];
}

static inline mp_baseline_in_use mp_baseline_in_use_at(const mp_baseline *baseline, uint32_t site)
{
    if (site > baseline->sites) return (mp_baseline_in_use){0};
    return baseline->in_use[site - 1];
}

/* The living sample was in use at that moment, at this named site, of this size and weight. */
static inline int mp_baseline_has(const mp_baseline *baseline, const mp_live_entry *entry,
                                  uint32_t site)
{
    return entry->born < baseline->completed && entry->changed < baseline->moment &&
           site <= baseline->sites;
}

#endif
