#include "stacks.h"

#include <string.h>

#include "error.h"
#include "hash.h"
#include "mem.h"

void mp_stacks_init(mp_stacks *stacks, uint32_t cap, size_t words_cap, uint64_t frames_cap)
{
    *stacks = (mp_stacks){.count = {.cap = words_cap}, .frames_cap = frames_cap};
    mp_slabs_init(&stacks->slabs, sizeof(mp_stack), cap);
    mp_index_init(&stacks->index);
}

void mp_stacks_destroy(mp_stacks *stacks)
{
    for (uint32_t id = 1; id <= stacks->slabs.top; id++) {
        const mp_stack *stack = mp_stacks_at(stacks, id);
        if (stack->refs) mp_words_release(&stacks->count, stack->words);
    }
    mp_slabs_destroy(&stacks->slabs);
    mp_index_destroy(&stacks->index);
    for (uint32_t i = 0; i < MP_STACKS_LIKELY; i++) mp_free(stacks->likely[i].flat);
    memset(stacks->likely, 0, sizeof stacks->likely);
}

static int same(const mp_stack *stack, const uint64_t *words, uint32_t depth)
{
    if (stack->depth != depth) return 0;
    mp_words at = stack->words;
    for (uint32_t i = 0; i < depth; i++) {
        if (mp_words_next(&at) != words[i]) return 0;
    }
    return 1;
}

/* ---- words in common ------------------------------------------------------------------------- */

/* How many words at the outer end are the same. */
static uint32_t in_common(const uint64_t *a, uint32_t a_depth, const uint64_t *b, uint32_t b_depth)
{
    uint32_t most = a_depth < b_depth ? a_depth : b_depth, n = 0;
    while (n < most && a[a_depth - 1 - n] == b[b_depth - 1 - n]) n++;
    return n;
}

static int new_words(mp_stacks *stacks, const uint64_t *words, uint32_t depth, mp_words *out)
{
    const mp_stack *like = NULL;
    uint32_t shared = 0;
    for (uint32_t i = 0; i < MP_STACKS_LIKELY; i++) {
        const mp_likely_stack *likely = &stacks->likely[i];
        if (!likely->id) continue;
        const mp_stack *stack = mp_stacks_at(stacks, likely->id);
        uint32_t n = in_common(words, depth, likely->flat, stack->depth);
        if (n <= shared) continue;
        like = stack;
        shared = n;
    }
    return mp_words_new(&stacks->count, words, depth, like ? like->words : (mp_words){NULL, 0},
                        like ? like->depth : 0, shared, out);
}

/* Without memory the next stack shares a little less. */
static void note_likely(mp_stacks *stacks, uint32_t id, const uint64_t *words, uint32_t depth)
{
    mp_likely_stack *likely = &stacks->likely[stacks->next_likely++ % MP_STACKS_LIKELY];
    likely->id = 0;
    if (depth > likely->room) {
        uint32_t room = depth + depth / 2;
        uint64_t *wider = mp_realloc(likely->flat, room * sizeof *wider);
        if (!wider) return;
        likely->flat = wider;
        likely->room = room;
    }
    if (depth) memcpy(likely->flat, words, depth * sizeof *words);
    likely->id = id;
}

static void forget_likely(mp_stacks *stacks, uint32_t id)
{
    for (uint32_t i = 0; i < MP_STACKS_LIKELY; i++) {
        if (stacks->likely[i].id == id) stacks->likely[i].id = 0;
    }
}

/* ---------------------------------------------------------------------------------------------- */

uint32_t mp_stacks_intern(mp_stacks *stacks, const uint64_t *words, uint32_t depth)
{
    uint32_t tag = mp_index_tag(mp_hash_bytes(words, depth * sizeof *words));
    for (uint32_t pos = tag, id; (id = mp_index_next(&stacks->index, tag, &pos)) != 0;) {
        mp_stack *known = mp_stacks_at(stacks, id);
        if (same(known, words, depth)) {
            known->refs++;
            return id;
        }
    }

    if (depth > stacks->frames_cap - stacks->frames) return 0;
    if (mp_index_reserve(&stacks->index) != MP_OK) return 0;
    mp_words kept;
    if (new_words(stacks, words, depth, &kept) != MP_OK) return 0;
    uint32_t id = mp_slabs_new(&stacks->slabs);
    if (!id) {
        mp_words_release(&stacks->count, kept);
        return 0;
    }
    *mp_stacks_at(stacks, id) = (mp_stack){.tag = tag, .refs = 1, .depth = depth, .words = kept};
    stacks->frames += depth;
    mp_index_add(&stacks->index, tag, id);
    note_likely(stacks, id, words, depth);
    return id;
}

void mp_stacks_retain(mp_stacks *stacks, uint32_t id)
{
    mp_stacks_at(stacks, id)->refs++;
}

int mp_stacks_release(mp_stacks *stacks, uint32_t id)
{
    mp_stack *stack = mp_stacks_at(stacks, id);
    if (--stack->refs) return 0;
    forget_likely(stacks, id);
    mp_index_remove(&stacks->index, stack->tag, id);
    mp_words_release(&stacks->count, stack->words);
    stacks->frames -= stack->depth;
    mp_slabs_release(&stacks->slabs, id);
    return 1;
}

size_t mp_stacks_memsize(const mp_stacks *stacks)
{
    size_t size = mp_slabs_memsize(&stacks->slabs) + mp_index_memsize(&stacks->index) +
                  stacks->count.words * sizeof(uint64_t) +
                  stacks->count.pieces * mp_mem_size(sizeof(mp_piece));
    for (uint32_t i = 0; i < MP_STACKS_LIKELY; i++) {
        size += stacks->likely[i].room * sizeof(uint64_t);
    }
    return size;
}
