/*
 * upb's arenas over mem.h: memory that is given back all at once.
 *
 * Memory: owned by the arena. Locks: the caller's.
 * Failure: upb_Arena_Malloc and the generated functions return NULL (or false) when memory runs
 * out; what was taken is given back with the arena.
 */
#ifndef MEMPROFILER_CORE_ARENA_H
#define MEMPROFILER_CORE_ARENA_H

#include <stddef.h>

#include "proto.h"

/* NULL when out of memory; upb_Arena_Free gives it back. */
upb_Arena *mp_arena_new(void);

/*
 * An arena to be emptied many times, for one small message after another: it starts in a block
 * that is kept. Zeroed memory is a scratch that holds nothing.
 */
typedef struct {
    void *block;
    size_t size;
    upb_Arena *arena;
} mp_scratch;

int mp_scratch_init(mp_scratch *scratch, size_t size);
/* Everything in it is gone; the arena returned is good until the next call. NULL: out of memory. */
upb_Arena *mp_scratch_empty(mp_scratch *scratch);
void mp_scratch_free(mp_scratch *scratch);

#endif
