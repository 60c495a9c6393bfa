/*
 * Hashing for the tables of core/: a 64-bit multiply-and-fold mixer. Not for untrusted keys: the
 * profiled program chooses its own addresses and names, and harms only itself.
 */
#ifndef MEMPROFILER_CORE_HASH_H
#define MEMPROFILER_CORE_HASH_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "platform.h"

#define MP_HASH_SEED UINT64_C(0x9e3779b97f4a7c15)

static inline uint64_t mp_hash_fold(uint64_t a, uint64_t b)
{
    mp_wide product = (mp_wide)a * b;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static inline uint64_t mp_hash_word(uint64_t state, uint64_t word)
{
    return mp_hash_fold(state ^ word, UINT64_C(0xd6e8feb86659fd93));
}

/* Last step: a zero state would stay zero, and the low bits must depend on all others. */
static inline uint64_t mp_hash_end(uint64_t state, uint64_t length)
{
    return mp_hash_fold(state + length + MP_HASH_SEED, UINT64_C(0xa0761d6478bd642f));
}

static inline uint64_t mp_hash_u64(uint64_t word)
{
    return mp_hash_end(mp_hash_word(MP_HASH_SEED, word), 8);
}

static inline uint64_t mp_hash_bytes(const void *bytes, size_t length)
{
    const unsigned char *at = bytes;
    uint64_t state = MP_HASH_SEED;
    size_t left = length;
    for (; left >= 8; at += 8, left -= 8) {
        uint64_t word;
        memcpy(&word, at, 8);
        state = mp_hash_word(state, word);
    }
    if (left > 0) {
        uint64_t word = 0;
        memcpy(&word, at, left);
        state = mp_hash_word(state, word);
    }
    return mp_hash_end(state, length);
}

#endif
