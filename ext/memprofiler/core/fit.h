/*
 * Brings a profile below what a server takes. Totals stay as they are: of too many samples the
 * smallest become one, whose stack is the frame "(other)"; a stack that is too deep loses the frames
 * next to its root, which becomes "(truncated)", as a recorder's own max_depth has it. What no sample
 * has any more, strings included, is left out.
 *
 * Small is a sample by the largest of its shares of the columns' totals, so that the shares of what
 * is left out sum up to the least. Which of two that are alike is the smaller: the later one.
 *
 * Memory: the result is in `out`; the rest is given back. Locks: none.
 * Failure: MP_ENOMEM, or what mp_pprof_encode gives; `out` holds part of a profile then.
 */
#ifndef MEMPROFILER_CORE_FIT_H
#define MEMPROFILER_CORE_FIT_H

#include "pprof.h"

typedef struct {
    uint32_t samples, depth; /* at least 1 and 2 */
    size_t bytes;            /* before gzip; one sample may take more all the same */
} mp_fit_limits;

typedef struct {
    uint32_t merged; /* samples that became one */
    uint32_t cut;    /* stacks that lost frames */
} mp_fitted;

/* Appends the gzipped profile to `out`; nothing if `whole`, the profile itself gzipped, fits. */
int mp_fit(const mp_pprof *profile, const uint8_t *whole, size_t whole_len,
           const mp_fit_limits *limits, mp_buffer *out, mp_fitted *fitted);

#endif
