/*
 * The sampler against the geometric distribution, by arithmetic: mean n, variance n (n - 1), and
 * P(gap > k) = (1 - 1/n)^k. Every figure is a z value with the true sigma: within 5, and their mean
 * over K seeds within 4 / sqrt(K), so that a small bias shows as well.
 */
#include "check.h"
#include "sampler.h"

#include <math.h>

#define SEEDS 8
#define DRAWS 40000

/* z values of one kind, over the seeds. */
typedef struct {
    double sum;
    int count;
} zs;

static void add_z(zs *of, double z, const char *what, uint64_t n, uint64_t seed)
{
    of->sum += z;
    of->count++;
    if (CHECK(fabs(z) < 5)) return;
    fprintf(stderr, "  %s of 1 in %" PRIu64 ", seed %" PRIu64 ": z = %.2f\n", what, n, seed, z);
}

static void check_mean(const zs *of, const char *what, uint64_t n)
{
    double mean = of->sum / of->count;
    if (CHECK(fabs(mean) < 4 / sqrt(of->count))) return;
    fprintf(stderr, "  %s of 1 in %" PRIu64 ": mean z = %.2f\n", what, n, mean);
}

/* ---- gaps ------------------------------------------------------------------------------------ */

#define BINS 20

/* The gaps at which one bin ends and the next begins, near the quantiles; at least 1 apart. */
static int bin_ends(double n, double ends[BINS])
{
    int bins = 0;
    for (int i = 1; i < BINS; i++) {
        double end = ceil(log1p(-(double)i / BINS) / log1p(-1 / n));
        if (bins == 0 ? end >= 1 : end > ends[bins - 1]) ends[bins++] = end;
    }
    return bins; /* one bin more follows, without an end */
}

/* A chi-square value as a z value (Wilson and Hilferty). */
static double chi_square_z(double chi, double freedom)
{
    double part = 2 / (9 * freedom);
    return (cbrt(chi / freedom) - (1 - part)) / sqrt(part);
}

static void test_gaps(uint32_t interval)
{
    double n = interval, variance = n * (n - 1);
    double fourth = variance * variance * (9 + 1 / (n * (n - 1))); /* central moment */
    double ends[BINS] = {0};
    int bins = bin_ends(n, ends);
    zs means = {0}, variances = {0}, fits = {0}, neighbours = {0};

    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        mp_sampler sampler;
        mp_sampler_init(&sampler, interval, seed);
        double sum = 0, squares = 0, products = 0, before = 0;
        double in_bin[BINS] = {0};
        long bad = 0;
        for (int i = 0; i < DRAWS; i++) {
            int64_t gap = mp_sampler_gap(&sampler);
            bad += gap < 1;
            double off = (double)gap - n;
            sum += off;
            squares += off * off;
            products += off * before;
            before = off;
            int bin = 0;
            while (bin < bins && (double)gap > ends[bin]) bin++;
            in_bin[bin]++;
        }
        CHECK_INT(bad, 0);
        add_z(&means, sum / sqrt(DRAWS * variance), "mean gap", interval, seed);
        /* The mean is known, so the squares' own variance is fourth - variance^2. */
        double sigma = sqrt((fourth - variance * variance) * DRAWS);
        add_z(&variances, (squares - DRAWS * variance) / sigma, "variance", interval, seed);
        add_z(&neighbours, products / (variance * sqrt(DRAWS)), "lag 1", interval, seed);

        double chi = 0, longer = 1; /* P(gap > the end of the bin before) */
        for (int bin = 0; bin <= bins; bin++) {
            double then = bin < bins ? exp(ends[bin] * log1p(-1 / n)) : 0;
            double expected = DRAWS * (longer - then);
            chi += (in_bin[bin] - expected) * (in_bin[bin] - expected) / expected;
            longer = then;
        }
        add_z(&fits, chi_square_z(chi, bins), "chi-square", interval, seed);
    }
    check_mean(&means, "mean gap", interval);
    check_mean(&variances, "variance", interval);
    check_mean(&neighbours, "lag 1", interval);
    check_mean(&fits, "chi-square", interval);
}

static void test_every_object(void)
{
    mp_sampler sampler;
    mp_sampler_init(&sampler, 1, 3);
    long other = 0;
    for (int i = 0; i < 10000; i++) other += mp_sampler_gap(&sampler) != 1;
    CHECK_INT(other, 0);
    mp_sampler_init(&sampler, MP_INTERVAL_MAX, 3);
    for (int i = 0; i < 10000; i++) other += mp_sampler_gap(&sampler) < 1;
    CHECK_INT(other, 0);
}

/* Many short-lived processes, each with a seed of its own: their first gaps are gaps as well. */
static void test_first_gaps(uint32_t interval)
{
    double n = interval;
    zs means = {0};
    for (uint64_t group = 0; group < SEEDS; group++) {
        double sum = 0;
        for (uint64_t i = 0; i < 20000; i++) {
            mp_sampler sampler;
            mp_sampler_init(&sampler, interval, group * 20000 + i);
            sum += (double)mp_sampler_gap(&sampler) - n;
        }
        add_z(&means, sum / sqrt(20000 * n * (n - 1)), "first gap", interval, group);
    }
    check_mean(&means, "first gap", interval);
}

/* A program that allocates in a rhythm of 10, sampled 1 in 10: every beat gets its due. */
static void test_no_alias(void)
{
    zs beats = {0};
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        mp_sampler sampler;
        mp_sampler_init(&sampler, 10, seed);
        long hits[10] = {0};
        const int64_t all = 200000;
        for (int64_t at = mp_sampler_gap(&sampler); at <= all; at += mp_sampler_gap(&sampler)) {
            hits[at % 10]++;
        }
        double each = (double)all / 10, p = 0.1;
        for (int beat = 0; beat < 10; beat++) {
            double z = ((double)hits[beat] - each * p) / sqrt(each * p * (1 - p));
            add_z(&beats, z, "beat", 10, seed);
        }
    }
    check_mean(&beats, "beat", 10);
}

/* ---- coins ----------------------------------------------------------------------------------- */

static void test_coin(uint64_t k)
{
    zs heads = {0};
    double p = 1 / (double)k;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        mp_sampler sampler;
        mp_sampler_init(&sampler, 512, seed);
        long count = 0;
        for (int i = 0; i < DRAWS; i++) count += mp_sampler_one_in(&sampler, k) != 0;
        double z = ((double)count - DRAWS * p) / sqrt(DRAWS * p * (1 - p));
        add_z(&heads, z, "coin", k, seed);
    }
    check_mean(&heads, "coin", k);
}

static void test_sure_coin(void)
{
    mp_sampler sampler;
    mp_sampler_init(&sampler, 512, 1);
    long heads = 0;
    for (int i = 0; i < 1000; i++) heads += mp_sampler_one_in(&sampler, 1) != 0;
    CHECK_INT(heads, 1000);
    for (int i = 0; i < 1000; i++) heads -= mp_sampler_one_in(&sampler, UINT64_C(1) << 62) != 0;
    CHECK_INT(heads, 1000); /* one in 4 * 10^15 a time */
}

/* Every bit of the random words is a fair coin, whatever the seed. */
static void test_bits(void)
{
    zs bits = {0};
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        mp_sampler sampler;
        mp_sampler_init(&sampler, 512, seed << 56 | seed);
        long set[64] = {0};
        for (int i = 0; i < 5000; i++) {
            uint64_t word = mp_sampler_random(&sampler);
            for (int bit = 0; bit < 64; bit++) set[bit] += (word >> bit & 1) != 0;
        }
        for (int bit = 0; bit < 64; bit++) {
            add_z(&bits, ((double)set[bit] - 2500) / sqrt(1250), "bit", 2, seed);
        }
    }
    check_mean(&bits, "bit", 2);
}

/* ---- seeds ----------------------------------------------------------------------------------- */

static void test_seeds(void)
{
    mp_sampler one, two, three;
    mp_sampler_init(&one, 512, 42);
    mp_sampler_init(&two, 512, 42);
    mp_sampler_init(&three, 512, 43);
    long same = 0, alike = 0;
    for (int i = 0; i < 1000; i++) {
        int64_t gap = mp_sampler_gap(&one);
        same += mp_sampler_gap(&two) == gap;
        alike += mp_sampler_gap(&three) == gap;
    }
    CHECK_INT(same, 1000);
    CHECK(alike < 20); /* by chance 1 in 1,023 */

    /* A forked child draws other numbers than its parent, and the same as its own seed would. */
    mp_sampler_reseed(&two, 7);
    mp_sampler_init(&three, 512, 7);
    for (int i = 0; i < 100; i++) {
        int64_t gap = mp_sampler_gap(&two);
        CHECK_INT(gap, mp_sampler_gap(&three));
        alike += gap == mp_sampler_gap(&one);
    }
    CHECK(alike < 25);
}

int main(void)
{
    static const uint32_t intervals[] = {2, 10, 512, 1000000};
    for (size_t i = 0; i < sizeof intervals / sizeof *intervals; i++) {
        test_gaps(intervals[i]);
        test_first_gaps(intervals[i]);
    }
    static const uint64_t coins[] = {2, 3, 7, 10, 100, 1024};
    for (size_t i = 0; i < sizeof coins / sizeof *coins; i++) test_coin(coins[i]);
    test_every_object();
    test_sure_coin();
    test_no_alias();
    test_bits();
    test_seeds();
    return check_report();
}
