/*
 * All that lives, counted whole: what an estimate of bytes in use is held against. Walks every slot,
 * some 30 ns each, with the GVL held.
 *
 * Sizes are those of mp_measure. What other Ractors have may not be measured: the caller sees to it
 * that there are none. Garbage that no collection has found yet counts; what is under way of one is
 * ended first. Allocates no object. Locks: GVL, outside hooks. Failure: 0 where this Ruby can't; may
 * raise NoMemoryError.
 */
#ifndef MEMPROFILER_VM_HEAP_H
#define MEMPROFILER_VM_HEAP_H

#include <stdint.h>

uint64_t mp_heap_bytes(void);

#endif
