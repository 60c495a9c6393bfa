/*
 * Hash-consed stacks: one item for each distinct sequence of 64-bit words, innermost frame first.
 * Two tables of this kind exist in a recorder: raw stacks, whose words are (frame number, line) as
 * the hook saw them, and named stacks, whose words are location numbers.
 *
 * Memory: owned by the table; items don't move, and share outer words (words.h). Locks: the
 * caller's. Failure: 0, when memory or a cap (stacks, words, frames) ran out. Shared words count once,
 * frames each time: who writes all stacks out needs room for these.
 */
#ifndef MEMPROFILER_CORE_STACKS_H
#define MEMPROFILER_CORE_STACKS_H

#include <stddef.h>
#include <stdint.h>

#include "index.h"
#include "slabs.h"
#include "words.h"

typedef struct {
    uint32_t tag;  /* first: a released item keeps the free list here */
    uint32_t refs; /* 0 in an item that is not in use */
    uint32_t depth;
    uint32_t user;      /* the owner's: of a raw stack, the named stack it stands for, or 0 */
    uint32_t flags;     /* the owner's */
    uint32_t last_site; /* the owner's: of a raw stack, the site that was hit last */
    mp_words words;     /* a copy of this is read by mp_words_next, `depth` times */
} mp_stack;

/* Stacks added last, whose words the next one may share. */
#define MP_STACKS_LIKELY 8u

typedef struct {
    uint32_t id;    /* 0: none */
    uint32_t room;  /* words */
    uint64_t *flat; /* all its words in a row, for comparing from the outer end */
} mp_likely_stack;

typedef struct {
    mp_slabs slabs;
    mp_index index;
    mp_words_count count;
    uint64_t frames, frames_cap; /* the depths of all stacks, and the most they may come to */
    mp_likely_stack likely[MP_STACKS_LIKELY];
    uint32_t next_likely;
} mp_stacks;

void mp_stacks_init(mp_stacks *stacks, uint32_t cap, size_t words_cap, uint64_t frames_cap);
void mp_stacks_destroy(mp_stacks *stacks);
/* The stack of these words with one reference more; nothing is allocated for a known one. */
uint32_t mp_stacks_intern(mp_stacks *stacks, const uint64_t *words, uint32_t depth);
void mp_stacks_retain(mp_stacks *stacks, uint32_t id);
/* True when this was the last reference, and the stack is gone. */
int mp_stacks_release(mp_stacks *stacks, uint32_t id);
size_t mp_stacks_memsize(const mp_stacks *stacks);

static inline mp_stack *mp_stacks_at(const mp_stacks *stacks, uint32_t id)
{
    return mp_slabs_at(&stacks->slabs, id);
}

#endif
