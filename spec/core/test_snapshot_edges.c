/*
 * Snapshots at the edges: what the profile says of itself, an empty recorder, sampled weights, a
 * class that comes to light while the copy is under way, lost collections, forks, giving up.
 */
#include "audit.h"
#include "check.h"
#include "error.h"
#include "pprof.h"
#include "program.h"
#include "program_check.h"
#include "snapshot.h"

#include <stdlib.h>

static program *program_with(uint32_t interval, uint32_t one_in, uint64_t seed)
{
    mp_options options = {interval, one_in, 0, 64, seed};
    return program_new(&options);
}

static mp_snapshot *begin(program *p, unsigned labels, uintptr_t owner)
{
    mp_snapshot *snapshot;
    name_all(p);
    if (!CHECK_INT(snapshot_begun(&snapshot, p->recorder, labels, owner), MP_OK)) exit(1);
    return snapshot;
}

static void copy_all(mp_snapshot *snapshot)
{
    for (int done = 0; !done;) mp_snapshot_step(snapshot, 50, &done);
}

static mp_pprof_decoded encode(mp_snapshot *snapshot, const mp_snapshot_header *header)
{
    mp_buffer bytes = {0};
    mp_pprof_decoded decoded;
    char why[MP_PPROF_WHY_LEN];
    CHECK_INT(mp_snapshot_encode(snapshot, header, &bytes), MP_OK);
    int error = mp_pprof_decode(bytes.data, bytes.len, 1 << 28, &decoded, why, sizeof why);
    if (!CHECK_INT(error, MP_OK)) exit(1);
    mp_buffer_free(&bytes);
    return decoded;
}

static const char *text(const mp_pprof *profile, uint32_t string)
{
    static char copies[8][256];
    static int next;
    char *copy = copies[next++ % 8];
    snprintf(copy, sizeof copies[0], "%.*s", (int)profile->strings[string].len,
             profile->strings[string].ptr);
    return copy;
}

static values sums(const mp_pprof *profile)
{
    values sum = {0};
    for (uint32_t i = 0; i < profile->n_samples; i++) {
        const int64_t *v = profile->samples[i].values;
        sum.alloc_objects += (uint64_t)v[0];
        sum.alloc_space += (uint64_t)v[1];
        sum.inuse_objects += (uint64_t)v[2];
        sum.inuse_space += (uint64_t)v[3];
    }
    return sum;
}

/* ---- the profile ----------------------------------------------------------------------------- */

static void check_header(const mp_pprof *profile, int64_t interval)
{
    static const char *const types[] = {"alloc_objects", "count", "alloc_space", "bytes",
                                        "inuse_objects", "count", "inuse_space", "bytes"};
    CHECK_UINT(profile->n_types, 4);
    for (uint32_t i = 0; i < 8; i++) CHECK_STR(text(profile, profile->sample_types[i]), types[i]);
    CHECK_STR(text(profile, profile->default_sample_type), "inuse_space");
    CHECK_STR(text(profile, profile->period_type), "objects");
    CHECK_STR(text(profile, profile->period_unit), "count");
    CHECK_INT(profile->period, interval);
    CHECK_STR(text(profile, profile->mapping_file), "ruby");
    CHECK_INT(profile->duration_nanos, 0);
    CHECK_UINT(profile->strings[0].len, 0);
}

static void test_header(void)
{
    program *p = program_with(512, 3, 1);
    for (int i = 0; i < 20000; i++) allocate(p);
    mp_snapshot *snapshot = begin(p, 0, 1);
    copy_all(snapshot);
    const char *comments[] = {"interval: 512", "count", "", "interval: 512"};
    mp_snapshot_header header = {
        .comments = comments, .n_comments = 4, .time_nanos = INT64_C(1796000000123456789)};
    mp_pprof_decoded decoded = encode(snapshot, &header);
    check_header(&decoded.profile, 512);
    CHECK_INT(decoded.profile.time_nanos, INT64_C(1796000000123456789));
    CHECK_UINT(decoded.profile.n_comments, 4);
    for (uint32_t i = 0; i < decoded.profile.n_comments; i++) {
        CHECK_STR(text(&decoded.profile, decoded.profile.comments[i]), comments[i]);
    }
    CHECK(decoded.profile.n_samples > 0);
    mp_pprof_decoded_free(&decoded);
    mp_snapshot_free(snapshot);
    program_free(p);
}

static void test_empty(void)
{
    program *p = program_with(1, 1, 1);
    mp_snapshot *snapshot = begin(p, MP_LABEL_CLASS | MP_LABEL_AGE | MP_LABEL_THREAD, 1);
    copy_all(snapshot);
    mp_snapshot_header header = {0};
    mp_pprof_decoded decoded = encode(snapshot, &header);
    check_header(&decoded.profile, 1);
    CHECK_UINT(decoded.profile.n_samples, 0);
    CHECK_UINT(decoded.profile.n_locations, 0);
    CHECK_UINT(mp_snapshot_live_samples(snapshot), 0);
    mp_pprof_decoded_free(&decoded);
    mp_snapshot_free(snapshot);
    audit(p->recorder);
    program_free(p);
}

/* Sampled: every value is a whole multiple of its weight, and the same as the tables say. */
static void test_weights(void)
{
    program *p = program_with(20, 3, 2);
    for (int i = 0; i < 20000; i++) {
        allocate(p);
        if (i % 900 == 0) collect(p, 10);
    }
    measure_all(p);
    p->recorder->doublings = 1; /* thinned once */
    mp_recorder_thin(p->recorder);
    static cells recorded;
    values other;
    read_recorder(p, recorded, &other);
    values expected = total(recorded);
    for (unsigned labels = 0; labels < 8; labels++) {
        mp_snapshot *snapshot = begin(p, labels, 1);
        copy_all(snapshot);
        mp_snapshot_header header = {0};
        mp_pprof_decoded decoded = encode(snapshot, &header);
        values sum = sums(&decoded.profile);
        CHECK(memcmp(&sum, &expected, sizeof sum) == 0);
        for (uint32_t i = 0; i < decoded.profile.n_samples; i++) {
            CHECK_INT(decoded.profile.samples[i].values[0] % 20, 0);
            CHECK_INT(decoded.profile.samples[i].values[2] % 120, 0);
        }
        CHECK_UINT(mp_snapshot_live_objects(snapshot), expected.inuse_objects);
        CHECK_UINT(mp_snapshot_live_samples(snapshot) * 120, expected.inuse_objects);
        mp_pprof_decoded_free(&decoded);
        mp_snapshot_free(snapshot);
    }
    program_free(p);
}

/* ---- what may happen meanwhile --------------------------------------------------------------- */

/*
 * A sample in use, whose class was not known at the beginning, gets one before it is copied: it
 * moves to a site that the snapshot does not know. It is in use all the same.
 */
static void test_class_comes_to_light(unsigned labels)
{
    program *p = program_with(1, 1, 3);
    for (int i = 0; i < 300; i++) allocate(p);
    for (int i = 0; i < 100; i++) {
        uint32_t at = p->spare[--p->n_spare];
        allocate_at(p, at, true);
        p->objects[at].size = p->objects[at].slot;
    }
    p->collections = p->recorder->completed = ++p->recorder->collections;
    mp_snapshot *snapshot = begin(p, labels, 1);
    uint64_t space = 0;
    for (uint32_t at = 0; at < OBJECTS; at++) {
        if (p->objects[at].alive) space += p->objects[at].measured;
    }
    int done;
    mp_snapshot_step(snapshot, 10, &done);
    for (uint32_t at = 0; at < OBJECTS; at++) class_known(p, at, at % CLASSES);
    name_all(p);
    mp_recorder_fold(p->recorder); /* another flush */
    copy_all(snapshot);
    mp_snapshot_header header = {0};
    mp_pprof_decoded decoded = encode(snapshot, &header);
    values sum = sums(&decoded.profile);
    CHECK_UINT(sum.inuse_objects, 400);
    CHECK_UINT(sum.inuse_space, space);
    CHECK_UINT(sum.alloc_objects, 300); /* the others' were waiting */
    CHECK_UINT(mp_snapshot_live_samples(snapshot), 400);
    mp_pprof_decoded_free(&decoded);
    mp_snapshot_free(snapshot);

    snapshot = begin(p, labels, 1);
    copy_all(snapshot);
    decoded = encode(snapshot, &header);
    sum = sums(&decoded.profile);
    CHECK_UINT(sum.inuse_objects, 400);
    CHECK_UINT(sum.alloc_objects, 400);
    mp_pprof_decoded_free(&decoded);
    mp_snapshot_free(snapshot);
    program_free(p);
}

static void test_lost(void)
{
    program *p = program_with(1, 1, 4);
    for (int i = 0; i < 2000; i++) step(p, 0);
    collect(p, 5);
    uint32_t living = mp_live_count(&p->recorder->live);
    mp_snapshot *snapshot = begin(p, MP_LABEL_AGE, 1);
    int done;
    mp_snapshot_step(snapshot, 100, &done);
    CHECK(!mp_snapshot_spoiled(snapshot));
    lose(p);
    CHECK(mp_snapshot_spoiled(snapshot));
    CHECK_UINT(p->recorder->counts.lost_samples, living);
    for (int i = 0; i < 1000; i++) step(p, 0);
    copy_all(snapshot); /* worthless, but legal */
    mp_snapshot_free(snapshot);
    snapshot = begin(p, MP_LABEL_AGE, 1);
    copy_all(snapshot);
    CHECK(!mp_snapshot_spoiled(snapshot));
    mp_snapshot_free(snapshot);
    check_exact(p);
    audit(p->recorder);
    program_free(p);
}

/* In a forked child, other threads' flushes are gone, and their snapshots with them. */
static void test_fork(void)
{
    program *p = program_with(1, 1, 5);
    mp_recorder *r = p->recorder;
    for (int i = 0; i < 1500; i++) step(p, 0);
    measure_all(p);
    mp_snapshot *mine = begin(p, 0, 7), *others[3];
    for (uintptr_t i = 0; i < 3; i++) others[i] = begin(p, (unsigned)i, i + 1);
    int done;
    mp_snapshot_step(others[1], 100, &done);
    mp_snapshot_step(mine, 100, &done);
    CHECK_UINT(r->holders, 5);
    mp_snapshots_keep(r, 7);
    CHECK_UINT(r->holders, 2);
    for (int i = 0; i < 500; i++) step(p, 0);
    copy_all(mine);
    mp_snapshot_header header = {0};
    mp_pprof_decoded decoded = encode(mine, &header);
    CHECK(decoded.profile.n_samples > 0);
    mp_pprof_decoded_free(&decoded);
    mp_snapshot_free(mine);
    CHECK_UINT(r->holders, 1);
    CHECK(r->live.cursors == NULL);
    audit(r);

    /* The child has let go of the collector already; the last snapshot takes the rest along. */
    begin(p, 0, 1);
    mp_recorder_release(r);
    mp_snapshots_keep(r, 7);
    p->recorder = NULL;
    program_free(p);
}

/* Given up half-way: nothing is left behind. */
static void test_given_up(void)
{
    program *p = program_with(1, 1, 6);
    for (int i = 0; i < 1500; i++) step(p, 0);
    name_all(p);
    mp_recorder_fold(p->recorder);
    uint32_t strings = mp_strings_count(&p->recorder->strings);
    for (unsigned labels = 0; labels < 8; labels++) {
        mp_snapshot *snapshot = begin(p, labels, 1);
        int done;
        mp_snapshot_step(snapshot, labels * 50, &done);
        mp_snapshot_free(snapshot);
        CHECK_UINT(mp_strings_count(&p->recorder->strings), strings);
        CHECK(p->recorder->live.cursors == NULL && p->recorder->snapshots == NULL);
    }
    audit(p->recorder);
    program_free(p);
}

/* Strings without end leave no room for the profile's own words, and it is written all the same. */
static void test_strings_full(void)
{
    program *p = program_with(1, 1, 9);
    mp_strings *strings = &p->recorder->strings;
    for (int i = 0; i < 300; i++) allocate(p);
    name_all(p);
    strings->slabs.cap = strings->slabs.in_use;
    strings->bytes_cap = strings->bytes;
    size_t before = strings->bytes;
    mp_snapshot *snapshot = begin(p, MP_LABEL_CLASS | MP_LABEL_AGE | MP_LABEL_PID, 1);
    copy_all(snapshot);
    mp_snapshot_header header = {0};
    mp_pprof_decoded decoded = encode(snapshot, &header);
    check_header(&decoded.profile, 1);
    CHECK_UINT(sums(&decoded.profile).alloc_objects, 300);
    mp_pprof_decoded_free(&decoded);
    mp_snapshot_free(snapshot);
    CHECK_UINT(strings->bytes, before);
    CHECK_UINT(mp_strings_intern(strings, "one more", 8), MP_STRING_NONE);
    audit(p->recorder);
    program_free(p);
}

int main(void)
{
    test_strings_full();
    test_header();
    test_empty();
    test_weights();
    for (unsigned labels = 0; labels < 8; labels++) test_class_comes_to_light(labels);
    test_lost();
    test_fork();
    test_given_up();
    return check_report();
}
