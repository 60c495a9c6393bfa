/*
 * The live table: the sampled objects that are not known to be dead, by address. One entry a
 * sample, 32 bytes; with its slot in the address index at most 54 bytes at any size of the table.
 *
 * A sample in use was alive at the end of a collection: `born` is the number of collections seen
 * when it was allocated, so it is in use when `born` is below that number.
 *
 * Scans go by bitmaps, so that what is not there costs next to nothing: of all entries, and of those
 * that need a look in a minor collection, which are few (an entry is `settled` once such a collection
 * can't free it). After most have died the table is packed anew.
 *
 * Cursors: a flush copies the entries in pieces while the program goes on. What is removed before
 * a cursor came by is handed to the cursor first, so that each cursor sees the table as of its
 * start, however long it takes. (New entries may turn up; their `born` tells them.)
 *
 * Memory: owned by the table; entries never move, but in mp_live_pack. Locks: the caller's (GVL, or a running GC).
 * Failure: mp_live_insert returns 0 when memory or the cap ran out.
 */
#ifndef MEMPROFILER_CORE_LIVE_H
#define MEMPROFILER_CORE_LIVE_H

#include <stddef.h>
#include <stdint.h>

#include "index.h"
#include "slabs.h"

#define MP_LIVE_SIZE_MAX ((UINT64_C(1) << 40) - 1)

enum {
    MP_LIVE_USED = 1,        /* the slot holds a sample */
    MP_LIVE_SETTLED = 2,     /* a minor collection cannot free it */
    MP_LIVE_CLASS_LATER = 4, /* class not known at allocation: counters wait until it is */
    MP_LIVE_FROZEN = 8,      /* measured, and a frozen object: no need to measure again */
    MP_LIVE_FOREIGN = 16,    /* another Ractor's: only measured while all are stopped */
    MP_LIVE_PASSING = 32,    /* not tracked: here only until its class is known */
    MP_LIVE_DOOMED = 64,     /* unmarked: it's freed before its collection's sweep ends */
};

typedef struct {
    uint32_t site; /* first: a released item keeps the free list here */
    uint32_t born;
    uint64_t address;
    uint64_t size : 40;     /* bytes now, as last measured; saturates at 1 TB */
    uint64_t doublings : 8; /* times the weight was doubled by thinning */
    uint64_t flags : 16;
    uint64_t largest : 40; /* the largest size seen: what alloc_space has been told */
    uint64_t changed : 24; /* the moment after which size, weight or site last did: recorder.h */
} mp_live_entry;

typedef struct mp_live_cursor {
    struct mp_live_cursor *next;
    uint32_t at;  /* entries up to this number have been seen */
    uint32_t end; /* the highest number there was at the start */
    /* Called for an entry that goes before it was seen; must not touch the table. */
    void (*going)(struct mp_live_cursor *cursor, const mp_live_entry *entry);
} mp_live_cursor;

typedef struct {
    mp_slabs slabs;
    mp_index index;
    uint64_t *used;      /* a bit for each number */
    uint64_t *unsettled; /* the same: used and not settled */
    uint32_t bitmap_words;
    mp_live_cursor *cursors;
    uint64_t packs; /* times that all numbers changed */
} mp_live;

void mp_live_init(mp_live *live, uint32_t cap);
void mp_live_destroy(mp_live *live);

/* `address` must not be in the table: see mp_live_find. */
uint32_t mp_live_insert(mp_live *live, uint64_t address, uint32_t site, uint32_t born,
                        uint64_t size);
uint32_t mp_live_find(const mp_live *live, uint64_t address);
void mp_live_remove(mp_live *live, uint32_t id);
/* All at once, giving them to the cursors as mp_live_remove does. */
void mp_live_clear(mp_live *live);
void mp_live_settle(mp_live *live, uint32_t id, int settled);
/* The next unsettled entry after `id`, or 0. */
uint32_t mp_live_next_unsettled(const mp_live *live, uint32_t id);
/* The next entry after `id`, or 0. */
uint32_t mp_live_next(const mp_live *live, uint32_t id);

/* Four numbers for each entry, and memory worth the trouble; no cursor is open. */
int mp_live_sparse(const mp_live *live);
/* Gives the entries new numbers, from 1 on. Without memory for it all stays as it is. */
void mp_live_pack(mp_live *live);

/* Objects have moved: asks for each address' new one and rebuilds the index, without allocating. */
void mp_live_rekey(mp_live *live, uint64_t (*moved_to)(uint64_t address));
/* Forget all addresses, keep the entries: nothing can be found or moved any more. */
void mp_live_forget_addresses(mp_live *live);

void mp_live_cursor_open(mp_live *live, mp_live_cursor *cursor);
void mp_live_cursor_close(mp_live *live, mp_live_cursor *cursor);
/* The next entry the cursor has to see, or 0 at its end. */
uint32_t mp_live_cursor_next(const mp_live *live, mp_live_cursor *cursor);

size_t mp_live_memsize(const mp_live *live);

static inline mp_live_entry *mp_live_at(const mp_live *live, uint32_t id)
{
    return mp_slabs_at(&live->slabs, id);
}

static inline uint32_t mp_live_count(const mp_live *live)
{
    return live->slabs.in_use;
}

#endif
