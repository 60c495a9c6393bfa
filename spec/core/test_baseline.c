/*
 * Differences: what a snapshot has less what an earlier one of the same recorder had, against plain
 * arithmetic on what truly happened; and that no error it states is smaller than the truth.
 */
#include "audit.h"
#include "baseline.h"
#include "mem.h"
#include "program_profile.h"
#include "snapshot.h"

#include <math.h>
#include <stdlib.h>

typedef struct {
    int64_t of[4];
    double variances[4];
} row;

typedef row rows[SHAPES][CLASSES + 1];

/* ---- the truth ------------------------------------------------------------------------------- */

static void add_in_use(const program *p, rows into, int sign)
{
    for (uint32_t at = 0; at < OBJECTS; at++) {
        const object *o = &p->objects[at];
        if (!o->alive || o->lost || o->born >= p->collections) continue;
        into[o->shape][o->klass].of[2] += sign;
        into[o->shape][o->klass].of[3] += sign * (int64_t)o->measured;
    }
}

static void add_truth(const program *p, rows into, int sign, bool in_use)
{
    for (uint32_t s = 0; s < SHAPES; s++) {
        for (uint32_t k = 0; k <= CLASSES; k++) {
            for (uint32_t t = 0; t < THREADS; t++) {
                into[s][k].of[0] += sign * (int64_t)p->truth[s][k][t].alloc_objects;
                into[s][k].of[1] += sign * (int64_t)p->truth[s][k][t].alloc_space;
            }
        }
    }
    if (in_use) add_in_use(p, into, sign);
}

/* ---- what the snapshot says ------------------------------------------------------------------ */

static mp_snapshot *taken(program *p, const mp_baseline *since, bool in_use)
{
    mp_snapshot *s;
    int done = 0;
    CHECK_INT(mp_snapshot_new(&s, p->recorder, MP_LABEL_CLASS, 1), MP_OK);
    measure_all(p);
    name_all(p);
    mp_snapshot_since(s, since, in_use);
    if (!CHECK_INT(mp_snapshot_begin(s), MP_OK)) exit(1);
    while (!done) mp_snapshot_step(s, 100, &done);
    CHECK(!mp_snapshot_spoiled(s));
    return s;
}

static mp_baseline *baseline_of(const mp_snapshot *s, bool in_use)
{
    mp_baseline *baseline = mp_snapshot_baseline(s, in_use);
    if (!CHECK(baseline != NULL)) exit(1);
    CHECK((baseline->in_use != NULL) == in_use);
    CHECK(mp_baseline_memsize(baseline) > (in_use ? 56u : 24u) * baseline->sites);
    return baseline;
}

static void read_sample(const program *p, const mp_pprof *profile, const mp_pprof_sample *sample,
                        rows into)
{
    uint32_t shape = shape_of_sample(p, profile, sample), klass = OTHER;
    for (uint32_t l = 0; l < sample->n_labels; l++) {
        if (!is(profile, sample->labels[l].key, "class")) continue;
        klass = number_after(profile, sample->labels[l].str, "Class");
        if (is(profile, sample->labels[l].str, "(hidden)")) klass = HIDDEN;
    }
    const int64_t *v = sample->values;
    CHECK(v[0] || v[1] || v[2] || v[3]);
    if (!CHECK(shape != OTHER && klass <= HIDDEN)) return;
    row *r = &into[shape][klass];
    CHECK(!r->of[0] && !r->of[1] && !r->of[2] && !r->of[3]); /* none comes twice */
    double weight = p->recorder->options.interval;
    for (int i = 0; i < 4; i++) {
        r->of[i] = v[i];
        /* As Profile::Sampling has it. */
        double objects = fabs((double)v[i & 2]);
        double even = objects > 0 ? (weight - 1) * (double)v[i] * (double)v[i] / objects : 0;
        double told = sample->deviations ? (double)sample->deviations[i] : 0;
        r->variances[i] = sample->deviations ? told * told : even;
    }
}

static void read_output(program *p, mp_snapshot *s, rows into)
{
    mp_buffer bytes = {0};
    mp_snapshot_header header = {.time_nanos = 5, .duration_nanos = 3};
    CHECK_INT(mp_snapshot_encode(s, &header, &bytes), MP_OK);
    mp_pprof_decoded decoded = decode(&bytes);
    CHECK_INT(decoded.profile.duration_nanos, 3);
    memset(into, 0, sizeof(rows));
    for (uint32_t i = 0; i < decoded.profile.n_samples; i++) {
        read_sample(p, &decoded.profile, &decoded.profile.samples[i], into);
    }
    mp_pprof_decoded_free(&decoded);
    mp_buffer_free(&bytes);
}

static void check_rows(rows actual, rows expected)
{
    for (uint32_t s = 0; s < SHAPES; s++) {
        for (uint32_t k = 0; k <= CLASSES; k++) {
            for (int i = 0; i < 4; i++) CHECK_INT(actual[s][k].of[i], expected[s][k].of[i]);
        }
    }
}

/* ---- values ---------------------------------------------------------------------------------- */

static void live(program *p, int steps, unsigned what)
{
    for (int i = 0; i < steps; i++) step(p, what);
    name_all(p);
}

/* Each snapshot is also the next one's baseline; and one is of two rounds ago. */
static void test_values(uint64_t seed, bool in_use)
{
    mp_options options = {.interval = 1, .track_one_in = 1, .max_depth = 64, .seed = seed};
    program *p = program_new(&options);
    static rows before, older, expected, actual;
    memset(before, 0, sizeof before);
    memset(older, 0, sizeof older);
    mp_baseline *last = NULL, *far = NULL;
    for (int round = 0; round < 5; round++) {
        live(p, round == 3 ? 0 : 900, EVERYTHING);
        if (round == 4) lose(p);
        const mp_baseline *since = round == 2 ? far : last;
        mp_snapshot *s = taken(p, since, in_use);
        mp_baseline *next = baseline_of(s, in_use);
        memcpy(expected, round == 2 ? older : before, sizeof expected);
        memcpy(older, before, sizeof older);
        memset(before, 0, sizeof before);
        add_truth(p, before, -1, in_use);
        add_truth(p, expected, 1, true);
        read_output(p, s, actual);
        check_rows(actual, expected);
        read_output(p, s, actual); /* nothing is used up */
        check_rows(actual, expected);
        mp_snapshot_free(s);
        mp_baseline_free(far);
        far = last;
        last = next;
    }
    audit(p->recorder);
    mp_baseline_free(far);
    mp_baseline_free(last);
    program_free(p);
}

/* ---- errors ---------------------------------------------------------------------------------- */

typedef struct {
    double weight, size;
    uint32_t born, shape, klass;
} sampled;

static void note_samples(const program *p, sampled *into)
{
    const mp_recorder *r = p->recorder;
    memset(into, 0, OBJECTS * sizeof *into);
    for (uint32_t at = 0; at < OBJECTS; at++) {
        const object *o = &p->objects[at];
        uint32_t id = o->alive && !o->lost ? mp_live_find(&r->live, object_address(p, at)) : 0;
        if (!id || o->born >= p->collections) continue;
        const mp_live_entry *entry = mp_live_at(&r->live, id);
        if (entry->flags & MP_LIVE_PASSING) continue;
        into[at] = (sampled){(double)mp_recorder_live_weight(r, entry->doublings),
                             (double)entry->size, o->born, o->shape, o->klass};
    }
}

static void add_variance(rows into, const sampled *at, double bytes)
{
    double square = at->weight * (at->weight - 1);
    into[at->shape][at->klass].variances[2] += square * (bytes > 0);
    into[at->shape][at->klass].variances[3] += square * bytes * bytes;
}

/* Of what is in use: who came, who went, and who stayed with another size. */
static void true_variances(const sampled *before, const sampled *after, rows into)
{
    memset(into, 0, sizeof(rows));
    for (uint32_t at = 0; at < OBJECTS; at++) {
        const sampled *b = &before[at], *a = &after[at];
        if (b->size > 0 && a->size > 0 && b->born == a->born && b->shape == a->shape) {
            row *r = &into[a->shape][a->klass];
            double grown = a->size - b->size;
            r->variances[3] += a->weight * (a->weight - 1) * grown * grown;
        } else {
            if (b->size > 0) add_variance(into, b, b->size);
            if (a->size > 0) add_variance(into, a, a->size);
        }
    }
}

/* Deviations are whole numbers. */
static bool at_least(double told, double truth)
{
    return sqrt(told) + 0.51 >= sqrt(truth / 1.05);
}

static void test_errors(uint64_t seed, bool sizes_change)
{
    mp_options options = {.interval = 4, .track_one_in = 1, .max_depth = 64, .seed = seed};
    program *p = program_new(&options);
    sampled *before = malloc(OBJECTS * sizeof *before), *after = malloc(OBJECTS * sizeof *after);
    static rows told, truth;
    live(p, 2500, LATE | ENDINGS | TIDY);
    collect(p, 5);
    mp_snapshot *s = taken(p, NULL, true);
    mp_baseline *baseline = baseline_of(s, true);
    mp_snapshot_free(s);
    note_samples(p, before);
    for (int i = 0; i < 600; i++) {
        if (sizes_change) resize(p, dice_roll(&p->dice, OBJECTS));
        allocate(p);
    }
    collect(p, 10);
    s = taken(p, baseline, true);
    note_samples(p, after);
    read_output(p, s, told);
    true_variances(before, after, truth);
    uint32_t rows_checked = 0, small = 0, far = 0;
    for (uint32_t k = 0; k < SHAPES * (CLASSES + 1); k++) {
        const row *t = &told[k / (CLASSES + 1)][k % (CLASSES + 1)];
        const row *r = &truth[k / (CLASSES + 1)][k % (CLASSES + 1)];
        if (!t->of[0] && !t->of[1] && !t->of[2] && !t->of[3]) continue; /* not in the output */
        rows_checked++;
        small += !at_least(t->variances[2], r->variances[2]);
        small += !at_least(t->variances[3], r->variances[3]);
        /* Nor larger, where no sample has changed. (A reader's own guess may be.) */
        double least = 3 * fabs((double)t->of[2]);
        far += sqrt(t->variances[2]) > sqrt(fmax(r->variances[2], least) * 1.06) + 0.51;
    }
    CHECK(rows_checked > 50);
    CHECK_UINT(small, 0);
    if (!sizes_change) CHECK_UINT(far, 0);
    mp_snapshot_free(s);
    mp_baseline_free(baseline);
    free(before);
    free(after);
    program_free(p);
}

/* ---- by hand --------------------------------------------------------------------------------- */

static uint32_t allocate_in(mp_recorder *r, uint64_t address, uint64_t size)
{
    mp_recorder_sample(r, &(mp_allocation){.stack = r->overflow_stack,
                                           .klass = r->overflow_class,
                                           .address = address,
                                           .size = size});
    return mp_live_find(&r->live, address);
}

static mp_snapshot *of(mp_recorder *r, const mp_baseline *since, bool in_use)
{
    mp_snapshot *s;
    int done = 0;
    mp_recorder_marked(r);
    r->completed = r->collections;
    CHECK_INT(mp_snapshot_new(&s, r, 0, 1), MP_OK);
    mp_snapshot_since(s, since, in_use);
    CHECK_INT(mp_snapshot_begin(s), MP_OK);
    while (!done) mp_snapshot_step(s, 7, &done);
    return s;
}

static void check_only(mp_recorder *r, const mp_baseline *since, bool in_use,
                       const int64_t expected[4], const double variances[4])
{
    mp_snapshot *s = of(r, since, in_use);
    mp_buffer bytes = {0};
    CHECK_INT(mp_snapshot_encode(s, &(mp_snapshot_header){0}, &bytes), MP_OK);
    mp_pprof_decoded decoded = decode(&bytes);
    CHECK_UINT(decoded.profile.n_samples, expected ? 1 : 0);
    if (expected && decoded.profile.n_samples) {
        const mp_pprof_sample *sample = &decoded.profile.samples[0];
        for (int v = 0; v < 4; v++) CHECK_INT(sample->values[v], expected[v]);
        CHECK((sample->deviations != NULL) == (variances != NULL));
        for (int v = 0; v < 4 && variances && sample->deviations; v++) {
            CHECK_INT(sample->deviations[v], llround(sqrt(variances[v])));
        }
    }
    mp_pprof_decoded_free(&decoded);
    mp_buffer_free(&bytes);
    mp_snapshot_free(s);
}

/* Five of 40 bytes at 1 in 10: two die, one grows to 400, one of 80 comes. 10 * 9 = 90. */
static void test_by_hand(void)
{
    mp_options options = {.interval = 10, .track_one_in = 1, .max_depth = 8, .seed = 1};
    mp_recorder *r = mp_recorder_new(&options);
    uint32_t ids[5];
    for (uint64_t i = 0; i < 5; i++) ids[i] = allocate_in(r, 0x1000 + 0x100 * i, 40);
    mp_snapshot *s = of(r, NULL, true);
    mp_baseline *baseline = baseline_of(s, true), *allocated = baseline_of(s, false);
    mp_snapshot_free(s);
    check_only(r, baseline, true, NULL, NULL); /* nothing happened */
    check_only(r, allocated, false, (int64_t[]){0, 0, 50, 2000}, NULL);

    mp_recorder_died(r, ids[0]);
    mp_recorder_died(r, ids[1]);
    check_only(r, baseline, true, (int64_t[]){0, 0, -20, -800}, NULL);
    mp_recorder_measured(r, ids[2], 400);
    /* Bytes were allocated, and no object: a reader could make no guess. */
    double grown = 90.0 * (400 * 400 - 40 * 40);
    double on_both = 90.0 * (3 * 40 * 40 + 400 * 400);
    check_only(r, baseline, true, (int64_t[]){0, 3600, -20, -800 + 3600},
               (double[]){0, grown, 90 * 4, on_both});
    /* As if the ten had all 4400 bytes: more than grown + 90 * 6400, and never less than the truth. */
    allocate_in(r, 0x9000, 80);
    check_only(r, baseline, true, (int64_t[]){10, 3600 + 800, -10, -800 + 3600 + 800},
               (double[]){90, 90 * 440 * 440, 90 * 5, on_both + 90 * 6400});
    /* One comes for one that goes: nothing in sum, but not for sure. */
    mp_baseline_free(baseline);
    s = of(r, NULL, true);
    baseline = baseline_of(s, true);
    mp_snapshot_free(s);
    mp_recorder_died(r, ids[3]);
    allocate_in(r, 0xa000, 40);
    check_only(r, baseline, true, (int64_t[]){10, 400, 0, 0},
               (double[]){90, 90 * 1600, 180, 180 * 1600});
    mp_baseline_free(baseline);
    mp_baseline_free(allocated);
    mp_recorder_release(r);
}

/* One of two is thinned out, the other counts twice: nothing in sum, but for luck. */
static void test_thinned(void)
{
    for (uint64_t seed = 1; seed <= 8; seed++) {
        mp_options options = {
            .interval = 10, .track_one_in = 1, .max_samples = 2, .max_depth = 8, .seed = seed};
        mp_recorder *r = mp_recorder_new(&options);
        for (uint64_t i = 1; i <= 2; i++) allocate_in(r, 0x1000 * i, 40);
        mp_snapshot *s = of(r, NULL, true);
        mp_baseline *baseline = baseline_of(s, true);
        mp_snapshot_free(s);
        r->doublings = 1;
        mp_recorder_thin(r);
        int64_t left = mp_live_count(&r->live);
        double variance = 2 * 90.0 + (double)left * 20 * 19;
        int64_t objects = 20 * left - 20;
        if (objects) { /* where both go, it is what a reader takes it for */
            double told[] = {0, 0, variance, variance * 1600};
            check_only(r, baseline, true, (int64_t[]){0, 0, objects, 40 * objects},
                       left ? told : NULL);
        } else {
            check_only(r, baseline, true, NULL, NULL);
        }
        mp_baseline_free(baseline);
        mp_recorder_release(r);
    }
}

/* When no number is left for a moment, every sample may have changed: what went counts, and what is. */
static void test_last_moment(void)
{
    mp_options options = {.interval = 10, .track_one_in = 1, .max_depth = 8, .seed = 1};
    mp_recorder *r = mp_recorder_new(&options);
    r->moments = MP_MOMENTS_MAX;
    uint32_t ids[2];
    for (uint64_t i = 0; i < 2; i++) ids[i] = allocate_in(r, 0x1000 + 0x100 * i, 40);
    mp_snapshot *s = of(r, NULL, true);
    mp_baseline *baseline = baseline_of(s, true);
    mp_snapshot_free(s);
    mp_recorder_measured(r, ids[0], 80);
    check_only(r, baseline, true, (int64_t[]){0, 400, 0, 400},
               (double[]){0, 90 * (6400 - 1600), 180, 90 * (1600 + 6400)});
    mp_baseline_free(baseline);
    mp_recorder_release(r);
}

static void test_no_memory(void)
{
    mp_options options = {.interval = 1, .track_one_in = 1, .max_depth = 8, .seed = 1};
    mp_recorder *r = mp_recorder_new(&options);
    allocate_in(r, 0x1000, 40);
    mp_snapshot *s = of(r, NULL, true);
    for (long n = 0; n < 3; n++) {
        mp_mem_fail_after(n);
        CHECK(mp_snapshot_baseline(s, true) == NULL);
        mp_mem_fail_after(-1);
    }
    mp_baseline *baseline = baseline_of(s, true);
    mp_snapshot_free(s);
    CHECK_INT(mp_snapshot_new(&s, r, 0, 1), MP_OK);
    mp_snapshot_since(s, baseline, true);
    int error = MP_ENOMEM;
    for (long n = 0; error && n < 30; n++) {
        mp_mem_fail_after(n);
        error = mp_snapshot_begin(s);
        mp_mem_fail_after(-1);
        if (!error) break;
        CHECK_INT(error, MP_ENOMEM);
        mp_snapshot_free(s);
        CHECK_INT(mp_snapshot_new(&s, r, 0, 1), MP_OK);
        mp_snapshot_since(s, baseline, true);
    }
    CHECK_INT(error, MP_OK);
    mp_snapshot_free(s);
    mp_baseline_free(baseline);
    mp_baseline_free(NULL);
    mp_recorder_release(r);
}

int main(void)
{
    for (uint64_t seed = 1; seed <= 3; seed++) {
        test_values(seed, true);
        test_values(seed, false);
        test_errors(seed, true);
        test_errors(seed, false);
    }
    test_by_hand();
    test_thinned();
    test_last_moment();
    test_no_memory();
    return check_report();
}
