#include "baseline.h"

#include "mem.h"

mp_baseline *mp_baseline_new(uint32_t sites, int in_use)
{
    mp_baseline *baseline = mp_calloc(1, sizeof *baseline);
    if (!baseline) return NULL;
    baseline->sites = sites;
    baseline->allocated = mp_calloc((size_t)sites + 1, sizeof *baseline->allocated);
    if (in_use) baseline->in_use = mp_calloc((size_t)sites + 1, sizeof *baseline->in_use);
    if (baseline->allocated && (baseline->in_use || !in_use)) return baseline;
    mp_baseline_free(baseline);
    return NULL;
}

void mp_baseline_free(mp_baseline *baseline)
{
    if (!baseline) return;
    mp_free(baseline->allocated);
    mp_free(baseline->in_use);
    mp_free(baseline);
}

size_t mp_baseline_memsize(const mp_baseline *baseline)
{
    size_t each = sizeof *baseline->allocated;
    if (baseline->in_use) each += sizeof *baseline->in_use;
    return sizeof *baseline + ((size_t)baseline->sites + 1) * each;
}
