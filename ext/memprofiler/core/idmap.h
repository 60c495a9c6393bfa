/*
 * From the ids of a pprof file, any 64-bit numbers, to the numbers 0, 1, 2... of what bears them,
 * in the order in which they were added. The usual ids, 1, 2, 3..., cost no memory.
 *
 * Memory: owned by the map; zeroed memory is an empty map. Locks: the caller's.
 */
#ifndef MEMPROFILER_CORE_IDMAP_H
#define MEMPROFILER_CORE_IDMAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "index.h"

typedef struct {
    uint32_t count;
    bool sparse;   /* the rest is used only then */
    uint64_t *ids; /* by number */
    size_t cap;
    uint64_t seed;
    mp_index index; /* to number + 1 */
} mp_idmap;

/* Gives `id` the number `count`. MP_EFORMAT: it has one; MP_ENOMEM; MP_ELIMIT: 2^31 ids. */
int mp_idmap_add(mp_idmap *map, uint64_t id);
bool mp_idmap_find(const mp_idmap *map, uint64_t id, uint32_t *number);
void mp_idmap_free(mp_idmap *map);

#endif
