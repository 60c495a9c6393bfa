/*
 * Sites: where, what and by whom something was allocated, with what has been allocated there.
 *
 * A raw site's key is made of numbers that are cheap in the hook: raw stack, class, thread and
 * label set. A named site's key has a named stack and strings instead; it survives the frames,
 * classes and threads it speaks of. Counters gather in raw sites and are folded into named ones.
 *
 * Memory, locks, failure: as records.h, whose tables these are.
 */
#ifndef MEMPROFILER_CORE_SITES_H
#define MEMPROFILER_CORE_SITES_H

#include "records.h"

#define MP_SITE_KEY_WORDS 4

typedef struct {
    mp_record record; /* a raw site's references: 1 while it can be hit again, 1 a live sample */
    /* The key. Labels: a raw site's are a set of label_sets.h, a named one's a set of the recorder's. */
    uint32_t stack, klass, thread, labels;
    uint32_t named;   /* raw: the named site it is folded into; 0 until the first fold */
    uint32_t retired; /* raw: can't be hit again, and has given up its own reference */
    uint64_t objects; /* estimated allocations: sum of weights */
    uint64_t bytes;   /* estimated bytes: sum of weight * largest size seen */
    double variance;  /* of `bytes`, as the sampling gives it */
} mp_site;

static inline mp_site *mp_site_at(const mp_records *sites, uint32_t id)
{
    return mp_records_at(sites, id);
}

#endif
