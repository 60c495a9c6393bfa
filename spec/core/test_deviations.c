/*
 * How far sampling may be off, as the profile says it, against arithmetic: a sample that stands for
 * w objects of v bytes adds w (w-1) v^2 to the variance.
 */
#include "check.h"
#include "error.h"
#include "pprof.h"
#include "recorder.h"
#include "snapshot.h"

#include <math.h>
#include <stdlib.h>

static mp_recorder *recorder_with(uint32_t interval)
{
    mp_options options = {.interval = interval, .track_one_in = 1, .max_depth = 8, .seed = 1};
    mp_recorder *r = mp_recorder_new(&options);
    if (!CHECK(r != NULL)) exit(1);
    return r;
}

/* All in one place. */
static uint32_t allocate(mp_recorder *r, uint64_t address, uint64_t size)
{
    mp_recorder_sample(r, &(mp_allocation){.stack = r->overflow_stack,
                                           .klass = r->overflow_class,
                                           .address = address,
                                           .size = size});
    return mp_live_find(&r->live, address);
}

static void collect(mp_recorder *r)
{
    mp_recorder_marked(r);
    r->completed = r->collections;
}

static mp_pprof_decoded flush(mp_recorder *r, unsigned labels)
{
    mp_snapshot *snapshot;
    mp_buffer bytes = {0};
    mp_pprof_decoded decoded;
    char why[MP_PPROF_WHY_LEN];
    int done = 0;
    CHECK_INT(mp_snapshot_new(&snapshot, r, labels, 1), MP_OK);
    CHECK_INT(mp_snapshot_begin(snapshot), MP_OK);
    mp_snapshot_step(snapshot, 1000, &done);
    CHECK(done);
    CHECK_INT(mp_snapshot_encode(snapshot, &(mp_snapshot_header){0}, &bytes), MP_OK);
    mp_snapshot_free(snapshot);
    if (!CHECK_INT(mp_pprof_decode(bytes.data, bytes.len, 1 << 20, &decoded, why, sizeof why),
                   MP_OK))
        exit(1);
    mp_buffer_free(&bytes);
    return decoded;
}

static void check_deviations(const mp_pprof_sample *sample, const double variances[4])
{
    if (!CHECK(sample->deviations != NULL)) return;
    for (int v = 0; v < 4; v++) CHECK_INT(sample->deviations[v], llround(sqrt(variances[v])));
}

/* Three of 40 bytes and one that grows to 4000, twice; then the small ones die. */
static void test_uneven(void)
{
    mp_recorder *r = recorder_with(10);
    for (uint64_t i = 1; i <= 3; i++) allocate(r, 0x1000 * i, 40);
    uint32_t large = allocate(r, 0x9000, 40);
    mp_recorder_measured(r, large, 1000);
    mp_recorder_measured(r, large, 4000);
    collect(r);
    mp_pprof_decoded decoded = flush(r, 0);
    CHECK_UINT(decoded.profile.n_samples, 1);
    CHECK_INT(decoded.profile.samples[0].values[1], 10 * (3 * 40 + 4000));
    double space = 90.0 * (3 * 40 * 40 + 4000.0 * 4000);
    check_deviations(&decoded.profile.samples[0], (double[]){4 * 90, space, 4 * 90, space});
    mp_pprof_decoded_free(&decoded);

    for (uint64_t i = 1; i <= 3; i++) mp_recorder_died(r, mp_live_find(&r->live, 0x1000 * i));
    mp_recorder_measured(r, large, 2000); /* what was allocated stays */
    decoded = flush(r, 0);
    CHECK_INT(decoded.profile.samples[0].values[3], 10 * 2000);
    check_deviations(&decoded.profile.samples[0],
                     (double[]){4 * 90, space, 90, 90.0 * 2000 * 2000});
    mp_pprof_decoded_free(&decoded);
    mp_recorder_release(r);
}

/* Two ages: two rows, the one in use is even, and what was allocated is not. */
static void test_ages(void)
{
    mp_recorder *r = recorder_with(5);
    mp_recorder_measured(r, allocate(r, 0x1000, 40), 4000);
    collect(r);
    allocate(r, 0x2000, 40);
    collect(r);
    mp_pprof_decoded decoded = flush(r, MP_LABEL_AGE);
    CHECK_UINT(decoded.profile.n_samples, 3);
    for (uint32_t i = 0; i < 3; i++) {
        const mp_pprof_sample *sample = &decoded.profile.samples[i];
        if (sample->values[0]) {
            check_deviations(sample, (double[]){2 * 20, 20 * (1600 + 16e6), 0, 0});
        } else {
            CHECK(sample->deviations == NULL);
        }
    }
    mp_pprof_decoded_free(&decoded);
    mp_recorder_release(r);
}

/* Where it follows from the values, or where there is none, it is not written. */
static void test_left_out(uint32_t interval, uint64_t largest)
{
    mp_recorder *r = recorder_with(interval);
    for (uint64_t i = 1; i <= 20; i++) {
        mp_recorder_measured(r, allocate(r, 0x1000 * i, 40), i % 2 ? 40 : largest);
    }
    collect(r);
    mp_pprof_decoded decoded = flush(r, 0);
    CHECK_UINT(decoded.profile.n_samples, 1);
    CHECK(decoded.profile.samples[0].deviations == NULL);
    mp_pprof_decoded_free(&decoded);
    mp_recorder_release(r);
}

int main(void)
{
    test_uneven();
    test_ages();
    test_left_out(10, 40);
    test_left_out(512, 41);
    test_left_out(1, 1000000);
    return check_report();
}
