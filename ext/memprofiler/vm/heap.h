/*
 * All that lives, counted whole: what an estimate of bytes in use is held against. Walks every slot,
 * some 30 ns each, with the GVL held.
 *
 * Sizes are those of mp_measure. What other Ractors have may not be measured: the caller sees to it
 * that there are none. Garbage that is not swept yet counts; right after a full collection there is
 * none. Allocates nothing. Locks: GVL, outside hooks. Failure: 0 where this Ruby can't.
 */
#ifndef MEMPROFILER_VM_HEAP_H
#define MEMPROFILER_VM_HEAP_H

#include <stdint.h>

uint64_t mp_heap_bytes(void);

#endif
