/*
 * Hash-consed records: one item for each distinct key of a few 32-bit words, with a count of
 * references and room for the caller's own fields behind the key. Functions, locations and sites
 * are such tables (functions.h, sites.h).
 *
 * An item begins with an mp_record, then the key words, then whatever the caller put in its struct.
 * Memory: owned by the table; items never move. Locks: the caller's.
 * Failure: 0, when memory or the cap ran out.
 */
#ifndef MEMPROFILER_CORE_RECORDS_H
#define MEMPROFILER_CORE_RECORDS_H

#include <stddef.h>
#include <stdint.h>

#include "index.h"
#include "slabs.h"

typedef struct {
    uint32_t tag;  /* first: a released item keeps the free list here */
    uint32_t refs; /* 0 in an item that is not in use */
} mp_record;

typedef struct {
    mp_slabs slabs;
    mp_index index;
    uint32_t key_words;
} mp_records;

/* `item_size` is that of the caller's struct: an mp_record, `key_words` words, other fields. */
void mp_records_init(mp_records *records, size_t item_size, uint32_t key_words, uint32_t cap);
void mp_records_destroy(mp_records *records);
/* The record of this key with one reference more; a new one has refs == 1 and zeroed fields. */
uint32_t mp_records_intern(mp_records *records, const uint32_t *key);
/* The record of this key, without a reference; 0 when there is none. */
uint32_t mp_records_find(const mp_records *records, const uint32_t *key);
/* True when this was the last reference, and the record is gone. */
int mp_records_release(mp_records *records, uint32_t id);
size_t mp_records_memsize(const mp_records *records);

static inline void *mp_records_at(const mp_records *records, uint32_t id)
{
    return mp_slabs_at(&records->slabs, id);
}

#endif
