#include "words.h"

#include <string.h>

#include "error.h"
#include "mem.h"

/* Where the word after the first `skipped` ones is. */
static mp_words skip(mp_words words, uint32_t skipped)
{
    while (words.piece && skipped >= words.piece->count - words.from) {
        skipped -= words.piece->count - words.from;
        words = (mp_words){words.piece->outer, words.piece->from};
    }
    words.from += skipped;
    return words;
}

int mp_words_new(mp_words_count *count, const uint64_t *words, uint32_t depth, mp_words like,
                 uint32_t like_depth, uint32_t shared, mp_words *out)
{
    mp_words rest = shared ? skip(like, like_depth - shared) : (mp_words){NULL, 0};
    uint32_t own = depth - shared;
    while (own && rest.piece && rest.piece->count - rest.from <= own) {
        own += rest.piece->count - rest.from;
        rest = (mp_words){rest.piece->outer, rest.piece->from};
    }
    if (own > count->cap - count->words) return MP_ENOMEM;
    if (own) {
        mp_piece *piece = mp_malloc(sizeof *piece + own * sizeof *words);
        if (!piece) return MP_ENOMEM;
        *piece = (mp_piece){.outer = rest.piece, .from = rest.from, .count = own};
        memcpy(piece->words, words, own * sizeof *words);
        if (rest.piece) rest.piece->refs++;
        count->words += own;
        count->pieces++;
        rest = (mp_words){piece, 0};
    }
    if (rest.piece) rest.piece->refs++;
    *out = rest;
    return MP_OK;
}

void mp_words_release(mp_words_count *count, mp_words words)
{
    for (mp_piece *piece = words.piece, *outer; piece && --piece->refs == 0; piece = outer) {
        outer = piece->outer;
        count->words -= piece->count;
        count->pieces--;
        mp_free(piece);
    }
}
