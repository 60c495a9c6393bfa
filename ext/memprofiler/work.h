/*
 * What takes a while and lets others in: a flush, a stop. It holds its run, marks its thread as the
 * profiler's, and holds the GVL for a piece at a time.
 *
 * Memory: a hidden Ruby object has it. Mostly it ends as any block with an `ensure`; but a Fiber that
 * a trap handler left in the middle of it, and that is never resumed, is dropped with its stack and
 * runs no ensure: then the object's end is that of the work. (In a forked child what other threads
 * held is let go of by mp_holds_forked.)
 * Locks: GVL. Failure: NoMemoryError before anything began.
 */
#ifndef MEMPROFILER_WORK_H
#define MEMPROFILER_WORK_H

#include <sys/types.h>

#include "vm/holds.h"

typedef struct mp_work {
    mp_run *run; /* NULL when it has ended */
    /* Lets go of what stands beside it in memory. Legal in a dfree; NULL: of nothing. */
    void (*let_go)(struct mp_work *work);
    mp_hold *hold;
    uint64_t hold_number;
    VALUE thread;
    pid_t pid;
    int own;    /* the thread is marked as the profiler's */
    int paused; /* what else has marked it does not count */
    uint64_t since, held_ns, longest_ns;
    int waited; /* for long */
} mp_work;

/*
 * Zeroed memory of `size` bytes that begins with an mp_work and lives as long as *keeper does, which
 * has to stay on the stack (RB_GC_GUARD).
 */
mp_work *mp_work_new(size_t size, VALUE *keeper);
/* From here to the end of `body` it works on `run`. What body raises goes through. */
VALUE mp_work_do(mp_work *work, mp_run *run, VALUE (*body)(VALUE));
/* The same for what needs no more than an mp_work. */
void mp_work_through(mp_run *run, VALUE (*body)(VALUE));

/* The GVL is held from here to there. */
void mp_work_piece_begins(mp_work *work);
void mp_work_piece_ends(mp_work *work);
/* Others may have the GVL, if this piece was long enough: true if so. Interrupts come in. */
int mp_work_offer_gvl(mp_work *work);

/* What this thread allocates is the profiler's; the program's, though others have marked it. Doesn't nest. */
void mp_work_own_begins(mp_work *work);
void mp_work_own_ends(mp_work *work);

#endif
