#include "refs.h"

#include <string.h>

#include "error.h"
#include "hash.h"

void mp_refs_init(mp_refs *refs, uint32_t cap, void (*gone)(void *, uint32_t), void *owner)
{
    memset(refs, 0, sizeof *refs);
    mp_slabs_init(&refs->slabs, sizeof(mp_ref), cap);
    mp_index_init(&refs->index);
    refs->gone = gone;
    refs->owner = owner;
}

void mp_refs_destroy(mp_refs *refs)
{
    mp_slabs_destroy(&refs->slabs);
    mp_index_destroy(&refs->index);
    refs->pending = 0;
    refs->n_pending = 0;
    refs->dead = 0;
    refs->dead_refs = 0;
}

static uint32_t tag_of(uint64_t address)
{
    return mp_index_tag(mp_hash_u64(address));
}

uint32_t mp_refs_find(const mp_refs *refs, uint64_t address)
{
    uint32_t tag = tag_of(address);
    for (uint32_t pos = tag, id; (id = mp_index_next(&refs->index, tag, &pos)) != 0;) {
        if (mp_refs_at(refs, id)->address == address) return id;
    }
    return 0;
}

uint32_t mp_refs_add(mp_refs *refs, uint64_t address)
{
    if (mp_index_reserve(&refs->index) != MP_OK) return 0;
    uint32_t id = mp_slabs_new(&refs->slabs);
    if (!id) return 0;
    mp_ref *ref = mp_refs_at(refs, id);
    ref->address = address;
    ref->state = MP_REF_PENDING;
    ref->link = refs->pending;
    if (ref->link) mp_refs_at(refs, ref->link)->newer = id;
    refs->pending = id;
    refs->n_pending++;
    mp_index_add(&refs->index, tag_of(address), id);
    return id;
}

uint32_t mp_refs_add_named(mp_refs *refs, uint32_t name)
{
    uint32_t id = mp_slabs_new(&refs->slabs);
    if (!id) return 0;
    mp_ref *ref = mp_refs_at(refs, id);
    ref->refs = 1;
    ref->name = name;
    ref->state = MP_REF_NAMED;
    return id;
}

void mp_refs_name(mp_refs *refs, uint32_t id, uint32_t name, uint16_t flags)
{
    mp_ref *ref = mp_refs_at(refs, id);
    /* Wherever it is in the list: one collection may find thousands of pending threads dead. */
    *(ref->newer ? &mp_refs_at(refs, ref->newer)->link : &refs->pending) = ref->link;
    if (ref->link) mp_refs_at(refs, ref->link)->newer = ref->newer;
    refs->n_pending--;
    ref->link = 0;
    ref->name = name;
    ref->flags = flags;
    ref->state = MP_REF_NAMED;
}

static void free_item(mp_refs *refs, uint32_t id)
{
    mp_ref *ref = mp_refs_at(refs, id);
    uint32_t name = ref->name;
    ref->state = MP_REF_FREE;
    ref->address = 0;
    mp_slabs_release(&refs->slabs, id);
    if (refs->gone) refs->gone(refs->owner, name);
}

void mp_refs_retain(mp_refs *refs, uint32_t id)
{
    mp_ref *ref = mp_refs_at(refs, id);
    ref->refs++;
    if (ref->state == MP_REF_DEAD) refs->dead_refs++;
}

void mp_refs_release(mp_refs *refs, uint32_t id)
{
    mp_ref *ref = mp_refs_at(refs, id);
    ref->refs--;
    if (ref->state != MP_REF_DEAD) return;
    refs->dead_refs--;
    if (ref->refs) return;
    refs->dead--;
    free_item(refs, id);
}

void mp_refs_die(mp_refs *refs, uint32_t id)
{
    mp_ref *ref = mp_refs_at(refs, id);
    mp_index_remove(&refs->index, tag_of(ref->address), id);
    ref->address = 0;
    ref->state = MP_REF_DEAD;
    if (ref->refs == 0) {
        free_item(refs, id);
    } else {
        refs->dead++;
        refs->dead_refs += ref->refs;
    }
}

void mp_refs_die_all(mp_refs *refs)
{
    for (uint32_t id = 0; (id = mp_refs_next(refs, id)) != 0;) {
        if (mp_refs_at(refs, id)->state == MP_REF_NAMED) mp_refs_die(refs, id);
    }
}

uint32_t mp_refs_next(const mp_refs *refs, uint32_t id)
{
    while (++id <= refs->slabs.top) {
        if (mp_refs_at(refs, id)->address) return id;
    }
    return 0;
}

void mp_refs_rekey(mp_refs *refs, uint64_t (*moved_to)(uint64_t address))
{
    mp_index_clear(&refs->index);
    for (uint32_t id = 0; (id = mp_refs_next(refs, id)) != 0;) {
        mp_ref *ref = mp_refs_at(refs, id);
        ref->address = moved_to(ref->address);
        mp_index_add(&refs->index, tag_of(ref->address), id);
    }
}

size_t mp_refs_memsize(const mp_refs *refs)
{
    return mp_slabs_memsize(&refs->slabs) + mp_index_memsize(&refs->index);
}
