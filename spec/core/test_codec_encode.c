/* The encoder: byte for byte what the format says, bounded chunks, and what it refuses. */
#include "check.h"
#include "error.h"
#include "gzip.h"
#include "mem.h"
#include "pprof.h"
#include "pprof_bytes.h"

#include <stdlib.h>

#define STR(text)                                                                                  \
    {                                                                                              \
        text, sizeof(text) - 1                                                                     \
    }
#define COUNT(array) ((uint32_t)(sizeof(array) / sizeof *(array)))

static const mp_pprof_str STRINGS[] = {
    STR(""),        STR("inuse_objects"), STR("count"),   STR("inuse_space"), STR("bytes"),
    STR("objects"), STR("ruby"),          STR("Foo#bar"), STR("foo.rb"),      STR("<main>"),
    STR("class"),   STR("String"),        STR("age"),     STR("collections"), STR("interval: 512"),
};
static const uint32_t TYPES[] = {1, 2, 3, 4};
static const uint32_t COMMENTS[] = {14};
/* <main> bears its own name again, which must not be written. */
static const mp_pprof_function FUNCTIONS[] = {{7, 0, 8, 3}, {9, 9, 8, 0}};
static const mp_pprof_location LOCATIONS[] = {{0, 4, 0xabcdef012345}, {1, 9, 0x10}};
static const uint32_t STACK[] = {0, 1};
static const int64_t VALUES[] = {3, 120}, ROOT_VALUES[] = {0, -1}, DEVIATIONS[] = {39, 2400};
static const mp_pprof_label LABELS[] = {{10, 11, 0, 0}, {12, 0, 300, 13}};
static const mp_pprof_sample SAMPLES[] = {{STACK, 2, VALUES, DEVIATIONS, LABELS, 2},
                                          {STACK + 1, 1, ROOT_VALUES, NULL, NULL, 0}};

static mp_pprof small_profile(void)
{
    return (mp_pprof){
        .strings = STRINGS,
        .n_strings = COUNT(STRINGS),
        .functions = FUNCTIONS,
        .n_functions = COUNT(FUNCTIONS),
        .locations = LOCATIONS,
        .n_locations = COUNT(LOCATIONS),
        .samples = SAMPLES,
        .n_samples = COUNT(SAMPLES),
        .sample_types = TYPES,
        .n_types = 2,
        .comments = COMMENTS,
        .n_comments = COUNT(COMMENTS),
        .default_sample_type = 3,
        .period_type = 5,
        .period_unit = 2,
        .period = 512,
        .time_nanos = 1700000000000000000,
        .duration_nanos = 1500000000,
        .mapping_file = 6,
    };
}

static void expected_small_profile(bytes *out)
{
    PUT_NUMBERS(out, 1, 1, 2);
    PUT_NUMBERS(out, 1, 3, 4);

    bytes sample = {.len = 0};
    PUT_PACKED(&sample, 1, 1, 2);
    PUT_PACKED(&sample, 2, 3, 120);
    PUT_NUMBERS(&sample, 3, 10, 11);
    PUT_NUMBERS(&sample, 3, 12, 0, 300, 13);
    PUT_PACKED(&sample, 100, 39, 2400);
    put_message(out, 2, &sample);
    sample.len = 0;
    PUT_PACKED(&sample, 1, 2);
    PUT_PACKED(&sample, 2, 0, UINT64_MAX);
    put_message(out, 2, &sample);

    PUT_NUMBERS(out, 3, 1, 0, 0, 0, 6, 0, 1, 1, 1);

    bytes location = {.len = 0};
    put_int(&location, 1, 1);
    put_int(&location, 2, 1);
    put_int(&location, 3, 0xabcdef012345);
    PUT_NUMBERS(&location, 4, 1, 4);
    put_message(out, 4, &location);
    location.len = 0;
    put_int(&location, 1, 2);
    put_int(&location, 2, 1);
    put_int(&location, 3, 0x10);
    PUT_NUMBERS(&location, 4, 2, 9);
    put_message(out, 4, &location);

    PUT_NUMBERS(out, 5, 1, 7, 0, 8, 3);
    PUT_NUMBERS(out, 5, 2, 9, 0, 8);

    for (uint32_t i = 0; i < COUNT(STRINGS); i++) {
        put_bytes(out, 6, STRINGS[i].ptr, STRINGS[i].len);
    }
    put_int(out, 9, 1700000000000000000);
    put_int(out, 10, 1500000000);
    PUT_NUMBERS(out, 11, 5, 2);
    put_int(out, 12, 512);
    PUT_PACKED(out, 13, 14);
    put_int(out, 14, 3);
}

/* Unpacks what was encoded, and frees that. */
static mp_buffer unpacked(mp_buffer *encoded)
{
    mp_buffer out = {0};
    const char *why = "";
    CHECK_INT(mp_gunzip(encoded->data, encoded->len, 1 << 30, &out, &why), MP_OK);
    mp_buffer_free(encoded);
    return out;
}

static void test_bytes(void)
{
    mp_pprof profile = small_profile();
    mp_buffer encoded = {0};
    CHECK_INT(mp_pprof_encode(&profile, &encoded), MP_OK);
    mp_buffer raw = unpacked(&encoded);
    bytes expected = {.len = 0};
    expected_small_profile(&expected);
    CHECK_BYTES(raw.data, raw.len, expected.data, expected.len);
    mp_buffer_free(&raw);
}

static void test_least_profile(void)
{
    static const mp_pprof_str strings[] = {{NULL, 0}};
    static const uint32_t types[] = {0, 0};
    mp_pprof profile = {.strings = strings, .n_strings = 1, .sample_types = types, .n_types = 1};
    mp_buffer encoded = {0};
    CHECK_INT(mp_pprof_encode(&profile, &encoded), MP_OK);
    mp_buffer raw = unpacked(&encoded);
    CHECK_BYTES(raw.data, raw.len, "\x0a\x00\x32\x00", 4);
    mp_buffer_free(&raw);
}

static void test_repaired_strings(void)
{
    mp_pprof_str strings[COUNT(STRINGS)];
    memcpy(strings, STRINGS, sizeof STRINGS);
    strings[7] = (mp_pprof_str){"caf\xe9#bar", 8};
    mp_pprof profile = small_profile();
    profile.strings = strings;
    mp_buffer encoded = {0};
    CHECK_INT(mp_pprof_encode(&profile, &encoded), MP_OK);
    mp_buffer raw = unpacked(&encoded);
    bytes name = {.len = 0};
    put_str(&name, 6, "caf\xef\xbf\xbd#bar");
    bool found = false;
    for (size_t i = 0; i + name.len <= raw.len; i++) {
        found = found || memcmp(raw.data + i, name.data, name.len) == 0;
    }
    CHECK(found);
    mp_buffer_free(&raw);
}

static int encode_status(const mp_pprof *profile)
{
    mp_buffer out = {0};
    int status = mp_pprof_encode(profile, &out);
    mp_buffer_free(&out);
    return status;
}

static void test_ranges(void)
{
    const uint32_t past = COUNT(STRINGS);
    mp_pprof bad = small_profile();
    bad.n_types = 0;
    CHECK_INT(encode_status(&bad), MP_ERANGE);
    bad = small_profile();
    bad.n_strings = 0;
    CHECK_INT(encode_status(&bad), MP_ERANGE);
    bad = small_profile();
    bad.strings++;
    bad.n_strings--;
    CHECK_INT(encode_status(&bad), MP_ERANGE);

    uint32_t *const indexes[] = {&bad.default_sample_type, &bad.period_type, &bad.period_unit,
                                 &bad.mapping_file};
    for (size_t i = 0; i < COUNT(indexes); i++) {
        bad = small_profile();
        *indexes[i] = past;
        CHECK_INT(encode_status(&bad), MP_ERANGE);
    }
    bad = small_profile();
    bad.sample_types = (const uint32_t[]){1, 2, 3, past};
    CHECK_INT(encode_status(&bad), MP_ERANGE);
    bad = small_profile();
    bad.comments = &past;
    CHECK_INT(encode_status(&bad), MP_ERANGE);
    const mp_pprof_function functions[][2] = {
        {FUNCTIONS[0], {past, 0, 0, 0}}, {FUNCTIONS[0], {0, past, 0, 0}}, {{0, 0, past, 0}}};
    for (size_t i = 0; i < COUNT(functions); i++) {
        bad = small_profile();
        bad.functions = functions[i];
        CHECK_INT(encode_status(&bad), MP_ERANGE);
    }
    bad = small_profile();
    bad.n_functions = 1;
    CHECK_INT(encode_status(&bad), MP_ERANGE);
    bad = small_profile();
    bad.n_locations = 1;
    CHECK_INT(encode_status(&bad), MP_ERANGE);
    const mp_pprof_label labels[] = {{past, 0, 0, 0}, {0, past, 0, 0}, {0, 0, 0, past}};
    for (size_t i = 0; i < COUNT(labels); i++) {
        const mp_pprof_sample sample = {STACK, 2, VALUES, NULL, &labels[i], 1};
        bad = small_profile();
        bad.samples = &sample;
        bad.n_samples = 1;
        CHECK_INT(encode_status(&bad), MP_ERANGE);
    }
}

/* Samples enough for many chunks, of depths from none to more than a chunk holds. */
enum { MANY = 20000, DEEPEST = 100000 };

static mp_pprof large_profile(mp_pprof_sample *samples, uint32_t *stack)
{
    mp_pprof profile = small_profile();
    for (uint32_t i = 0; i < DEEPEST; i++) stack[i] = i % 2;
    for (uint32_t i = 0; i < MANY; i++) {
        samples[i] = (mp_pprof_sample){stack + i % 2, i % 100, VALUES, i % 7 ? NULL : DEVIATIONS,
                                       LABELS,        i % 3};
    }
    samples[MANY / 2].depth = DEEPEST - 2;
    profile.samples = samples;
    profile.n_samples = MANY;
    return profile;
}

/* The chunks must merge to the same samples; decoding is tested by itself. */
static void test_chunks(const mp_pprof *profile)
{
    mp_buffer first = {0}, again = {0};
    CHECK_INT(mp_pprof_encode(profile, &first), MP_OK);
    CHECK_INT(mp_pprof_encode(profile, &again), MP_OK);
    CHECK_BYTES(again.data, again.len, first.data, first.len);
    mp_buffer_free(&again);

    mp_pprof_decoded decoded;
    char why[MP_PPROF_WHY_LEN];
    CHECK_INT(mp_pprof_decode(first.data, first.len, 1 << 28, &decoded, why, sizeof why), MP_OK);
    CHECK_STR(why, "");
    CHECK_UINT(decoded.profile.n_samples, MANY);
    CHECK_UINT(decoded.profile.n_strings, COUNT(STRINGS));
    bool same = true;
    for (uint32_t i = 0; same && i < MANY; i++) {
        const mp_pprof_sample *in = &profile->samples[i], *out = &decoded.profile.samples[i];
        same = out->depth == in->depth && out->n_labels == in->n_labels &&
               memcmp(out->values, in->values, sizeof VALUES) == 0 &&
               (in->depth == 0 ||
                memcmp(out->locations, in->locations, in->depth * sizeof(uint32_t)) == 0);
    }
    CHECK(same);
    mp_pprof_decoded_free(&decoded);
    mp_buffer_free(&first);
}

/* Each allocation in turn is refused; valgrind and ASAN see what would leak. */
static void test_out_of_memory(const mp_pprof *profile)
{
    int status = MP_ENOMEM;
    long n;
    for (n = 0; status == MP_ENOMEM && n < 100000; n++) {
        mp_buffer out = {0};
        mp_mem_fail_after(n);
        status = mp_pprof_encode(profile, &out);
        mp_mem_fail_after(-1);
        mp_buffer_free(&out);
    }
    CHECK_INT(status, MP_OK);
    CHECK(n > 8); /* the scratch, zlib, the output, and what one very deep sample takes */
}

int main(void)
{
    test_bytes();
    test_least_profile();
    test_repaired_strings();
    test_ranges();

    mp_pprof_sample *samples = malloc(MANY * sizeof *samples);
    uint32_t *stack = malloc(DEEPEST * sizeof *stack);
    mp_pprof large = large_profile(samples, stack);
    test_chunks(&large);
    large.n_samples = MANY / 8;
    samples[MANY / 16].depth = DEEPEST - 2;
    test_out_of_memory(&large);
    free(samples);
    free(stack);
    return check_report();
}
