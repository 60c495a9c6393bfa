/*
 * The stacks met last, as the VM gave them: most samples come from a stack that was just there, and
 * comparing two arrays is many times cheaper than looking up each frame's address.
 *
 * An entry holds for as long as no frame in it can have died or moved: its owner forgets all of
 * them when a collection has marked, and whenever a stack's number is given back.
 *
 * Memory: owned by it, malloc(3), at most 1.5 times MP_RECENT_STACKS of the deepest stack (12 bytes a
 * frame). Locks: the caller's. Failure: what can't be kept is not found.
 */
#ifndef MEMPROFILER_CORE_RECENT_H
#define MEMPROFILER_CORE_RECENT_H

#include <stddef.h>
#include <stdint.h>

#define MP_RECENT_STACKS 64u

typedef struct {
    uint32_t id;   /* 0: empty */
    uint32_t room; /* frames */
    uint32_t depth;
    int truncated;
    uintptr_t *frames; /* `room` of them, and behind them as many lines */
} mp_recent_stack;

typedef struct {
    mp_recent_stack at[MP_RECENT_STACKS];
} mp_recent;

void mp_recent_destroy(mp_recent *recent);
void mp_recent_forget(mp_recent *recent);
/* The number of this stack, or 0. */
uint32_t mp_recent_find(const mp_recent *recent, const uintptr_t *frames, const int *lines,
                        uint32_t depth, int truncated);
void mp_recent_keep(mp_recent *recent, uint32_t id, const uintptr_t *frames, const int *lines,
                    uint32_t depth, int truncated);
size_t mp_recent_memsize(const mp_recent *recent);

#endif
