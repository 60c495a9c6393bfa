/*
 * Which allocations are sampled: a Poisson process over objects, 1 in `interval` on average, each
 * gap drawn from the geometric distribution. Every sample stands for `interval` objects, exactly
 * (weight = 1 / probability). An interval of 1 takes every object.
 *
 * Also the coins of the tracking (1 in K samples, thinning). One random state a sampler; a forked
 * child must reseed, or all workers sample alike.
 *
 * Memory: none besides the struct. Locks: the caller's. Failure: none.
 */
#ifndef MEMPROFILER_CORE_SAMPLER_H
#define MEMPROFILER_CORE_SAMPLER_H

#include <stdint.h>

#define MP_INTERVAL_MAX UINT32_C(1000000000)

typedef struct {
    uint64_t random[2];
    double gap_factor; /* 1 / log(1 - 1/interval) */
    uint32_t interval;
} mp_sampler;

/* `interval` is 1..MP_INTERVAL_MAX. */
void mp_sampler_init(mp_sampler *sampler, uint32_t interval, uint64_t seed);
void mp_sampler_reseed(mp_sampler *sampler, uint64_t seed);
/* Objects up to and including the next sampled one: 1 or more. */
int64_t mp_sampler_gap(mp_sampler *sampler);
/* True with probability 1/k; k is 1 or more. */
int mp_sampler_one_in(mp_sampler *sampler, uint64_t k);
uint64_t mp_sampler_random(mp_sampler *sampler);

#endif
