/*
 * Event hooks. (Whose allocations they leave out: own.h.)
 *
 * A hook's data is a Fixnum, the run's place in a table: a VALUE would keep its object alive for
 * ever, and a pointer could outlive the run. Where a hook can't be taken off its place stays empty,
 * and the hook goes home at once, until mp_hooks_tidy could:
 *
 *   - up to 3.4 a dfree run by another Ractor looks in the wrong list, and one that runs beside other
 *     runs can't see whether the VM had lost their events (bug 19112), which taking a hook off brings
 *     back;
 *   - from 4.0 the VM frees hooks that other Ractors may be running, or leaves that to the next
 *     allocation of any Ractor, whose barrier can meet another one and wait for ever (seen with
 *     4.0.5): hooks are taken off only while there is one Ractor.
 *
 * Locks: GVL; mp_hooks_drop is legal in a dfree and in hooks. (On 3.1.4-3.2 another Ractor may run that in a
 * lazy sweep, beside the main one's job: from 3.3 a sweep waits for all.)
 * Failure: mp_hooks_arm says which.
 */
#ifndef MEMPROFILER_VM_HOOKS_H
#define MEMPROFILER_VM_HOOKS_H

#include "run.h"

#define MP_MAX_RUNS 64

void mp_hooks_init(void);
/* MP_OK; MP_ELIMIT: there is no place; MP_ENOMEM: Ruby could not put the hooks on. Before it comes
 * mp_hooks_check_before_change. */
int mp_hooks_arm(mp_run *run);
/* How many runs there are: each hook of one event comes for each of them. */
int mp_hooks_running(void);
/* There is no place for one more run. */
int mp_hooks_full(mp_liveness liveness);
/* Before it comes mp_hooks_check_before_change. */
void mp_hooks_disarm(mp_run *run);
/* The same of a run whose collector died. */
void mp_hooks_drop(mp_run *run);
/* Take off what could not be before. From 4.0: only while there is one Ractor. Allocates. */
void mp_hooks_tidy(void);
/* Stop every run there is, for this reason; true when there was one. */
int mp_hooks_stop_all(const char *reason);
/*
 * The VM may have lost our events (bug 19112): allocates one object of ours to see, and arms again the
 * runs that have not met it, which they count.
 */
void mp_hooks_check(void);
/*
 * Up to 3.4 the VM sets its events by the hooks there are whenever one is put on or taken off. What it
 * had lost comes back then for all runs, and those that missed something would never know. Nothing is
 * allocated between this and the change.
 */
void mp_hooks_check_before_change(void);

/*
 * 1: sure that there was no Ractor but the main one at its end; 0: there is one; negative: who knows,
 * as others allocate all the while. mp_one_ractor may be wrong when it returns, as `Ractor.count` lets
 * interrupts in after it has counted. But one that was begun since is an allocation, which a hook has
 * met; where no hook is on it's as sure as that nothing waited to come in. Lets interrupts in: may leave
 * by longjmp.
 */
int mp_hooks_one_ractor(void);

/* Have mp_run_settle called for all runs soon, outside any hook. Legal in every hook. */
void mp_hooks_call_job(void);

#endif
