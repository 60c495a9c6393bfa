/*
 * Snapshots: copied in pieces while the program goes on, they are the state as of their beginning.
 * What is encoded is decoded again, and every sample held against the truth, for all labels.
 */
#include "audit.h"
#include "check.h"
#include "error.h"
#include "pprof.h"
#include "program.h"
#include "program_check.h"
#include "program_profile.h"
#include "snapshot.h"

#include <stdlib.h>

#define AGES 24u

typedef values aged_cells[SHAPES][CLASSES + 1][THREADS][AGES];

/* The truth, as a snapshot with these labels must show it: what is not told apart stands at 0. */
static aged_cells *expect(const program *p, unsigned labels)
{
    aged_cells *all = calloc(1, sizeof *all);
    uint32_t class_step = labels & MP_LABEL_CLASS ? 1 : 0;
    uint32_t thread_step = labels & MP_LABEL_THREAD ? 1 : 0;
    for (uint32_t s = 0; s < SHAPES; s++) {
        for (uint32_t k = 0; k <= CLASSES; k++) {
            for (uint32_t t = 0; t < THREADS; t++) {
                values *v = &(*all)[s][k * class_step][t * thread_step][0];
                v->alloc_objects += p->truth[s][k][t].alloc_objects;
                v->alloc_space += p->truth[s][k][t].alloc_space;
            }
        }
    }
    for (uint32_t at = 0; at < OBJECTS; at++) {
        const object *o = &p->objects[at];
        if (!o->alive || o->lost || o->born >= p->collections) continue;
        uint32_t age = labels & MP_LABEL_AGE ? p->collections - o->born : 0;
        if (!CHECK(age < AGES)) exit(1);
        values *v = &(*all)[o->shape][o->klass * class_step][o->thread * thread_step][age];
        v->inuse_objects++;
        v->inuse_space += o->measured;
    }
    return all;
}

/* ---- reading a profile ----------------------------------------------------------------------- */

/* Each sample has its place in `expected`, with its values, and all places are found once. */
static void check_profile(const program *p, const mp_pprof *profile, unsigned labels,
                          aged_cells *expected)
{
    uint32_t wrong = 0, doubles = 0, left = 0;
    aged_cells *seen = calloc(1, sizeof *seen);
    for (uint32_t i = 0; i < profile->n_samples; i++) {
        const mp_pprof_sample *sample = &profile->samples[i];
        uint32_t shape = shape_of_sample(p, profile, sample), klass = 0, thread = 0, age = 0;
        for (uint32_t l = 0; l < sample->n_labels; l++) {
            const mp_pprof_label *label = &sample->labels[l];
            if (is(profile, label->key, "class") && labels & MP_LABEL_CLASS) {
                klass = number_after(profile, label->str, "Class");
                if (is(profile, label->str, "(hidden)")) klass = HIDDEN;
            } else if (is(profile, label->key, "thread") && labels & MP_LABEL_THREAD) {
                thread = number_after(profile, label->str, "thread");
            } else if (is(profile, label->key, "age") && labels & MP_LABEL_AGE) {
                CHECK(is(profile, label->num_unit, "collections") && label->str == 0);
                age = (uint32_t)label->num;
            } else {
                wrong++;
            }
        }
        if (shape == OTHER || klass > HIDDEN || thread >= THREADS || age >= AGES) {
            wrong++;
            continue;
        }
        values *at = &(*expected)[shape][klass][thread][age];
        values *before = &(*seen)[shape][klass][thread][age];
        doubles += before->alloc_objects++ > 0;
        const int64_t *v = sample->values;
        if (at->alloc_objects != (uint64_t)v[0] || at->alloc_space != (uint64_t)v[1] ||
            at->inuse_objects != (uint64_t)v[2] || at->inuse_space != (uint64_t)v[3]) {
            if (wrong++ < 3) {
                fprintf(stderr, "  shape %u class %u thread %u age %u: %d %d %d %d\n", shape, klass,
                        thread, age, (int)v[0], (int)v[1], (int)v[2], (int)v[3]);
            }
        }
        memset(at, 0, sizeof *at);
    }
    const values *rest = &(*expected)[0][0][0][0];
    for (size_t i = 0; i < sizeof *expected / sizeof *rest; i++) {
        left += rest[i].alloc_objects || rest[i].inuse_objects;
    }
    CHECK_UINT(wrong, 0);
    CHECK_UINT(doubles, 0);
    CHECK_UINT(left, 0);
    free(seen);
}

static void encode_and_check(program *p, mp_snapshot *snapshot, unsigned labels,
                             aged_cells *expected)
{
    mp_snapshot_header header = {0};
    mp_buffer bytes = {0}, again = {0};
    CHECK_INT(mp_snapshot_encode(snapshot, &header, &bytes), MP_OK);
    CHECK_INT(mp_snapshot_encode(snapshot, &header, &again), MP_OK);
    CHECK_BYTES(again.data, again.len, bytes.data, bytes.len);
    mp_pprof_decoded decoded = decode(&bytes);
    check_profile(p, &decoded.profile, labels, expected);
    mp_pprof_decoded_free(&decoded);
    mp_buffer_free(&bytes);
    mp_buffer_free(&again);
}

/* ---- while the program goes on --------------------------------------------------------------- */

typedef struct {
    mp_snapshot *snapshot;
    aged_cells *expected;
    unsigned labels;
    uint64_t live_samples;
    int done;
} taken;

/* All that can happen between two pieces. No object grows: sizes are as of the copying. */
static void meanwhile(program *p, uint32_t steps)
{
    dice *d = &p->dice;
    for (uint32_t i = 0; i < steps; i++) {
        if (dice_roll(d, 5) == 0 && p->n_spare) allocate_at(p, p->spare[--p->n_spare], true);
        allocate(p);
        if (dice_roll(d, 30) == 0) replace(p, dice_roll(d, OBJECTS));
        if (dice_roll(d, 20) == 0) function_dies(p, dice_roll(d, FUNCTIONS));
        if (dice_roll(d, 50) == 0) class_dies(p, dice_roll(d, CLASSES));
        uint32_t what = dice_roll(d, 150);
        if (what == 0) collect(p, 15);
        if (what > 3) continue;
        name_all(p);
        if (what == 1) mp_recorder_tidy(p->recorder);
        if (what == 2) mp_recorder_fold(p->recorder);
        if (what == 3) compact(p);
    }
}

static mp_snapshot *new_snapshot(program *p, unsigned labels)
{
    mp_snapshot *snapshot;
    if (!CHECK_INT(mp_snapshot_new(&snapshot, p->recorder, labels, 1), MP_OK)) exit(1);
    return snapshot;
}

/* Of a snapshot that is prepared, or (NULL) of a new one: the moment is the same. */
static taken begin(program *p, mp_snapshot *snapshot, unsigned labels)
{
    taken t = {.snapshot = snapshot ? snapshot : new_snapshot(p, labels), .labels = labels};
    measure_all(p); /* as a flush does */
    name_all(p);
    t.expected = expect(p, labels);
    for (uint32_t at = 0; at < OBJECTS; at++) {
        const object *o = &p->objects[at];
        t.live_samples += o->alive && !o->lost && o->born < p->collections;
    }
    CHECK_INT(mp_snapshot_begin(t.snapshot), MP_OK);
    return t;
}

static taken begin_in_pieces(program *p, unsigned labels)
{
    mp_snapshot *snapshot = new_snapshot(p, labels);
    uint32_t pieces = 0;
    for (int done = 0; !done; pieces++) {
        CHECK_INT(mp_snapshot_prepare(snapshot, 1 + dice_roll(&p->dice, 100), &done), MP_OK);
        meanwhile(p, dice_roll(&p->dice, 10));
    }
    CHECK(pieces > 5);
    return begin(p, snapshot, labels);
}

static void finish(program *p, taken *t)
{
    CHECK(!mp_snapshot_spoiled(t->snapshot));
    CHECK_UINT(mp_snapshot_live_samples(t->snapshot), t->live_samples);
    CHECK_UINT(mp_snapshot_live_objects(t->snapshot), t->live_samples); /* interval 1 */
    encode_and_check(p, t->snapshot, t->labels, t->expected);
    mp_snapshot_free(t->snapshot);
    free(t->expected);
}

static program *exact_program(uint64_t seed)
{
    mp_options options = {.interval = 1, .track_one_in = 1, .max_depth = 64, .seed = seed};
    return program_new(&options);
}

static void test_pieces(uint64_t seed, unsigned labels)
{
    program *p = exact_program(seed);
    for (int i = 0; i < 3000; i++) step(p, EVERYTHING & ~COMPACT);
    for (int round = 0; round < 2; round++) {
        taken t = round ? begin(p, NULL, labels) : begin_in_pieces(p, labels);
        while (!t.done) {
            mp_snapshot_step(t.snapshot, dice_roll(&p->dice, 120), &t.done);
            meanwhile(p, dice_roll(&p->dice, 40));
        }
        meanwhile(p, 300); /* between copy and encoding, too */
        finish(p, &t);
        name_all(p);
        audit(p->recorder);
    }
    check_exact(p); /* and a snapshot changes nothing */
    program_free(p);
}

/* Begun at different times, with different labels, each copied at its own pace. */
static void test_two_at_once(uint64_t seed)
{
    program *p = exact_program(seed);
    for (int i = 0; i < 2500; i++) step(p, EVERYTHING & ~LOSSES);
    taken one = begin_in_pieces(p, MP_LABEL_CLASS | MP_LABEL_AGE), two = {0};
    for (int round = 0; !one.done || !two.snapshot || !two.done; round++) {
        if (!one.done) mp_snapshot_step(one.snapshot, dice_roll(&p->dice, 60), &one.done);
        if (round == 6) two = begin_in_pieces(p, MP_LABEL_THREAD);
        if (two.snapshot && !two.done) {
            mp_snapshot_step(two.snapshot, dice_roll(&p->dice, 150), &two.done);
        }
        meanwhile(p, 20);
    }
    finish(p, &two);
    finish(p, &one);
    name_all(p);
    audit(p->recorder);
    program_free(p);
}

/* The snapshot holds what it needs: the collector may be gone before it is encoded. */
static void test_outlives_recorder(void)
{
    program *p = exact_program(5);
    for (int i = 0; i < 2500; i++) step(p, EVERYTHING & ~LOSSES);
    taken t = begin(p, NULL, MP_LABEL_CLASS | MP_LABEL_AGE | MP_LABEL_THREAD);
    mp_snapshot_step(t.snapshot, UINT32_MAX, &t.done);
    CHECK_INT(t.done, 1);
    mp_snapshot_step(t.snapshot, 1, &t.done); /* done already */
    CHECK_INT(t.done, 1);
    mp_recorder_release(p->recorder);
    p->recorder = NULL;
    finish(p, &t);
    program_free(p);
}

/* stop during a flush: the living are what they were. */
static void test_frozen_meanwhile(void)
{
    program *p = exact_program(6);
    for (int i = 0; i < 2500; i++) step(p, EVERYTHING & ~LOSSES);
    taken t = begin(p, NULL, MP_LABEL_CLASS | MP_LABEL_AGE);
    mp_snapshot_step(t.snapshot, 100, &t.done);
    mp_recorder_fold(p->recorder);
    mp_recorder_freeze(p->recorder);
    mp_snapshot_step(t.snapshot, UINT32_MAX, &t.done);
    finish(p, &t);
    t = begin(p, NULL, MP_LABEL_CLASS); /* and a flush after stop */
    mp_snapshot_step(t.snapshot, UINT32_MAX, &t.done);
    finish(p, &t);
    program_free(p);
}

int main(void)
{
    for (unsigned labels = 0; labels < 8; labels++) test_pieces(labels + 1, labels);
    for (uint64_t seed = 1; seed <= 3; seed++) test_two_at_once(seed);
    test_outlives_recorder();
    test_frozen_meanwhile();
    return check_report();
}
