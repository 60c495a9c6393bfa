#include "index.h"

#include <string.h>

#include "error.h"
#include "mem.h"

#define FIRST_SLOTS 64u

/* Stands for the array of an index that has none; never written, since `add` follows `reserve`. */
static mp_index_slot no_slots[1];

void mp_index_init(mp_index *index)
{
    index->slots = no_slots;
    index->mask = 0;
    index->used = 0;
}

void mp_index_destroy(mp_index *index)
{
    if (index->slots != no_slots) mp_free(index->slots);
    mp_index_init(index);
}

void mp_index_clear(mp_index *index)
{
    if (index->used == 0) return; /* empty already: clearing again and again must cost nothing */
    memset(index->slots, 0, ((size_t)index->mask + 1) * sizeof *index->slots);
    index->used = 0;
}

static void put(mp_index_slot *slots, uint32_t mask, uint32_t tag, uint32_t id)
{
    uint32_t at = tag & mask;
    while (slots[at].id) at = (at + 1) & mask;
    slots[at].tag = tag;
    slots[at].id = id;
}

int mp_index_grow(mp_index *index)
{
    size_t slots = index->slots == no_slots ? 0 : (size_t)index->mask + 1;
    size_t wanted = slots ? slots * 2 : FIRST_SLOTS;
    if (wanted > UINT32_MAX) return MP_ELIMIT;
    mp_index_slot *bigger = mp_calloc(wanted, sizeof *bigger);
    if (!bigger) return MP_ENOMEM;
    uint32_t mask = (uint32_t)(wanted - 1);
    for (size_t i = 0; i < slots; i++) {
        if (index->slots[i].id) put(bigger, mask, index->slots[i].tag, index->slots[i].id);
    }
    if (slots) mp_free(index->slots);
    index->slots = bigger;
    index->mask = mask;
    return MP_OK;
}

void mp_index_add(mp_index *index, uint32_t tag, uint32_t id)
{
    put(index->slots, index->mask, tag, id);
    index->used++;
}

void mp_index_remove(mp_index *index, uint32_t tag, uint32_t id)
{
    uint32_t mask = index->mask;
    uint32_t at = tag & mask;
    while (index->slots[at].id != id || index->slots[at].tag != tag) {
        if (index->slots[at].id == 0) return;
        at = (at + 1) & mask;
    }
    /* Close the gap: move back each follower that may stand there, so no tombstones are needed. */
    uint32_t gap = at;
    for (uint32_t next = (gap + 1) & mask; index->slots[next].id; next = (next + 1) & mask) {
        uint32_t home = index->slots[next].tag & mask;
        if (((next - home) & mask) >= ((next - gap) & mask)) {
            index->slots[gap] = index->slots[next];
            gap = next;
        }
    }
    index->slots[gap].id = 0;
    index->slots[gap].tag = 0;
    index->used--;
}

size_t mp_index_memsize(const mp_index *index)
{
    return index->slots == no_slots ? 0 : ((size_t)index->mask + 1) * sizeof *index->slots;
}
