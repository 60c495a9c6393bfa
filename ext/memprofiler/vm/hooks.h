/*
 * Event hooks, and whose allocations they leave out.
 *
 * A hook's data is a Fixnum, the run's place in a table: a VALUE would keep its object alive for
 * ever, and a pointer could outlive the run. Where a hook can't be taken off (a dfree run by
 * another Ractor, up to 3.4, looks in the wrong list) its place stays empty until it could be.
 *
 * The profiler's own allocations are told by thread: what a thread allocates between
 * mp_own_begin and mp_own_end counts for no run. Nests.
 *
 * Locks: GVL. Failure: mp_hooks_arm says MP_ELIMIT when all places are taken.
 */
#ifndef MEMPROFILER_VM_HOOKS_H
#define MEMPROFILER_VM_HOOKS_H

#include "run.h"

#define MP_MAX_RUNS 64

void mp_hooks_init(void);
int mp_hooks_arm(mp_run *run);
/* All places are taken. */
int mp_hooks_full(void);
void mp_hooks_disarm(mp_run *run);
/* Stop every run there is, for this reason; true when there was one. */
int mp_hooks_stop_all(const char *reason);
/* The VM may have lost our events (bug 19112): allocates one object to see, and arms again. */
void mp_hooks_check(mp_run *run);

/* Have mp_run_settle called for all runs soon, outside any hook. Legal in every hook. */
void mp_hooks_call_job(void);

void mp_own_begin(void);
void mp_own_end(void);

#endif
