/*
 * Who still needs a run, and when it is freed. Its collector holds it from start to the next start;
 * whatever works on it holds it meanwhile, since a collection may take the collector.
 *
 * From 4.0 another Ractor's hook may have found a run in its place just before that was emptied, and
 * not have looked at it yet. Hooks have the VM lock, as has whoever sweeps, so a run that is let go
 * of elsewhere is buried until a collection has come by, which waits for all to be out of hooks.
 * Unless there was a moment with one Ractor since its place was emptied (`met` is 0). What is buried
 * counts towards the next collection, as other memory of the program's does.
 *
 * Memory: an mp_hold is malloc(3)'s, since a Fiber that is dropped in the middle of a flush takes its
 * stack along. Locks: GVL; all but mp_hold_begin is legal in a dfree.
 * Failure: without memory a hold is one that a forked child doesn't know of.
 */
#ifndef MEMPROFILER_VM_HOLDS_H
#define MEMPROFILER_VM_HOLDS_H

#include "run.h"

typedef struct mp_hold mp_hold;

/* NULL without memory: it holds all the same. */
mp_hold *mp_hold_begin(mp_run *run);
void mp_hold_end(mp_hold *hold, mp_run *run);
/* Numbers are never used again, as memory is; 0 for NULL. */
uint64_t mp_hold_number(const mp_hold *hold);
/* It has not ended: the same memory may be another one's by now. */
int mp_hold_is_known(const mp_hold *hold, uint64_t number);

/* The collector's. The last one to let go frees the run. */
void mp_run_release(mp_run *run);
/* Those that are buried and can't be met any more. */
void mp_runs_free_buried(void);
/* In a forked child, whose only thread is `here`: what other threads held is let go of. */
void mp_holds_forked(VALUE here);

#endif
