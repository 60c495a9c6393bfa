/*
 * libFuzzer target: whatever the bytes, the decoder accepts or refuses them, and what it accepts
 * has every index in range, so that the encoder takes it and the result reads the same again.
 */
#include "error.h"
#include "pprof.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_BYTES ((size_t)4 * 1024 * 1024)

static void expect(int holds, const char *what)
{
    if (holds) return;
    fprintf(stderr, "not so: %s\n", what);
    abort();
}

static void same_again(const mp_pprof *profile, const mp_pprof *again)
{
    expect(again->n_strings == profile->n_strings, "as many strings");
    expect(again->n_functions == profile->n_functions, "as many functions");
    expect(again->n_locations == profile->n_locations, "as many locations");
    expect(again->n_samples == profile->n_samples, "as many samples");
    expect(again->n_types == profile->n_types, "as many types");
    for (uint32_t i = 0; i < profile->n_samples; i++) {
        const mp_pprof_sample *a = &profile->samples[i], *b = &again->samples[i];
        expect(a->depth == b->depth && a->n_labels == b->n_labels, "as deep, as many labels");
        expect(memcmp(a->values, b->values, profile->n_types * sizeof *a->values) == 0, "values");
        expect(a->depth == 0 ||
                   memcmp(a->locations, b->locations, a->depth * sizeof *a->locations) == 0,
               "the same stack");
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    mp_pprof_decoded decoded, again;
    char why[MP_PPROF_WHY_LEN];
    int status = mp_pprof_decode(data, size, MAX_BYTES, &decoded, why, sizeof why);
    expect((status == MP_OK) == (why[0] == 0), "a reason for each failure and only then");
    if (status) return 0;

    mp_buffer out = {0};
    expect(mp_pprof_encode(&decoded.profile, &out) == MP_OK, "the encoder takes it");
    status = mp_pprof_decode(out.data, out.len, 64 * MAX_BYTES, &again, why, sizeof why);
    /* Inlined lines written out may make a sample larger than is read. */
    expect(status == MP_OK || status == MP_ELIMIT, "the decoder takes it back");
    if (status == MP_OK) {
        same_again(&decoded.profile, &again.profile);
        mp_pprof_decoded_free(&again);
    }
    mp_buffer_free(&out);
    mp_pprof_decoded_free(&decoded);
    return 0;
}
