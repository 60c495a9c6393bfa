/*
 * Memprofiler.own { }: what the block allocates in this thread is the profiler's own, and stays out of
 * every profile. (In another Ractor it does no more than run it: the marks are the main one's.)
 *
 * Memory: a hidden Ruby object on the stack of the Fiber, since one that is dropped in the block runs
 * no ensure. Locks: GVL. Failure: NoMemoryError before the block began.
 */
#ifndef MEMPROFILER_OWN_BLOCK_H
#define MEMPROFILER_OWN_BLOCK_H

#include <ruby.h>

/* The same for C. What body raises goes through. */
VALUE mp_own_block(VALUE (*body)(VALUE), VALUE argument);

void mp_init_own_block(VALUE memprofiler);

#endif
