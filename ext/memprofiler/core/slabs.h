/*
 * Items of one size, numbered from 1, in slabs that never move: a pointer to an item stays good
 * until the item is released, and growing copies nothing, so that a hook never waits for a large
 * realloc. A released number is handed out again.
 *
 * Memory: owned by the slabs; items are plain bytes, zeroed when handed out.
 * Locks: the caller's. A reader without the lock may use a copy of `dir` for items that cannot be
 * released meanwhile.
 * Failure: number 0 (out of memory, or `cap` items are in use).
 */
#ifndef MEMPROFILER_CORE_SLABS_H
#define MEMPROFILER_CORE_SLABS_H

#include <stddef.h>
#include <stdint.h>

#define MP_SLAB_SHIFT 8
#define MP_SLAB_ITEMS (1u << MP_SLAB_SHIFT)

typedef struct {
    char **dir;       /* slab i holds the items i * MP_SLAB_ITEMS + 1 and following */
    uint32_t dir_len; /* slabs there are */
    uint32_t dir_cap; /* slabs `dir` has room for */
    uint32_t size;    /* bytes of an item */
    uint32_t top;     /* the highest number ever handed out */
    uint32_t free;    /* head of the list of released items, linked through their first 4 bytes */
    uint32_t in_use;  /* items handed out and not released */
    uint32_t cap;     /* in_use never exceeds it */
} mp_slabs;

void mp_slabs_init(mp_slabs *slabs, size_t item_size, uint32_t cap);
void mp_slabs_destroy(mp_slabs *slabs);
uint32_t mp_slabs_new(mp_slabs *slabs);
void mp_slabs_release(mp_slabs *slabs, uint32_t id);
size_t mp_slabs_memsize(const mp_slabs *slabs);

static inline void *mp_slabs_in(char *const *dir, uint32_t size, uint32_t id)
{
    uint32_t at = id - 1;
    return dir[at >> MP_SLAB_SHIFT] + (size_t)(at & (MP_SLAB_ITEMS - 1)) * size;
}

/* `id` must be one that was handed out. */
static inline void *mp_slabs_at(const mp_slabs *slabs, uint32_t id)
{
    return mp_slabs_in(slabs->dir, slabs->size, id);
}

#endif
