/*
 * Memprofiler::Baseline: what a collector had counted at one moment (core/baseline.h), for a later
 * flush of the same collector to leave out. Ruby can keep it, and hand it back.
 *
 * It belongs to one run. A forked child goes on with the run that it inherited, and so with the
 * baselines. It holds neither collector nor run.
 * Memory: the object's. Locks: none, it never changes; whoever reads it keeps the object alive.
 */
#ifndef MEMPROFILER_EARLIER_H
#define MEMPROFILER_EARLIER_H

#include "collector.h"
#include "core/baseline.h"

typedef struct {
    mp_baseline *counted;
    uint64_t collector; /* its number */
    uint64_t run;       /* the id that it had when it was started */
    uint64_t id;        /* and that it has, another one in each forked child */
    int64_t time_nanos;
    uint64_t unseen; /* as the run has it */
} mp_earlier;

void mp_init_baseline(VALUE memprofiler);
/* Takes over `counted` of *of; raises NoMemoryError, and takes nothing then. */
VALUE mp_earlier_wrap(const mp_earlier *of);
/* Raises TypeError for what is none, ArgumentError for one of another collector. NULL for nil. */
const mp_earlier *mp_earlier_of(VALUE baseline, const mp_collector *collector);
/* Of this run, or of the one that it goes on from after a fork. */
int mp_earlier_is_of(const mp_earlier *earlier, const mp_run *run);
/* All that is to be noted of a run when it is taken. */
mp_earlier mp_earlier_at(const mp_collector *collector, const mp_run *run, int64_t time_nanos);

#endif
