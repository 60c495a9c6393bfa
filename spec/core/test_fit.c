/*
 * A profile brought below limits, against plain arithmetic on what it had: totals, who stays, what is
 * cut, and how large it is.
 */
#include "check.h"
#include "dice.h"
#include "error.h"
#include "fit.h"
#include "mem.h"

#include <stdlib.h>

#define WIDTH 2u
#define MANY 400u
#define DEEP 12u

typedef struct {
    mp_pprof profile;
    mp_pprof_str strings[MANY + 8];
    char text[MANY + 8][40];
    mp_pprof_function functions[MANY];
    mp_pprof_location locations[MANY];
    mp_pprof_sample samples[MANY];
    mp_pprof_label labels[MANY];
    int64_t values[MANY][WIDTH], deviations[MANY][WIDTH];
    uint32_t frames[MANY][DEEP], types[2 * WIDTH], comments[1];
} made;

static uint32_t text(made *m, const char *string)
{
    uint32_t at = m->profile.n_strings++;
    snprintf(m->text[at], sizeof m->text[at], "%s", string);
    m->strings[at] = (mp_pprof_str){m->text[at], (uint32_t)strlen(string)};
    return at;
}

/* `n` samples, each with a function of its own at the leaf; the value of sample i is i + 1. */
static made *make(uint32_t n, dice *d)
{
    made *m = calloc(1, sizeof *m);
    text(m, "");
    for (uint32_t i = 0; i < 2 * WIDTH; i++) m->types[i] = i < 2 ? text(m, "t") : 1;
    m->comments[0] = text(m, "a: comment");
    uint32_t key = text(m, "key");
    for (uint32_t i = 0; i < n; i++) {
        char name[24];
        snprintf(name, sizeof name, "function %u", i);
        m->functions[i] = (mp_pprof_function){text(m, name), 0, 0, 3};
        m->locations[i] = (mp_pprof_location){i, 7, 100 + i};
        m->values[i][0] = i + 1;
        m->values[i][1] = d ? dice_roll(d, 1000) : 0;
        m->deviations[i][0] = i;
        m->labels[i] = (mp_pprof_label){key, m->functions[i].name, 0, 0};
        uint32_t depth = d ? 1 + dice_roll(d, DEEP) : 1;
        for (uint32_t f = 0; f < depth; f++) m->frames[i][f] = f ? dice_roll(d, n) : i;
        m->samples[i] =
            (mp_pprof_sample){m->frames[i],  depth, m->values[i], i % 3 ? NULL : m->deviations[i],
                              &m->labels[i], i % 2};
    }
    m->profile.strings = m->strings;
    m->profile.functions = m->functions;
    m->profile.locations = m->locations;
    m->profile.samples = m->samples;
    m->profile.n_functions = m->profile.n_locations = m->profile.n_samples = n;
    m->profile.sample_types = m->types;
    m->profile.n_types = WIDTH;
    m->profile.comments = m->comments;
    m->profile.n_comments = 1;
    m->profile.period = 5;
    m->profile.time_nanos = 6;
    m->profile.duration_nanos = 7;
    return m;
}

static mp_pprof_decoded decoded(const mp_buffer *bytes)
{
    mp_pprof_decoded out;
    char why[MP_PPROF_WHY_LEN];
    if (!CHECK_INT(mp_pprof_decode(bytes->data, bytes->len, 1 << 28, &out, why, sizeof why), MP_OK))
        exit(1);
    return out;
}

static bool named(const mp_pprof *profile, uint32_t location, const char *name)
{
    const mp_pprof_function *function = &profile->functions[profile->locations[location].function];
    mp_pprof_str string = profile->strings[function->name];
    return string.len == strlen(name) && memcmp(string.ptr, name, string.len) == 0;
}

static bool has_string(const mp_pprof *profile, const char *name)
{
    for (uint32_t i = 0; i < profile->n_strings; i++) {
        mp_pprof_str string = profile->strings[i];
        if (string.len == strlen(name) && memcmp(string.ptr, name, string.len) == 0) return true;
    }
    return false;
}

/* gzip's own note, of less than 16 MB. */
static size_t unpacked(const mp_buffer *gzipped)
{
    const uint8_t *end = gzipped->data + gzipped->len;
    return (size_t)end[-4] | (size_t)end[-3] << 8 | (size_t)end[-2] << 16;
}

/* What it takes whole, and the same brought below the limits; empty if it fits. */
static mp_fitted fit(const made *m, uint32_t samples, uint32_t depth, size_t bytes, mp_buffer *out,
                     size_t *whole_size)
{
    mp_buffer whole = {0};
    mp_fitted fitted;
    CHECK_INT(mp_pprof_encode(&m->profile, &whole), MP_OK);
    if (whole_size) *whole_size = unpacked(&whole);
    mp_fit_limits limits = {samples, depth, bytes};
    CHECK_INT(mp_fit(&m->profile, whole.data, whole.len, &limits, out, &fitted), MP_OK);
    mp_buffer_free(&whole);
    return fitted;
}

static void test_fits(void)
{
    dice d = dice_new(1);
    made *m = make(100, &d);
    mp_buffer out = {0};
    size_t size;
    mp_fitted fitted = fit(m, 100, DEEP, 1 << 20, &out, &size);
    CHECK_UINT(out.len + fitted.merged + fitted.cut, 0);
    fitted = fit(m, 100, DEEP, size, &out, NULL);
    CHECK_UINT(out.len, 0);
    fitted = fit(m, 100, DEEP, size - 1, &out, NULL);
    CHECK(out.len > 0 && fitted.merged > 1);
    mp_buffer_free(&out);
    free(m);
}

/* Values are 1..50: of 20 samples 19 stay, the largest, and 1..31 are one. */
static void test_smallest(void)
{
    made *m = make(50, NULL);
    mp_buffer out = {0};
    mp_fitted fitted = fit(m, 20, DEEP, 1 << 20, &out, NULL);
    CHECK_UINT(fitted.merged, 31);
    CHECK_UINT(fitted.cut, 0);
    mp_pprof_decoded of = decoded(&out);
    CHECK_UINT(of.profile.n_samples, 20);
    for (uint32_t i = 0; i < 19; i++) {
        const mp_pprof_sample *sample = &of.profile.samples[i];
        char name[24];
        snprintf(name, sizeof name, "function %u", 49 - i);
        CHECK_INT(sample->values[0], 50 - i);
        CHECK(named(&of.profile, sample->locations[0], name));
        CHECK_UINT(of.profile.locations[sample->locations[0]].address, 149 - i);
        CHECK_INT(of.profile.locations[sample->locations[0]].line, 7);
        CHECK_UINT(sample->n_labels, (49 - i) % 2);
        CHECK((sample->deviations != NULL) == ((49 - i) % 3 == 0));
    }
    const mp_pprof_sample *other = &of.profile.samples[19];
    CHECK_INT(other->values[0], 31 * 32 / 2);
    CHECK(other->depth == 1 && named(&of.profile, other->locations[0], "(other)"));
    CHECK(other->n_labels == 0 && other->deviations == NULL);
    CHECK_UINT(of.profile.n_functions, 20);
    CHECK_UINT(of.profile.n_locations, 20);
    CHECK(has_string(&of.profile, "function 31") && !has_string(&of.profile, "function 30"));
    CHECK(has_string(&of.profile, "a: comment"));
    CHECK_UINT(of.profile.n_comments, 1);
    CHECK_INT(of.profile.period, 5);
    CHECK_INT(of.profile.time_nanos, 6);
    CHECK_INT(of.profile.duration_nanos, 7);
    mp_pprof_decoded_free(&of);
    mp_buffer_free(&out);
    free(m);
}

static void totals(const mp_pprof *profile, int64_t into[WIDTH])
{
    memset(into, 0, WIDTH * sizeof *into);
    for (uint32_t i = 0; i < profile->n_samples; i++) {
        for (uint32_t v = 0; v < WIDTH; v++) into[v] += profile->samples[i].values[v];
    }
}

static void check_fitted(const made *m, const mp_buffer *out, uint32_t samples, uint32_t depth,
                         size_t bytes, mp_fitted fitted)
{
    mp_pprof_decoded of = decoded(out);
    int64_t is[WIDTH], was[WIDTH];
    totals(&of.profile, is);
    totals(&m->profile, was);
    for (uint32_t v = 0; v < WIDTH; v++) CHECK_INT(is[v], was[v]);
    CHECK(of.profile.n_samples <= samples);
    CHECK_UINT(fitted.merged ? of.profile.n_samples + fitted.merged - 1 : of.profile.n_samples,
               m->profile.n_samples);
    uint32_t cut = 0, deepest = 0;
    for (uint32_t i = 0; i < m->profile.n_samples; i++) cut += m->samples[i].depth > depth;
    CHECK_UINT(fitted.cut, cut);
    for (uint32_t i = 0; i < of.profile.n_samples; i++) {
        const mp_pprof_sample *sample = &of.profile.samples[i];
        if (sample->depth > deepest) deepest = sample->depth;
        if (fitted.merged || sample->depth < depth || m->samples[i].depth <= depth) continue;
        CHECK(named(&of.profile, sample->locations[depth - 1], "(truncated)"));
        CHECK_UINT(of.profile.locations[sample->locations[depth - 2]].address,
                   100 + m->frames[i][depth - 2]);
    }
    CHECK(deepest <= depth);
    CHECK(of.bytes.len <= bytes || of.profile.n_samples == 1);
    mp_pprof_decoded_free(&of);
}

static void test_at_random(void)
{
    dice d = dice_new(7);
    for (int round = 0; round < 150; round++) {
        made *m = make(1 + dice_roll(&d, MANY), &d);
        uint32_t samples = 1 + dice_roll(&d, MANY), depth = 2 + dice_roll(&d, DEEP);
        size_t bytes = 200 + dice_roll(&d, 20000);
        mp_buffer out = {0};
        mp_fitted fitted = fit(m, samples, depth, bytes, &out, NULL);
        if (out.len) check_fitted(m, &out, samples, depth, bytes, fitted);
        if (!out.len) CHECK(m->profile.n_samples <= samples && !fitted.cut && !fitted.merged);
        mp_buffer_free(&out);
        free(m);
    }
}

static void test_none(void)
{
    made *m = make(0, NULL);
    mp_buffer out = {0};
    mp_fitted fitted = fit(m, 1, 2, 1000, &out, NULL);
    CHECK_UINT(out.len + fitted.merged + fitted.cut, 0);
    free(m);
}

static void test_no_memory(void)
{
    dice d = dice_new(3);
    made *m = make(60, &d);
    mp_buffer whole = {0}, out = {0};
    mp_fitted fitted = {0};
    CHECK_INT(mp_pprof_encode(&m->profile, &whole), MP_OK);
    mp_fit_limits limits = {30, 5, 1000};
    int error = MP_ENOMEM;
    long n = 0;
    for (; error && n < 1000; n++) {
        mp_mem_fail_after(n);
        error = mp_fit(&m->profile, whole.data, whole.len, &limits, &out, &fitted);
        mp_mem_fail_after(-1);
        if (error) CHECK_INT(error, MP_ENOMEM);
        if (error) mp_buffer_free(&out);
    }
    CHECK(n > 20 && n < 1000);
    check_fitted(m, &out, 30, 5, 1000, fitted);
    mp_buffer_free(&out);
    mp_buffer_free(&whole);
    free(m);
}

int main(void)
{
    test_fits();
    test_smallest();
    test_at_random();
    test_none();
    test_no_memory();
    return check_report();
}
