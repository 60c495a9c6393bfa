/*
 * The two ways to see a death, and the watch that tells when neither did.
 *
 *   mark scan  at GC_END_MARK ask for the mark bit of each sample (deaths.c, the default)
 *   free hook  at FREEOBJ look the address up (sieve first)
 *
 * Both are chosen by mp_run.liveness and entered through run.h.
 */
#ifndef MEMPROFILER_VM_DEATHS_H
#define MEMPROFILER_VM_DEATHS_H

#include "run.h"

void mp_sieve_add(mp_run *run, VALUE obj);
/*
 * Read the class of a sample that was allocated without one; the object must be complete. False when
 * it was kept for nothing else, and is gone.
 */
int mp_read_class(mp_run *run, uint32_t live, VALUE obj);

#endif
