/*
 * The hash table under every table of core/: from a hash to the number of an item that the caller
 * keeps elsewhere. Open addressing with linear probing; a slot holds 32 bits of the hash, so that
 * most mismatches cost no look at the item, and growing or removing needs no item at all.
 *
 * Memory: one array, owned by the index. Locks: the caller's.
 * Failure: only mp_index_reserve allocates, and says MP_ENOMEM; a full index still finds.
 */
#ifndef MEMPROFILER_CORE_INDEX_H
#define MEMPROFILER_CORE_INDEX_H

#include <stddef.h>
#include <stdint.h>

typedef struct {
    uint32_t tag; /* the upper half of the hash */
    uint32_t id;  /* 0 marks an empty slot */
} mp_index_slot;

typedef struct {
    mp_index_slot *slots; /* never NULL: an index without memory points to one shared empty slot */
    uint32_t mask;        /* slots - 1, a power of two less one */
    uint32_t used;
} mp_index;

void mp_index_init(mp_index *index);
void mp_index_destroy(mp_index *index);
/* Empty it, keeping its memory. */
void mp_index_clear(mp_index *index);
/* Make room for one more: to be called, with success, before each mp_index_add. */
static inline int mp_index_reserve(mp_index *index);
void mp_index_add(mp_index *index, uint32_t tag, uint32_t id);
/* Removes the slot of this tag and id; nothing when it is not there. */
void mp_index_remove(mp_index *index, uint32_t tag, uint32_t id);
size_t mp_index_memsize(const mp_index *index);
int mp_index_grow(mp_index *index);

static inline int mp_index_reserve(mp_index *index)
{
    /* At most three quarters full; without memory (mask 0) never. */
    if (index->used < index->mask - index->mask / 4) return 0;
    return mp_index_grow(index);
}

static inline uint32_t mp_index_tag(uint64_t hash)
{
    return (uint32_t)(hash >> 32);
}

/*
 * Walk the ids whose tag matches:
 *   for (uint32_t at = tag, id; (id = mp_index_next(index, tag, &at)) != 0;) if (same(id)) ...
 */
static inline uint32_t mp_index_next(const mp_index *index, uint32_t tag, uint32_t *at)
{
    for (;;) {
        const mp_index_slot *slot = &index->slots[*at & index->mask];
        if (slot->id == 0) return 0;
        ++*at;
        if (slot->tag == tag) return slot->id;
    }
}

#endif
