/*
 * Event hooks, and whose allocations they leave out.
 *
 * A hook's data is a Fixnum, the run's place in a table: a VALUE would keep its object alive for
 * ever, and a pointer could outlive the run. Where a hook can't be taken off its place stays empty,
 * and the hook goes home at once, until mp_hooks_tidy could:
 *
 *   - up to 3.4 a dfree run by another Ractor looks in the wrong list;
 *   - from 4.0 the VM frees hooks that other Ractors may be running, or leaves that to the next
 *     allocation of any Ractor, whose barrier can meet another one and wait for ever (seen with
 *     4.0.5): hooks are taken off only while there is one Ractor.
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
/* There is no place for one more run. */
int mp_hooks_full(mp_liveness liveness);
void mp_hooks_disarm(mp_run *run);
/* Take off what could not be before. From 4.0: only while there is one Ractor. */
void mp_hooks_tidy(void);
/* Stop every run there is, for this reason; true when there was one. */
int mp_hooks_stop_all(const char *reason);
/* The VM may have lost our events (bug 19112): allocates one object of ours to see, and arms again. */
void mp_hooks_check(mp_run *run);

/* Have mp_run_settle called for all runs soon, outside any hook. Legal in every hook. */
void mp_hooks_call_job(void);

void mp_own_begin(void);
void mp_own_end(void);
/* For a thread that will not come by any more. Legal in a dfree. */
void mp_own_end_of(VALUE thread);

#endif
