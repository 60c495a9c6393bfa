/*
 * The words of stacks. Stacks met one after the other mostly differ in their inner frames alone: a
 * stack keeps these in a piece of its own, which goes on in the middle of an earlier stack's piece.
 *
 *   piece of A:  [a0 a1 a2 | r5 r4 r3 r2 r1]      innermost first
 *   piece of B:  [b0 b1] --> ^ from = 3           B is b0 b1 r5 r4 r3 r2 r1
 *
 * A short rest is copied instead: each piece of a stack has fewer words than the part of the next
 * one that belongs to it, so that n words lie in sqrt(2 n) pieces at most, however a program recurses.
 *
 * Memory: pieces are malloc(3)'s, counted by reference, never changed, and never moved. Locks: the
 * caller's; who keeps a stack from being released may read its words without.
 * Failure: MP_ENOMEM, when memory or the cap ran out.
 */
#ifndef MEMPROFILER_CORE_WORDS_H
#define MEMPROFILER_CORE_WORDS_H

#include <stddef.h>
#include <stdint.h>

typedef struct mp_piece {
    struct mp_piece *outer; /* what it goes on with, or NULL */
    uint32_t from;          /* the first word of `outer` that belongs to it */
    uint32_t refs;
    uint32_t count;
    uint64_t words[];
} mp_piece;

/* A stack's words: those of `piece` from `from` on, then those of the pieces that follow. */
typedef struct {
    mp_piece *piece; /* NULL: none */
    uint32_t from;
} mp_words;

typedef struct {
    size_t words, pieces; /* there are */
    size_t cap;           /* of words; never exceeded */
} mp_words_count;

/*
 * The words of a new stack of which the last `shared` are the last `shared` of `like` too, which has
 * `like_depth`. The caller's; released by mp_words_release.
 */
int mp_words_new(mp_words_count *count, const uint64_t *words, uint32_t depth, mp_words like,
                 uint32_t like_depth, uint32_t shared, mp_words *out);
void mp_words_release(mp_words_count *count, mp_words words);

/* The next word; the caller knows how many there are. */
static inline uint64_t mp_words_next(mp_words *at)
{
    if (at->from == at->piece->count) {
        at->from = at->piece->from;
        at->piece = at->piece->outer;
    }
    return at->piece->words[at->from++];
}

#endif
