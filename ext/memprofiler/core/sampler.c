#include "sampler.h"

#include <math.h>

#include "hash.h"
#include "platform.h"

/* A Weyl counter, mixed by multiply-and-fold with itself (the construction known as wyrand). */
uint64_t mp_sampler_random(mp_sampler *sampler)
{
    uint64_t state = sampler->random[0] += UINT64_C(0xa0761d6478bd642f);
    return mp_hash_fold(state, state ^ sampler->random[1]);
}

void mp_sampler_reseed(mp_sampler *sampler, uint64_t seed)
{
    sampler->random[0] = mp_hash_u64(seed);
    sampler->random[1] = mp_hash_u64(seed ^ MP_HASH_SEED) | 1;
}

void mp_sampler_init(mp_sampler *sampler, uint32_t interval, uint64_t seed)
{
    sampler->interval = interval;
    sampler->gap_factor = interval > 1 ? 1.0 / log1p(-1.0 / interval) : 0.0;
    mp_sampler_reseed(sampler, seed);
}

int64_t mp_sampler_gap(mp_sampler *sampler)
{
    if (sampler->interval == 1) return 1;
    /* u in (0, 1]: 53 random bits, so that log(u) is finite and the tail is not cut short. */
    double u = ((double)(mp_sampler_random(sampler) >> 11) + 1.0) * 0x1.0p-53;
    return (int64_t)(log(u) * sampler->gap_factor) + 1;
}

int mp_sampler_one_in(mp_sampler *sampler, uint64_t k)
{
    if (k == 1) return 1;
    /* The upper word of random * k is uniform on 0..k-1 up to 2^-64 * k. */
    return (uint64_t)(((mp_wide)mp_sampler_random(sampler) * k) >> 64) == 0;
}
