/*
 * A table that fills, empties and fills again: at every moment the living samples stand for what
 * lives, whatever the odds were when each was taken. An estimate of n objects has the variance
 * sum(w - 1), w being the weight of the sample that each object would be; the sum over the samples
 * of w (w - 1) is an unbiased estimate of it, and over all seeds as good as the true one.
 */
#include "audit.h"
#include "check.h"
#include "recorder.h"

#include <math.h>
#include <stdlib.h>

#define SEEDS 1000
#define CAP 100u

static void allocate(mp_recorder *r, uint64_t address)
{
    mp_recorder_sample(r, &(mp_allocation){.stack = r->overflow_stack,
                                           .klass = r->overflow_class,
                                           .address = address,
                                           .size = 40});
    if (r->wants_thinning) mp_recorder_thin(r);
}

static void die(mp_recorder *r, uint64_t address)
{
    uint32_t id = mp_live_find(&r->live, address);
    if (id) mp_recorder_died(r, id);
}

typedef struct {
    double off, variance;
} sum;

static void estimate(const mp_recorder *r, double truth, sum *over_seeds)
{
    double total = 0;
    for (uint32_t id = 0; (id = mp_live_next(&r->live, id)) != 0;) {
        double weight = (double)mp_recorder_live_weight(r, mp_live_at(&r->live, id)->doublings);
        total += weight;
        over_seeds->variance += weight * (weight - 1);
    }
    over_seeds->off += total - truth;
}

static void check(const sum *over_seeds, const char *when)
{
    double z = over_seeds->off / sqrt(over_seeds->variance);
    if (!CHECK(fabs(z) < 4)) fprintf(stderr, "  %s: z = %.2f\n", when, z);
}

int main(void)
{
    sum full = {0, 0}, emptied = {0, 0}, again = {0, 0}, more = {0, 0};
    uint64_t relaxed = 0;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        mp_options options = {
            .interval = 1, .track_one_in = 1, .max_samples = CAP, .max_depth = 8, .seed = seed};
        mp_recorder *r = mp_recorder_new(&options);
        if (!CHECK(r != NULL)) return 1;
        for (uint64_t i = 1; i <= 3000; i++) allocate(r, i << 6);
        CHECK(r->doublings >= 5 && mp_live_count(&r->live) <= CAP);
        estimate(r, 3000, &full);

        for (uint64_t i = 1; i <= 3000; i++) {
            if (i % 10) die(r, i << 6);
        }
        uint32_t before = r->doublings;
        for (int i = 0; i < 20; i++) mp_recorder_relax(r);
        relaxed += before - r->doublings;
        CHECK(mp_live_count(&r->live) >= CAP / 4 || r->doublings == 0);
        estimate(r, 300, &emptied);

        for (uint64_t i = 4001; i <= 4060; i++) allocate(r, i << 6);
        estimate(r, 360, &again);
        for (uint64_t i = 5001; i <= 6000; i++) allocate(r, i << 6);
        CHECK(mp_live_count(&r->live) <= CAP);
        estimate(r, 1360, &more);
        audit(r);
        mp_recorder_release(r);
    }
    CHECK(relaxed > SEEDS * 4);
    check(&full, "full");
    check(&emptied, "emptied");
    check(&again, "filled again");
    check(&more, "full again");
    return check_report();
}
