/*
 * Sampled runs of a simulated program against the truth: each total within 5 sigma, and over all
 * seeds together within 4, so that a bias of a few percent shows. Sigma is the true one: an object
 * counted with probability q and weight 1/q has variance (1/q - 1) * value^2.
 */
#define OBJECTS 10000u
#include "audit.h"
#include "check.h"
#include "program.h"
#include "program_check.h"

#include <math.h>

#define SEEDS 8
#define STEPS 12000

/* Estimate minus truth, and its variance, summed over the seeds. */
typedef struct {
    const char *what;
    double error, variance;
} bias;

static void add_error(bias *of, double estimate, double truth, double variance,
                      const mp_options *options)
{
    double error = estimate - truth;
    of->error += error;
    of->variance += variance;
    if (CHECK(fabs(error) <= 5 * sqrt(variance))) return;
    fprintf(stderr, "  %s: %.0f, not %.0f, z %.2f (interval %u, one in %u, cap %u, seed %d)\n",
            of->what, estimate, truth, error / sqrt(variance), options->interval,
            options->track_one_in, options->max_samples, (int)options->seed);
}

static void check_bias(const bias *of)
{
    if (CHECK(fabs(of->error) <= 4 * sqrt(of->variance))) return;
    fprintf(stderr, "  %s: z %.2f over all seeds\n", of->what, of->error / sqrt(of->variance));
}

/* Where measuring is legal: at once, or not before the next collection. */
static void thin(program *p)
{
    mp_recorder *r = p->recorder;
    if (!r->wants_thinning) return;
    uint64_t thinned = r->counts.thinned;
    uint32_t living = mp_live_count(&r->live);
    measure_all(p);
    mp_recorder_thin(r);
    p->doublings = r->doublings;
    CHECK_UINT(r->counts.thinned - thinned, living - mp_live_count(&r->live));
    CHECK(!r->wants_thinning);
    for (uint32_t id = 0; (id = mp_live_next(&r->live, id)) != 0;) {
        CHECK_UINT(mp_live_at(&r->live, id)->doublings, r->doublings);
    }
}

static void run(program *p, bool at_once)
{
    mp_recorder *r = p->recorder;
    dice *d = &p->dice;
    for (int i = 1; i <= STEPS; i++) {
        allocate(p);
        resize(p, dice_roll(d, OBJECTS));
        if (at_once) thin(p);
        if (i % 100 == 0) function_dies(p, dice_roll(d, FUNCTIONS));
        if (i % 20 == 0) name_all(p);
        if (i % 900 == 0) mp_recorder_tidy(r);
        if (i % 500 == 0) {
            /* Thinning that waits: what is measured meanwhile has at most the new weight. */
            p->doublings = r->doublings;
            collect(p, 4);
            thin(p);
        }
        if (i % 4000 == 0) {
            measure_all(p);
            check_cumulative(p);
        }
    }
    name_all(p);
    collect(p, 4);
    measure_all(p);
}

/* The estimator's variances for what is in use now. */
static void variance_in_use(const program *p, double *objects, double *space)
{
    double weight = (double)mp_recorder_live_weight(p->recorder, p->recorder->doublings);
    *objects = *space = 0;
    for (uint32_t at = 0; at < OBJECTS; at++) {
        const object *o = &p->objects[at];
        if (!o->alive || o->born >= p->collections) continue;
        *objects += weight - 1;
        *space += (weight - 1) * o->measured * o->measured;
    }
}

static void test_unbiased(uint32_t interval, uint32_t one_in, uint32_t cap, bool at_once)
{
    bias alloc_objects = {.what = "alloc_objects"}, alloc_space = {.what = "alloc_space"};
    bias inuse_objects = {.what = "inuse_objects"}, inuse_space = {.what = "inuse_space"};
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        mp_options options = {interval, one_in, cap, 64, seed};
        program *p = program_new(&options);
        mp_recorder *r = p->recorder;
        run(p, at_once);
        static cells recorded, truth;
        values other;
        read_recorder(p, recorded, &other);
        read_truth(p, truth);
        values estimate = total(recorded), real = total(truth);

        CHECK_UINT(other.alloc_objects + other.inuse_objects, 0);
        CHECK_UINT(r->counts.samples, p->sampled);
        CHECK_UINT(estimate.alloc_objects, p->sampled * interval);
        CHECK_UINT(real.alloc_objects, p->allocations);
        CHECK_UINT(mp_recorder_allocations(r), p->allocations);
        CHECK_UINT(r->counts.untracked, 0);
        CHECK((r->counts.thinned > 0) == (cap > 0));
        if (cap) CHECK(r->doublings > 0 && mp_live_count(&r->live) <= cap);
        double variance, space;
        variance = (double)p->allocations * (interval - 1);
        add_error(&alloc_objects, (double)estimate.alloc_objects, (double)real.alloc_objects,
                  variance, &options);
        add_error(&alloc_space, (double)estimate.alloc_space, (double)real.alloc_space,
                  p->variance_of_space, &options);
        variance_in_use(p, &variance, &space);
        add_error(&inuse_objects, (double)estimate.inuse_objects, (double)real.inuse_objects,
                  variance, &options);
        add_error(&inuse_space, (double)estimate.inuse_space, (double)real.inuse_space, space,
                  &options);
        audit(r);
        program_free(p);
    }
    check_bias(&alloc_objects);
    check_bias(&alloc_space);
    check_bias(&inuse_objects);
    check_bias(&inuse_space);
}

/* Each place gets its own due: the cells' z values are spread as they should be. */
static void test_every_cell(void)
{
    double squares = 0, sum = 0;
    uint32_t count = 0;
    const uint32_t interval = 8;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        mp_options options = {interval, 1, 0, 64, seed};
        program *p = program_new(&options);
        for (int i = 0; i < 2 * STEPS; i++) {
            allocate(p);
            if (i % 1000 == 0) collect(p, 50);
        }
        static cells recorded, truth;
        values other;
        read_recorder(p, recorded, &other);
        read_truth(p, truth);
        for (uint32_t s = 0; s < SHAPES; s++) {
            for (uint32_t k = 0; k < CLASSES; k++) {
                for (uint32_t t = 0; t < THREADS; t++) {
                    double real = (double)truth[s][k][t].alloc_objects;
                    double error = (double)recorded[s][k][t].alloc_objects - real;
                    squares += error * error / (real * (interval - 1));
                    sum += error / sqrt(real * (interval - 1));
                    count++;
                }
            }
        }
        program_free(p);
    }
    /* Mean 0 and variance 1; the square's own variance is 2 and a little, since the cells are
     * small: 44 objects each, with kurtosis 1 / (44 * p) above the normal one's. */
    CHECK(fabs(sum) < 5 * sqrt(count));
    CHECK(fabs(squares - count) < 5 * sqrt((2 + interval / 44.0) * count));
}

int main(void)
{
    test_unbiased(2, 1, 0, true);
    test_unbiased(2, 3, 0, true);
    test_unbiased(16, 1, 0, true);
    test_unbiased(16, 3, 0, true);
    test_unbiased(64, 1, 0, true);
    test_unbiased(1, 8, 0, true);
    test_unbiased(2, 1, 500, true);
    test_unbiased(1, 1, 1000, true);
    test_unbiased(4, 2, 400, true);
    test_unbiased(2, 1, 600, false);
    test_unbiased(1, 3, 700, false);
    test_every_cell();
    return check_report();
}
