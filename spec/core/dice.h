/*
 * Random numbers for the C tests: seeded, the same on every machine, and of another make than the
 * sampler's, which is under test.
 */
#ifndef MEMPROFILER_SPEC_DICE_H
#define MEMPROFILER_SPEC_DICE_H

#include <stdint.h>

typedef struct {
    uint64_t state;
} dice;

static inline dice dice_new(uint64_t seed)
{
    return (dice){seed * 2 + 1};
}

/* 0 to sides - 1, from the upper half of a linear congruential generator. */
static inline uint32_t dice_roll(dice *d, uint32_t sides)
{
    d->state = d->state * UINT64_C(0x5851f42d4c957f2d) + UINT64_C(0x14057b7ef767814f);
    return (uint32_t)(((d->state >> 32) * sides) >> 32);
}

#endif
