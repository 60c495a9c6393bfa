/*
 * Whose allocations the profiler leaves out: its own. They are told by thread: what a thread
 * allocates between mp_own_begin and mp_own_end counts for no run. Nests.
 *
 * A call that may let others in (a trap handler, say, which may even switch Fibers and not come back)
 * is the profiler's for a few objects only: see mp_own_limit. What begins in there is a mark of its own.
 *
 * Memory: a fixed table, of 192 marks and 64 pauses. A thread that finds no room shows its objects: no harm.
 * Locks: GVL of the main Ractor. Failure: none.
 */
#ifndef MEMPROFILER_VM_OWN_H
#define MEMPROFILER_VM_OWN_H

#include "compat.h"

/* How many marks there are: the hook's quick question. */
extern int mp_own_marks;

void mp_own_begin(void);
void mp_own_end(void);
/* For a thread that will not come by any more, but may have left in a limited call. Legal in a dfree. */
void mp_own_end_of(VALUE thread);

/*
 * What runs in this thread until mp_own_resume_of is the program's, whoever has marked it: a finalizer, a
 * trap handler, another Fiber. False, and nothing to resume, if the thread isn't marked.
 */
int mp_own_pause(void);
/* Legal in a dfree. */
void mp_own_resume_of(VALUE thread);

/* Of this thread's next allocations so many events are the profiler's; negative: all, as before. */
void mp_own_limit(int events);

/* This thread's allocation is the profiler's: one event less that is. Legal in a hook. */
int mp_own_event(void);

/* In a forked child, whose only thread is `here`: what others were doing has ended for good. */
void mp_own_forked(VALUE here);

#endif
