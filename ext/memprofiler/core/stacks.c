#include "stacks.h"

#include <string.h>

#include "error.h"
#include "hash.h"
#include "mem.h"

void mp_stacks_init(mp_stacks *stacks, uint32_t cap, size_t words_cap)
{
    mp_slabs_init(&stacks->slabs, sizeof(mp_stack), cap);
    mp_index_init(&stacks->index);
    stacks->words = 0;
    stacks->words_cap = words_cap;
}

void mp_stacks_destroy(mp_stacks *stacks)
{
    for (uint32_t id = 1; id <= stacks->slabs.top; id++) {
        if (mp_stacks_at(stacks, id)->refs) mp_free(mp_stacks_at(stacks, id)->words);
    }
    mp_slabs_destroy(&stacks->slabs);
    mp_index_destroy(&stacks->index);
    stacks->words = 0;
}

uint32_t mp_stacks_intern(mp_stacks *stacks, const uint64_t *words, uint32_t depth)
{
    size_t bytes = depth * sizeof *words;
    uint32_t tag = mp_index_tag(mp_hash_bytes(words, bytes));
    for (uint32_t pos = tag, id; (id = mp_index_next(&stacks->index, tag, &pos)) != 0;) {
        mp_stack *known = mp_stacks_at(stacks, id);
        if (known->depth == depth && memcmp(known->words, words, bytes) == 0) {
            known->refs++;
            return id;
        }
    }

    if (depth > stacks->words_cap - stacks->words) return 0;
    if (mp_index_reserve(&stacks->index) != MP_OK) return 0;
    uint64_t *copy = mp_malloc(bytes ? bytes : 1);
    if (!copy) return 0;
    uint32_t id = mp_slabs_new(&stacks->slabs);
    if (!id) {
        mp_free(copy);
        return 0;
    }
    memcpy(copy, words, bytes);
    *mp_stacks_at(stacks, id) = (mp_stack){.tag = tag, .refs = 1, .depth = depth, .words = copy};
    mp_index_add(&stacks->index, tag, id);
    stacks->words += depth;
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
    mp_index_remove(&stacks->index, stack->tag, id);
    stacks->words -= stack->depth;
    mp_free(stack->words);
    mp_slabs_release(&stacks->slabs, id);
    return 1;
}

size_t mp_stacks_memsize(const mp_stacks *stacks)
{
    return mp_slabs_memsize(&stacks->slabs) + mp_index_memsize(&stacks->index) +
           stacks->words * sizeof(uint64_t);
}
