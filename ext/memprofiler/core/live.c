#include "live.h"

#include <string.h>

#include "error.h"
#include "hash.h"
#include "mem.h"
#include "platform.h"

void mp_live_init(mp_live *live, uint32_t cap)
{
    memset(live, 0, sizeof *live);
    mp_slabs_init(&live->slabs, sizeof(mp_live_entry), cap);
    mp_index_init(&live->index);
}

void mp_live_destroy(mp_live *live)
{
    mp_slabs_destroy(&live->slabs);
    mp_index_destroy(&live->index);
    mp_free(live->used);
    mp_free(live->unsettled);
    live->used = live->unsettled = NULL;
    live->bitmap_words = 0;
}

static uint32_t tag_of(uint64_t address)
{
    return mp_index_tag(mp_hash_u64(address));
}

static int widen(uint64_t **bitmap, uint32_t words, uint32_t wanted)
{
    uint64_t *bits = mp_realloc(*bitmap, wanted * sizeof *bits);
    if (!bits) return MP_ENOMEM;
    memset(bits + words, 0, (wanted - words) * sizeof *bits);
    *bitmap = bits;
    return MP_OK;
}

static int reserve_bits(mp_live *live, uint32_t id)
{
    uint32_t words = live->bitmap_words;
    if (id / 64 < words) return MP_OK;
    uint32_t wanted = words ? words * 2 : 64;
    if (widen(&live->used, words, wanted) != MP_OK ||
        widen(&live->unsettled, words, wanted) != MP_OK)
        return MP_ENOMEM;
    live->bitmap_words = wanted;
    return MP_OK;
}

static void set_bit(uint64_t *bitmap, uint32_t id, int on)
{
    uint64_t bit = UINT64_C(1) << (id % 64);
    if (on)
        bitmap[id / 64] |= bit;
    else
        bitmap[id / 64] &= ~bit;
}

static uint32_t next_bit(const uint64_t *bitmap, uint32_t words, uint32_t id)
{
    id++;
    uint32_t word = id / 64;
    if (word >= words) return 0;
    uint64_t bits = bitmap[word] & (~UINT64_C(0) << (id % 64));
    while (!bits) {
        if (++word >= words) return 0;
        bits = bitmap[word];
    }
    return word * 64 + mp_lowest_bit(bits);
}

static uint32_t new_entry(mp_live *live)
{
    if (mp_index_reserve(&live->index) != MP_OK) return 0;
    uint32_t id = mp_slabs_new(&live->slabs);
    if (!id) return 0;
    if (reserve_bits(live, id) != MP_OK) {
        mp_slabs_release(&live->slabs, id);
        return 0;
    }
    set_bit(live->used, id, 1);
    return id;
}

uint32_t mp_live_insert(mp_live *live, uint64_t address, uint32_t site, uint32_t born,
                        uint64_t size)
{
    uint32_t id = new_entry(live);
    if (!id) return 0;
    mp_live_entry *entry = mp_live_at(live, id);
    if (size > MP_LIVE_SIZE_MAX) size = MP_LIVE_SIZE_MAX;
    entry->site = site;
    entry->born = born;
    entry->address = address;
    entry->size = size & MP_LIVE_SIZE_MAX;
    entry->largest = size & MP_LIVE_SIZE_MAX;
    entry->flags = MP_LIVE_USED;
    set_bit(live->unsettled, id, 1);
    mp_index_add(&live->index, tag_of(address), id);
    return id;
}

uint32_t mp_live_find(const mp_live *live, uint64_t address)
{
    uint32_t tag = tag_of(address);
    for (uint32_t pos = tag, id; (id = mp_index_next(&live->index, tag, &pos)) != 0;) {
        if (mp_live_at(live, id)->address == address) return id;
    }
    return 0;
}

static void tell_cursors(mp_live *live, uint32_t id)
{
    for (mp_live_cursor *cursor = live->cursors; cursor; cursor = cursor->next) {
        if (id > cursor->at && id <= cursor->end) cursor->going(cursor, mp_live_at(live, id));
    }
}

static void drop(mp_live *live, uint32_t id)
{
    mp_live_entry *entry = mp_live_at(live, id);
    tell_cursors(live, id);
    entry->flags = 0;
    set_bit(live->used, id, 0);
    set_bit(live->unsettled, id, 0);
    mp_slabs_release(&live->slabs, id);
}

void mp_live_remove(mp_live *live, uint32_t id)
{
    mp_index_remove(&live->index, tag_of(mp_live_at(live, id)->address), id);
    drop(live, id);
}

void mp_live_clear(mp_live *live)
{
    for (uint32_t id = 0; (id = mp_live_next(live, id)) != 0;) drop(live, id);
    mp_index_clear(&live->index);
    if (!live->cursors) mp_slabs_destroy(&live->slabs);
}

void mp_live_settle(mp_live *live, uint32_t id, int settled)
{
    mp_live_entry *entry = mp_live_at(live, id);
    entry->flags = (uint16_t)(settled ? entry->flags | MP_LIVE_SETTLED
                                      : entry->flags & ~(unsigned)MP_LIVE_SETTLED);
    set_bit(live->unsettled, id, !settled);
}

uint32_t mp_live_next_unsettled(const mp_live *live, uint32_t id)
{
    return next_bit(live->unsettled, live->bitmap_words, id);
}

uint32_t mp_live_next(const mp_live *live, uint32_t id)
{
    return next_bit(live->used, live->bitmap_words, id);
}

#define PACK_FROM 8192u

int mp_live_sparse(const mp_live *live)
{
    return live->slabs.top >= PACK_FROM && live->slabs.in_use < live->slabs.top / 4 &&
           !live->cursors;
}

void mp_live_pack(mp_live *live)
{
    mp_live packed;
    mp_live_init(&packed, live->slabs.cap);
    for (uint32_t id = 0; (id = mp_live_next(live, id)) != 0;) {
        const mp_live_entry *entry = mp_live_at(live, id);
        uint32_t at = new_entry(&packed);
        if (!at) {
            mp_live_destroy(&packed);
            return;
        }
        *mp_live_at(&packed, at) = *entry;
        set_bit(packed.unsettled, at, !(entry->flags & MP_LIVE_SETTLED));
        mp_index_add(&packed.index, tag_of(entry->address), at);
    }
    packed.cursors = live->cursors;
    packed.packs = live->packs + 1;
    mp_live_destroy(live);
    *live = packed;
}

void mp_live_rekey(mp_live *live, uint64_t (*moved_to)(uint64_t address))
{
    mp_index_clear(&live->index);
    for (uint32_t id = 0; (id = mp_live_next(live, id)) != 0;) {
        mp_live_entry *entry = mp_live_at(live, id);
        entry->address = moved_to(entry->address);
        mp_index_add(&live->index, tag_of(entry->address), id);
    }
}

void mp_live_forget_addresses(mp_live *live)
{
    for (uint32_t id = 0; (id = mp_live_next(live, id)) != 0;) mp_live_at(live, id)->address = 0;
    mp_index_destroy(&live->index);
}

void mp_live_cursor_open(mp_live *live, mp_live_cursor *cursor)
{
    cursor->at = 0;
    cursor->end = live->slabs.top;
    cursor->next = live->cursors;
    live->cursors = cursor;
}

void mp_live_cursor_close(mp_live *live, mp_live_cursor *cursor)
{
    for (mp_live_cursor **link = &live->cursors; *link; link = &(*link)->next) {
        if (*link == cursor) {
            *link = cursor->next;
            return;
        }
    }
}

uint32_t mp_live_cursor_next(const mp_live *live, mp_live_cursor *cursor)
{
    uint32_t id = mp_live_next(live, cursor->at);
    if (id > cursor->end) id = 0;
    cursor->at = id ? id : cursor->end;
    return id;
}

size_t mp_live_memsize(const mp_live *live)
{
    return mp_slabs_memsize(&live->slabs) + mp_index_memsize(&live->index) +
           live->bitmap_words * 2 * sizeof *live->used;
}
