/*
 * An audit of a table of stacks: the pieces that its stacks' words lie in are counted again, with
 * every reference on them, and must be as short and as long as words.h says.
 */
#ifndef MEMPROFILER_SPEC_AUDIT_WORDS_H
#define MEMPROFILER_SPEC_AUDIT_WORDS_H

#include "check.h"
#include "stacks.h"

#include <stdlib.h>

static inline int audit_by_address(const void *a, const void *b)
{
    const mp_piece *x = *(mp_piece *const *)a, *y = *(mp_piece *const *)b;
    return (x > y) - (x < y);
}

/* The pieces of one stack; returns how many. */
static inline size_t audit_pieces(const mp_stack *stack, mp_piece **out)
{
    size_t n = 0, depth = 0, shorter = 0;
    uint32_t from = stack->words.from;
    for (mp_piece *piece = stack->words.piece; piece; from = piece->from, piece = piece->outer) {
        CHECK(from < piece->count);
        CHECK(piece->count - from > shorter || n == 1); /* the first may be the rest of a piece */
        shorter = piece->count - from;
        depth += shorter;
        if (out) out[n] = piece;
        n++;
    }
    CHECK_UINT(depth, stack->depth);
    CHECK(n == 0 || n * (n - 1) / 2 <= depth); /* each longer than the one before */
    return n;
}

static inline void audit_words(const mp_stacks *stacks)
{
    size_t most = 0, n = 0, firsts = 0, words = 0, distinct = 0, refs = 0, outers = 0;
    for (uint32_t id = 1; id <= stacks->slabs.top; id++) {
        if (!mp_stacks_at(stacks, id)->refs) continue;
        most += audit_pieces(mp_stacks_at(stacks, id), NULL);
        firsts += mp_stacks_at(stacks, id)->words.piece != NULL;
    }
    mp_piece **all = malloc((most + 1) * sizeof *all);
    for (uint32_t id = 1; id <= stacks->slabs.top; id++) {
        if (mp_stacks_at(stacks, id)->refs) n += audit_pieces(mp_stacks_at(stacks, id), all + n);
    }
    qsort(all, n, sizeof *all, audit_by_address);
    for (size_t i = 0; i < n; i++) {
        if (i > 0 && all[i] == all[i - 1]) continue;
        distinct++;
        words += all[i]->count;
        refs += all[i]->refs;
        outers += all[i]->outer != NULL;
        CHECK(all[i]->refs > 0);
    }
    CHECK_UINT(stacks->count.pieces, distinct);
    CHECK_UINT(stacks->count.words, words);
    CHECK_UINT(refs, firsts + outers);
    free(all);
}

#endif
