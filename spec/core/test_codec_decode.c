/* The decoder: files as others write them, and everything it must refuse. */
#include "check.h"
#include "error.h"
#include "gzip.h"
#include "mem.h"
#include "pprof.h"
#include "pprof_bytes.h"

#include <stdlib.h>

#define NO_LIMIT ((size_t)1 << 30)

static mp_pprof_decoded decoded;
static char why[MP_PPROF_WHY_LEN];

static int decode(const void *data, size_t len, size_t max_bytes)
{
    return mp_pprof_decode(data, len, max_bytes, &decoded, why, sizeof why);
}

static const char *string(uint32_t index)
{
    static char text[64];
    if (index >= decoded.profile.n_strings) return "(out of range)";
    mp_pprof_str str = decoded.profile.strings[index];
    snprintf(text, sizeof text, "%.*s", (int)str.len, str.ptr);
    return text;
}

/*
 * As a Go program's profile might be: ids as they come, samples before what they name, an inlined
 * line, a location without symbols, numbers packed and not, a string that is not UTF-8, fields
 * that came later, two mappings.
 */
static void put_foreign_profile(bytes *out)
{
    PUT_NUMBERS(out, 1, 1, 2);
    PUT_NUMBERS(out, 1, 3, 4);

    bytes sample = {.len = 0};
    PUT_PACKED(&sample, 1, 900, 7, UINT64_C(0xffffffffffffffff));
    PUT_PACKED(&sample, 2, 5, UINT64_MAX - 6);
    PUT_NUMBERS(&sample, 3, 8, 9);
    PUT_NUMBERS(&sample, 3, 8, 10);
    PUT_NUMBERS(&sample, 3, 11, 0, 48, 4);
    put_message(out, 2, &sample);
    sample.len = 0;
    put_int(&sample, 1, 7); /* not packed */
    put_int(&sample, 2, 1);
    put_int(&sample, 2, 0);
    put_message(out, 2, &sample);

    PUT_NUMBERS(out, 3, 1, 0x400000, 0x500000, 0, 12);
    PUT_NUMBERS(out, 3, 2, 0x600000, 0x700000, 0, 6);

    bytes location = {.len = 0};
    put_int(&location, 1, 7);
    put_int(&location, 2, 1);
    put_int(&location, 3, 0x401000);
    PUT_NUMBERS(&location, 4, 40, 17, 3); /* inlined, with a column */
    PUT_NUMBERS(&location, 4, 3, 99);     /* into this one */
    put_message(out, 4, &location);
    PUT_NUMBERS(out, 4, -1, 2, 0x7f00deadbeef);
    location.len = 0;
    put_int(&location, 1, 900);
    put_int(&location, 3, 0x401234);
    PUT_NUMBERS(&location, 4, 3, 12);
    put_message(out, 4, &location);

    PUT_NUMBERS(out, 5, 40, 5, 7, 6, 10);
    PUT_NUMBERS(out, 5, 3, 13, 13, 6, 90);

    put_int(out, 100, 1); /* not a field of ours */
    put_str(out, 101, "whatever");
    static const char *const strings[] = {
        "",    "alloc_objects", "count", "alloc_space", "bytes",  "inlined", "main.go", "_Zx",
        "key", "one",           "two",   "node",        "/bin/x", "caf\xe9", "c1",      "objects"};
    for (size_t i = 0; i < sizeof strings / sizeof *strings; i++) put_str(out, 6, strings[i]);
    put_int(out, 9, 1700000000000000001);
    put_int(out, 10, 30);
    PUT_NUMBERS(out, 11, 15);
    PUT_NUMBERS(out, 11, 0, 2); /* the two are merged */
    put_int(out, 12, 524288);
    put_int(out, 13, 14);
    PUT_PACKED(out, 13, 9, 10);
    put_int(out, 14, 1);
    put_int(out, 14, 3); /* the last counts */
}

static void check_foreign_profile(void)
{
    const mp_pprof *profile = &decoded.profile;
    CHECK_UINT(profile->n_types, 2);
    CHECK_STR(string(profile->sample_types[0]), "alloc_objects");
    CHECK_STR(string(profile->sample_types[3]), "bytes");
    CHECK_STR(string(profile->default_sample_type), "alloc_space");
    CHECK_STR(string(profile->period_type), "objects");
    CHECK_STR(string(profile->period_unit), "count");
    CHECK_INT(profile->period, 524288);
    CHECK_INT(profile->time_nanos, 1700000000000000001);
    CHECK_INT(profile->duration_nanos, 30);
    CHECK_UINT(profile->n_comments, 3);
    CHECK_STR(string(profile->comments[0]), "c1");
    CHECK_STR(string(profile->comments[2]), "two");
    CHECK_STR(string(profile->mapping_file), "/bin/x");

    CHECK_UINT(profile->n_functions, 3);
    CHECK_STR(string(profile->functions[0].name), "inlined");
    CHECK_STR(string(profile->functions[0].system_name), "_Zx");
    CHECK_STR(string(profile->functions[0].file), "main.go");
    CHECK_INT(profile->functions[0].start_line, 10);
    CHECK_STR(string(profile->functions[1].name), "caf\xef\xbf\xbd");
    CHECK_STR(string(profile->functions[2].name), "0x7f00deadbeef");

    CHECK_UINT(profile->n_locations, 4);
    static const mp_pprof_location locations[] = {
        {0, 17, 0x401000}, {1, 99, 0x401000}, {2, 0, 0x7f00deadbeef}, {1, 12, 0x401234}};
    for (uint32_t i = 0; i < 4; i++) {
        CHECK_UINT(profile->locations[i].function, locations[i].function);
        CHECK_INT(profile->locations[i].line, locations[i].line);
        CHECK_UINT(profile->locations[i].address, locations[i].address);
    }

    CHECK_UINT(profile->n_samples, 2);
    const mp_pprof_sample *sample = &profile->samples[0];
    static const uint32_t stack[] = {3, 0, 1, 2};
    CHECK_BYTES(sample->locations, sample->depth * sizeof *stack, stack, sizeof stack);
    CHECK_INT(sample->values[0], 5);
    CHECK_INT(sample->values[1], -7);
    CHECK_UINT(sample->n_labels, 3);
    CHECK_STR(string(sample->labels[1].key), "key");
    CHECK_STR(string(sample->labels[1].str), "two");
    CHECK_STR(string(sample->labels[2].key), "node");
    CHECK_UINT(sample->labels[2].str, 0);
    CHECK_INT(sample->labels[2].num, 48);
    CHECK_STR(string(sample->labels[2].num_unit), "bytes");
    sample = &profile->samples[1];
    CHECK_BYTES(sample->locations, sample->depth * sizeof *stack, stack + 1, 2 * sizeof *stack);
    CHECK_INT(sample->values[1], 0);
    CHECK_UINT(sample->n_labels, 0);
}

/* Only as many as there are values, and none below 0: what else is in the field is not ours. */
static void test_deviations(void)
{
    bytes out = {.len = 0}, sample = {.len = 0};
    PUT_NUMBERS(&out, 1, 0, 0);
    PUT_NUMBERS(&out, 1, 0, 0);
    static const struct {
        uint64_t numbers[3];
        size_t count;
        bool ours;
    } fields[] = {
        {{7, 0}, 2, true}, {{7, 8, 9}, 3, false}, {{7}, 1, false}, {{7, UINT64_MAX}, 2, false}};
    for (size_t i = 0; i < 4; i++) {
        sample.len = 0;
        PUT_PACKED(&sample, 2, 1, 2);
        put_packed(&sample, 100, fields[i].numbers, fields[i].count);
        put_message(&out, 2, &sample);
    }
    put_str(&out, 6, "");
    if (!CHECK_INT(decode(out.data, out.len, NO_LIMIT), MP_OK)) return;
    for (size_t i = 0; i < 4; i++) {
        const int64_t *deviations = decoded.profile.samples[i].deviations;
        CHECK((deviations != NULL) == fields[i].ours);
        if (deviations) CHECK_BYTES(deviations, 16, fields[i].numbers, 16);
    }
    mp_pprof_decoded_free(&decoded);
}

static mp_buffer gzipped(const void *data, size_t len)
{
    mp_buffer out = {0};
    mp_gzip gzip;
    CHECK_INT(mp_gzip_open(&gzip, &out), MP_OK);
    CHECK_INT(mp_gzip_write(&gzip, data, len), MP_OK);
    CHECK_INT(mp_gzip_finish(&gzip), MP_OK);
    mp_gzip_close(&gzip);
    return out;
}

static void test_foreign_profile(void)
{
    bytes raw = {.len = 0};
    put_foreign_profile(&raw);
    CHECK_INT(decode(raw.data, raw.len, raw.len), MP_OK);
    CHECK_STR(why, "");
    check_foreign_profile();
    mp_pprof_decoded_free(&decoded);

    mp_buffer packed = gzipped(raw.data, raw.len);
    CHECK_INT(decode(packed.data, packed.len, raw.len), MP_OK);
    check_foreign_profile();
    mp_pprof_decoded_free(&decoded);

    /* In two members, parted within a field. */
    mp_buffer parts = gzipped(raw.data, 11), rest = gzipped(raw.data + 11, raw.len - 11);
    CHECK_INT(mp_buffer_append(&parts, rest.data, rest.len), MP_OK);
    CHECK_INT(decode(parts.data, parts.len, NO_LIMIT), MP_OK);
    check_foreign_profile();
    mp_pprof_decoded_free(&decoded);

    CHECK_INT(mp_buffer_append(&parts, "\0", 1), MP_OK);
    CHECK_INT(decode(parts.data, parts.len, NO_LIMIT), MP_EFORMAT);
    CHECK_STR(why, "garbage after the end");
    CHECK_INT(decode(packed.data, packed.len - 1, NO_LIMIT), MP_EFORMAT);
    CHECK_STR(why, "cut short");
    CHECK_INT(decode(packed.data, packed.len, raw.len - 1), MP_ELIMIT);
    CHECK_INT(decode(raw.data, raw.len, raw.len - 1), MP_ELIMIT);
    char expected[64];
    snprintf(expected, sizeof expected, "larger than %zu bytes uncompressed", raw.len - 1);
    CHECK_STR(why, expected);
    mp_buffer_free(&packed);
    mp_buffer_free(&parts);
    mp_buffer_free(&rest);
}

/* Wherever it is cut, the file is refused or what is left of it is whole. */
static void test_cuts(void)
{
    bytes raw = {.len = 0};
    put_foreign_profile(&raw);
    for (size_t len = 0; len < raw.len; len++) {
        uint8_t *exact = malloc(len ? len : 1); /* so that ASAN sees the end */
        memcpy(exact, raw.data, len);
        int status = decode(exact, len, NO_LIMIT);
        CHECK(status == MP_OK || (status == MP_EFORMAT && why[0]));
        if (status == MP_OK) mp_pprof_decoded_free(&decoded);
        free(exact);
    }
    CHECK_INT(decode(raw.data, 60, NO_LIMIT), MP_EFORMAT);
    CHECK_STR(why, "cut short");
}

/* Each byte in turn is changed: no crash, and no index out of range in what is accepted. */
static void test_damage(void)
{
    bytes raw = {.len = 0};
    put_foreign_profile(&raw);
    for (size_t at = 0; at < raw.len; at++) {
        static const uint8_t damage[] = {0x01, 0x02, 0x80, 0xff};
        for (size_t i = 0; i < sizeof damage; i++) {
            raw.data[at] ^= damage[i];
            int status = decode(raw.data, raw.len, NO_LIMIT);
            raw.data[at] ^= damage[i];
            if (status != MP_OK) {
                CHECK(why[0] != 0);
                continue;
            }
            mp_buffer out = {0};
            CHECK_INT(mp_pprof_encode(&decoded.profile, &out), MP_OK);
            mp_buffer_free(&out);
            mp_pprof_decoded_free(&decoded);
        }
    }
}

static void put_head(bytes *out)
{
    PUT_NUMBERS(out, 1, 1, 1);
    put_str(out, 6, "");
    put_str(out, 6, "x");
}

static void refused(const bytes *profile, int status, const char *expected)
{
    CHECK_INT(decode(profile->data, profile->len, NO_LIMIT), status);
    CHECK_STR(why, expected);
    CHECK(decoded.arena == NULL && decoded.bytes.data == NULL);
    mp_buffer packed = gzipped(profile->data, profile->len);
    CHECK_INT(decode(packed.data, packed.len, NO_LIMIT), status);
    if (!strstr(expected, "gzip")) CHECK_STR(why, expected);
    mp_buffer_free(&packed);
}

#define REFUSED(expected, ...)                                                                     \
    do {                                                                                           \
        bytes profile = {.len = 0}, *out = &profile;                                               \
        put_head(out);                                                                             \
        __VA_ARGS__                                                                                \
        refused(out, MP_EFORMAT, expected);                                                        \
    } while (0)

static void test_refusals(void)
{
    bytes nothing = {.len = 0};
    refused(&nothing, MP_EFORMAT, "empty");
    bytes text = {.len = 0};
    put_raw(&text, "just some text, not a profile\n", 30);
    refused(&text, MP_EFORMAT, "not gzip and not a pprof profile");
    mp_buffer packed = gzipped(text.data, text.len);
    CHECK_INT(decode(packed.data, packed.len, NO_LIMIT), MP_EFORMAT);
    CHECK_STR(why, "gzip, but no pprof profile in it");
    mp_buffer_free(&packed);

    bytes no_types = {.len = 0};
    put_str(&no_types, 6, "");
    refused(&no_types, MP_EFORMAT, "not gzip and not a pprof profile");
    bytes no_strings = {.len = 0};
    PUT_NUMBERS(&no_strings, 1, 0, 0);
    refused(&no_strings, MP_EFORMAT, "cut short: it has no strings");
    bytes first_string = no_strings;
    put_str(&first_string, 6, "x");
    refused(&first_string, MP_EFORMAT, "the first string is not the empty one");

    REFUSED("not gzip and not a pprof profile", put_int(out, 2, 1););
    REFUSED("not gzip and not a pprof profile", put_str(out, 12, "x"););
    REFUSED("damaged pprof profile", put_bytes(out, 2, "\x0a\x05\x01", 3););
    REFUSED("damaged pprof profile", put_bytes(out, 11, "\x08", 1););

    REFUSED("string index 2 is out of range: the profile has 2 strings", PUT_NUMBERS(out, 1, 2););
    REFUSED("string index -1 is out of range: the profile has 2 strings", put_int(out, 14, -1););
    REFUSED("string index 3 is out of range: the profile has 2 strings", put_int(out, 13, 3););
    REFUSED("string index 4 is out of range: the profile has 2 strings",
            PUT_NUMBERS(out, 11, 0, 4););
    REFUSED("string index 5 is out of range: the profile has 2 strings",
            PUT_NUMBERS(out, 3, 1, 0, 0, 0, 5););
    REFUSED("string index 4294967297 is out of range: the profile has 2 strings",
            PUT_NUMBERS(out, 5, 1, 4294967297););
    REFUSED("string index 7 is out of range: the profile has 2 strings",
            PUT_NUMBERS(out, 5, 1, 1, 7););
    REFUSED("string index 8 is out of range: the profile has 2 strings",
            PUT_NUMBERS(out, 5, 1, 1, 0, 8););

    REFUSED("a function has the id 0", PUT_NUMBERS(out, 5, 0, 1););
    REFUSED("function 9 is in the profile twice", PUT_NUMBERS(out, 5, 9); PUT_NUMBERS(out, 5, 9););
    REFUSED("a location has the id 0", PUT_NUMBERS(out, 4, 0, 0, 1););
    REFUSED("location 1 is in the profile twice", PUT_NUMBERS(out, 4, 1); PUT_NUMBERS(out, 4, 1););
    REFUSED("function 18446744073709551615 is not in the profile", bytes location = {.len = 0};
            put_int(&location, 1, 1); PUT_NUMBERS(&location, 4, -1);
            put_message(out, 4, &location););

    REFUSED("location 7 is not in the profile", bytes sample = {.len = 0};
            PUT_PACKED(&sample, 1, 7); PUT_PACKED(&sample, 2, 1); put_message(out, 2, &sample););
    REFUSED("location 0 is not in the profile", bytes sample = {.len = 0};
            PUT_PACKED(&sample, 1, 0); PUT_PACKED(&sample, 2, 1); put_message(out, 2, &sample););
    REFUSED("sample 1 has 0 values for 1 types", put_str(out, 2, ""););
    REFUSED("sample 2 has 2 values for 1 types", bytes sample = {.len = 0};
            PUT_PACKED(&sample, 2, 1); put_message(out, 2, &sample); sample.len = 0;
            PUT_PACKED(&sample, 2, 1, 1); put_message(out, 2, &sample););
    REFUSED("string index 6 is out of range: the profile has 2 strings", bytes sample = {.len = 0};
            PUT_PACKED(&sample, 2, 1); PUT_NUMBERS(&sample, 3, 1, 6);
            put_message(out, 2, &sample););
}

/* The profile so far, with the field added `times` times. */
static mp_buffer repeated(const bytes *head, const bytes *field, size_t times)
{
    mp_buffer out = {0};
    int status = mp_buffer_append(&out, head->data, head->len);
    for (size_t i = 0; !status && i < times; i++) {
        status = mp_buffer_append(&out, field->data, field->len);
    }
    CHECK_INT(status, MP_OK);
    return out;
}

static void refused_as_too_large(mp_buffer *raw, const char *expected)
{
    CHECK_INT(decode(raw->data, raw->len, NO_LIMIT), MP_ELIMIT);
    CHECK(strstr(why, expected) != NULL);
    mp_buffer packed = gzipped(raw->data, raw->len);
    CHECK_INT(decode(packed.data, packed.len, NO_LIMIT), MP_ELIMIT);
    CHECK(strstr(why, expected) != NULL);
    mp_buffer_free(&packed);
    mp_buffer_free(raw);
}

static void test_limits(void)
{
    bytes head = {.len = 0}, field = {.len = 0};
    put_head(&head);

    /* 40 MB of zeros in 40 kB: nothing but the limit stops it. */
    mp_buffer zeros = {0}, bomb = {0};
    CHECK_INT(mp_buffer_reserve(&zeros, 1 << 20), MP_OK);
    memset(zeros.data, 0, 1 << 20);
    mp_gzip gzip;
    CHECK_INT(mp_gzip_open(&gzip, &bomb), MP_OK);
    for (int i = 0; i < 40; i++) CHECK_INT(mp_gzip_write(&gzip, zeros.data, 1 << 20), MP_OK);
    CHECK_INT(mp_gzip_finish(&gzip), MP_OK);
    mp_gzip_close(&gzip);
    CHECK_INT(decode(bomb.data, bomb.len, 1000000), MP_ELIMIT);
    CHECK_STR(why, "larger than 1000000 bytes uncompressed");
    mp_buffer_free(&bomb);

    /* A location of 2,000 lines, and a sample that names it 8,000 times in a byte each. */
    bytes location = {.len = 0};
    put_int(&location, 1, 1);
    for (int i = 0; i < 2000; i++) put_str(&location, 4, "");
    put_message(&field, 4, &location);
    bytes ids = {.len = 8000}, sample = {.len = 0};
    memset(ids.data, 1, ids.len);
    put_message(&sample, 1, &ids);
    PUT_PACKED(&sample, 2, 1);
    put_message(&field, 2, &sample);
    mp_buffer stacks = repeated(&head, &field, 1);
    refused_as_too_large(&stacks, "its stacks are out of proportion to its ");

    /* Each empty string takes two bytes here, and sixteen there. */
    field.len = 0;
    put_str(&field, 6, "");
    mp_buffer strings = repeated(&head, &field, 2000000);
    CHECK_INT(decode(strings.data, strings.len, NO_LIMIT), MP_OK);
    CHECK_UINT(decoded.profile.n_strings, 2000002);
    mp_pprof_decoded_free(&decoded);
    mp_buffer_free(&strings);

    field.len = 0;
    put_int(&field, 13, 1);
    mp_buffer comments = repeated(&head, &field, 524285);
    CHECK_INT(decode(comments.data, comments.len, NO_LIMIT), MP_OK);
    CHECK_UINT(decoded.profile.n_comments, 524285);
    mp_pprof_decoded_free(&decoded);
    mp_buffer_free(&comments);
    comments = repeated(&head, &field, 524300);
    refused_as_too_large(&comments, "more than 1048576 bytes of sample types and comments");

    /* A field that claims a megabyte and has it. */
    for (uint32_t number = 2; number <= 5; number++) {
        field = head;
        put_varint(&field, number << 3 | 2);
        put_varint(&field, (1 << 20) + 1);
        mp_buffer message = {0};
        CHECK_INT(mp_buffer_append(&message, field.data, field.len), MP_OK);
        CHECK_INT(mp_buffer_append(&message, zeros.data, 1 << 20), MP_OK);
        CHECK_INT(mp_buffer_append(&message, zeros.data, 1), MP_OK);
        refused_as_too_large(&message, "a message of 1048577 bytes in it; at most 1048576 are");
    }
    mp_buffer_free(&zeros);
}

/* The smallest samples there are, many of them: honest, if odd. */
static void test_shallow_samples(void)
{
    bytes head = {.len = 0}, field = {.len = 0}, sample = {.len = 0};
    put_head(&head);
    PUT_NUMBERS(&head, 4, 1, 0, 1);
    put_int(&sample, 1, 1);
    PUT_PACKED(&sample, 2, 1);
    put_message(&field, 2, &sample);
    mp_buffer raw = repeated(&head, &field, 500000);
    CHECK_INT(decode(raw.data, raw.len, NO_LIMIT), MP_OK);
    CHECK_UINT(decoded.profile.n_samples, 500000);
    CHECK_STR(string(decoded.profile.functions[0].name), "0x1");
    mp_pprof_decoded_free(&decoded);
    mp_buffer_free(&raw);
}

static void test_out_of_memory(void)
{
    bytes raw = {.len = 0};
    put_foreign_profile(&raw);
    mp_buffer packed = gzipped(raw.data, raw.len);
    int status = MP_ENOMEM;
    long n;
    for (n = 0; status == MP_ENOMEM && n < 1000; n++) {
        mp_mem_fail_after(n);
        status = decode(packed.data, packed.len, NO_LIMIT);
        mp_mem_fail_after(-1);
        CHECK(status == MP_OK || (decoded.arena == NULL && decoded.bytes.data == NULL));
        if (status == MP_ENOMEM) CHECK_STR(why, "out of memory");
    }
    CHECK_INT(status, MP_OK);
    CHECK(n > 10);
    if (status == MP_OK) {
        check_foreign_profile();
        mp_pprof_decoded_free(&decoded);
    }
    mp_buffer_free(&packed);
}

int main(void)
{
    test_foreign_profile();
    test_deviations();
    test_cuts();
    test_damage();
    test_refusals();
    test_limits();
    test_shallow_samples();
    test_out_of_memory();
    return check_report();
}
