/*
 * Objects of the VM that stacks and sites refer to (frames, classes, threads), by address and not
 * yet, or no longer, by anything safer. One item goes through three states:
 *
 *   pending  the object was just seen in the hook; its name is not known. The owner keeps the
 *            object alive and in place (pins it) until it has been named. (Not all threads: see
 *            mp_recorder_thread_gone.)
 *   named    `name` is known; the address is weak: it serves to recognise the object, and is
 *            forgotten when the object dies.
 *   dead     no address; `name` stays until the last reference goes.
 *
 * An item is freed when it is dead and unreferenced, so a number never changes its meaning under
 * one who holds a reference. What `name` counts in (functions, strings) is the owner's affair.
 *
 * Memory: owned by the table; addresses are never followed here. Locks: the caller's.
 * Failure: mp_refs_add returns 0 when memory or the cap ran out.
 */
#ifndef MEMPROFILER_CORE_REFS_H
#define MEMPROFILER_CORE_REFS_H

#include <stddef.h>
#include <stdint.h>

#include "index.h"
#include "slabs.h"

typedef enum { MP_REF_FREE = 0, MP_REF_PENDING, MP_REF_NAMED, MP_REF_DEAD } mp_ref_state;

typedef struct {
    uint32_t link; /* first: a released item keeps the free list here; pending: the next pending */
    uint32_t refs;
    uint64_t address; /* 0: none */
    union {
        uint32_t name;
        uint32_t newer; /* pending: the pending item whose `link` it is; 0: it's the newest */
    };
    uint16_t state;
    uint16_t flags; /* the owner's */
} mp_ref;

typedef struct mp_refs {
    mp_slabs slabs;
    mp_index index;
    uint32_t pending; /* head of the list of pending items, the newest first */
    uint32_t n_pending;
    uint32_t dead;      /* items that are dead and still referenced */
    uint64_t dead_refs; /* references on these */
    void (*gone)(void *owner,
                 uint32_t name); /* a freed item's name, to be given back; may be NULL */
    void *owner;
} mp_refs;

void mp_refs_init(mp_refs *refs, uint32_t cap, void (*gone)(void *, uint32_t), void *owner);
void mp_refs_destroy(mp_refs *refs);
uint32_t mp_refs_find(const mp_refs *refs, uint64_t address);
/* A new pending item without references; `address` must not be in the table. */
uint32_t mp_refs_add(mp_refs *refs, uint64_t address);
/* An item that never had an address, with one reference for ever: for made-up frames and classes. */
uint32_t mp_refs_add_named(mp_refs *refs, uint32_t name);
/* A pending item leaves the list and becomes named. */
void mp_refs_name(mp_refs *refs, uint32_t id, uint32_t name, uint16_t flags);
void mp_refs_retain(mp_refs *refs, uint32_t id);
void mp_refs_release(mp_refs *refs, uint32_t id);
/* The object of a named item has died. */
void mp_refs_die(mp_refs *refs, uint32_t id);
/* No address of a named item can be trusted any more. Pending ones, if pinned, can: they stay. */
void mp_refs_die_all(mp_refs *refs);
/* The next item with an address after `id`, or 0. */
uint32_t mp_refs_next(const mp_refs *refs, uint32_t id);
void mp_refs_rekey(mp_refs *refs, uint64_t (*moved_to)(uint64_t address));
size_t mp_refs_memsize(const mp_refs *refs);

static inline mp_ref *mp_refs_at(const mp_refs *refs, uint32_t id)
{
    return mp_slabs_at(&refs->slabs, id);
}

#endif
