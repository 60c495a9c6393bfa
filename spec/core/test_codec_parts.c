/* What the codec is built of: buffer, UTF-8 repair, gzip, wire fields, id map, addresses. */
#include "buffer.h"
#include "check.h"
#include "error.h"
#include "gzip.h"
#include "idmap.h"
#include "mem.h"
#include "pprof.h"
#include "utf8.h"
#include "wire.h"

#include <stdlib.h>

static void test_buffer(void)
{
    mp_buffer buffer = {0};
    CHECK_INT(mp_buffer_append(&buffer, NULL, 0), MP_OK);
    CHECK(buffer.data == NULL);
    for (int i = 0; i < 3000; i++) CHECK_INT(mp_buffer_append(&buffer, "abcde", 5), MP_OK);
    CHECK_UINT(buffer.len, 15000);
    CHECK(memcmp(buffer.data + 14990, "abcdeabcde", 10) == 0);

    mp_mem_fail_after(0);
    CHECK_INT(mp_buffer_reserve(&buffer, 1 << 20), MP_ENOMEM);
    mp_mem_fail_after(-1);
    CHECK_UINT(buffer.len, 15000);
    CHECK(memcmp(buffer.data, "abcde", 5) == 0);
    CHECK_INT(mp_buffer_reserve(&buffer, SIZE_MAX), MP_ENOMEM);
    mp_buffer_free(&buffer);
    CHECK(buffer.data == NULL && buffer.len == 0 && buffer.cap == 0);
}

/* The expected forms are Ruby's String#scrub, except that stray bytes after one another make one
 * mark. */
static void test_utf8(void)
{
    static const struct {
        const char *bytes, *repaired;
    } cases[] = {
        {"", ""},
        {"Foo#bar", "Foo#bar"},
        {"\xd0\xb6#\xe2\x82\xac \xf0\x9f\x92\x8e", "\xd0\xb6#\xe2\x82\xac \xf0\x9f\x92\x8e"},
        {"\xff", "\xef\xbf\xbd"},
        {"a\xff"
         "b",
         "a\xef\xbf\xbd"
         "b"},
        {"\xe2\x82", "\xef\xbf\xbd"}, /* cut short */
        {"\xe2\x82x", "\xef\xbf\xbdx"},
        {"\x80\x80\x80z", "\xef\xbf\xbdz"},   /* nothing they could continue */
        {"\xc0\xaf", "\xef\xbf\xbd"},         /* an overlong '/' */
        {"\xed\xa0\x80", "\xef\xbf\xbd"},     /* a surrogate */
        {"\xf4\x90\x80\x80", "\xef\xbf\xbd"}, /* past U+10FFFF */
        {"\xff\xff", "\xef\xbf\xbd\xef\xbf\xbd"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        size_t len = strlen(cases[i].bytes);
        char out[64];
        size_t written = mp_utf8_repair(cases[i].bytes, len, out);
        CHECK_BYTES(out, written, cases[i].repaired, strlen(cases[i].repaired));
        CHECK_UINT(mp_utf8_repair(cases[i].bytes, len, NULL), written);
        CHECK(mp_utf8_valid(out, written));
        out[written] = 0;
        CHECK(mp_utf8_valid(cases[i].bytes, len) == (strcmp(cases[i].bytes, out) == 0));
    }
    /* A long run takes the other, vectorized way through the validator. */
    char long_run[400], out[1200];
    memset(long_run, 'a', sizeof long_run);
    memcpy(long_run + 301, "\xe2\x28\xa1", 3);
    CHECK(!mp_utf8_valid(long_run, sizeof long_run));
    CHECK_UINT(mp_utf8_repair(long_run, sizeof long_run, out), 400 - 2 + 6);
    CHECK(memcmp(out + 299,
                 "aa\xef\xbf\xbd(\xef\xbf\xbd"
                 "aa",
                 11) == 0);
}

/* printf hello | gzip -n -9 */
static const uint8_t HELLO_GZ[] = {0x1f, 0x8b, 0x08, 0x00, 0x00, 0x00, 0x00, 0x00, 0x02,
                                   0x03, 0xcb, 0x48, 0xcd, 0xc9, 0xc9, 0x07, 0x00, 0x86,
                                   0xa6, 0x10, 0x36, 0x05, 0x00, 0x00, 0x00};

static int gunzip(const uint8_t *bytes, size_t len, size_t max_bytes, const char *expected,
                  const char *expected_why)
{
    mp_buffer out = {0};
    const char *why = "";
    int status = mp_gunzip(bytes, len, max_bytes, &out, &why);
    if (status == MP_OK) CHECK_BYTES(out.data, out.len, expected, strlen(expected));
    CHECK_STR(why, expected_why);
    CHECK(out.len <= max_bytes + 1);
    mp_buffer_free(&out);
    return status;
}

static void test_gunzip(void)
{
    size_t len = sizeof HELLO_GZ;
    CHECK(mp_gzip_is(HELLO_GZ, len));
    CHECK(!mp_gzip_is(HELLO_GZ, 1));
    CHECK(!mp_gzip_is((const uint8_t *)"hello", 5));
    CHECK_INT(gunzip(HELLO_GZ, len, 100, "hello", ""), MP_OK);
    CHECK_INT(gunzip(HELLO_GZ, len, 5, "hello", ""), MP_OK);
    CHECK_INT(gunzip(HELLO_GZ, len, 4, "", ""), MP_ELIMIT);
    CHECK_INT(gunzip(HELLO_GZ, len, 0, "", ""), MP_ELIMIT);
    for (size_t cut = 2; cut < len; cut++) {
        CHECK_INT(gunzip(HELLO_GZ, cut, 100, "", "cut short"), MP_EFORMAT);
    }

    uint8_t twice[2 * sizeof HELLO_GZ + 1];
    memcpy(twice, HELLO_GZ, len);
    memcpy(twice + len, HELLO_GZ, len);
    CHECK_INT(gunzip(twice, 2 * len, 100, "hellohello", ""), MP_OK);
    CHECK_INT(gunzip(twice, 2 * len, 9, "", ""), MP_ELIMIT);
    CHECK_INT(gunzip(twice, len + 1, 100, "", "cut short"), MP_EFORMAT);
    CHECK_INT(gunzip(twice, len + 5, 100, "", "cut short"), MP_EFORMAT);
    twice[2 * len] = 0;
    CHECK_INT(gunzip(twice, 2 * len + 1, 100, "", "garbage after the end"), MP_EFORMAT);

    uint8_t damaged[sizeof HELLO_GZ];
    memcpy(damaged, HELLO_GZ, len);
    damaged[len - 5] ^= 1; /* of the checksum */
    CHECK_INT(gunzip(damaged, len, 100, "", "damaged gzip data"), MP_EFORMAT);
    memcpy(damaged, HELLO_GZ, len);
    damaged[10] = 0x07; /* a block of no known type */
    CHECK_INT(gunzip(damaged, len, 100, "", "damaged gzip data"), MP_EFORMAT);
}

static int gzip(const char *bytes, size_t len, size_t step, mp_buffer *out)
{
    mp_gzip gzip;
    int status = mp_gzip_open(&gzip, out);
    if (status) return status;
    for (size_t at = 0; !status && at < len; at += step) {
        status = mp_gzip_write(&gzip, bytes + at, len - at < step ? len - at : step);
    }
    if (!status) status = mp_gzip_finish(&gzip);
    mp_gzip_close(&gzip);
    return status;
}

static void test_gzip(void)
{
    size_t len = 300000;
    char *bytes = malloc(len);
    uint32_t random = 1;
    for (size_t i = 0; i < len; i++) {
        random = random * 1664525 + 1013904223;
        bytes[i] = (char)(random >> 24);
    }
    mp_buffer whole = {0}, steps = {0}, back = {0};
    CHECK_INT(gzip(bytes, len, len, &whole), MP_OK);
    CHECK_INT(gzip(bytes, len, 777, &steps), MP_OK);
    CHECK_BYTES(steps.data, steps.len, whole.data, whole.len);
    CHECK_BYTES(whole.data, 8, "\x1f\x8b\x08\0\0\0\0\0", 8); /* no name, no time */
    const char *why = "";
    CHECK_INT(mp_gunzip(whole.data, whole.len, len, &back, &why), MP_OK);
    CHECK_BYTES(back.data, back.len, bytes, len);

    mp_buffer empty = {0};
    CHECK_INT(gzip(bytes, 0, 1, &empty), MP_OK);
    CHECK_INT(gunzip(empty.data, empty.len, 0, "", ""), MP_OK);

    /* Out of memory at each allocation in turn. */
    int status = MP_ENOMEM;
    for (long n = 0; status == MP_ENOMEM && n < 1000; n++) {
        mp_buffer out = {0};
        mp_mem_fail_after(n);
        status = gzip(bytes, len, 5000, &out);
        mp_mem_fail_after(-1);
        CHECK(status == MP_ENOMEM || (status == MP_OK && out.len == whole.len));
        mp_buffer_free(&out);
    }
    CHECK_INT(status, MP_OK);
    mp_buffer_free(&whole);
    mp_buffer_free(&steps);
    mp_buffer_free(&back);
    mp_buffer_free(&empty);
    free(bytes);
}

static int next_field(const char *bytes, size_t len, mp_wire_field *field)
{
    const char *at = bytes;
    int status = mp_wire_next(&at, bytes + len, field);
    CHECK_UINT(at - bytes, status ? 0 : field->size);
    return status;
}

/* Examples from the description of the wire format: 08 96 01 is field 1 = 150. */
static void test_wire(void)
{
    mp_wire_field field;
    CHECK_INT(next_field("\x08\x96\x01zz", 5, &field), MP_OK);
    CHECK_UINT(field.number, 1);
    CHECK_INT(field.type, MP_WIRE_VARINT);
    CHECK_BYTES(field.value, field.len, "\x96\x01", 2);
    CHECK_INT(next_field("\x12\x07testing", 9, &field), MP_OK);
    CHECK_UINT(field.number, 2);
    CHECK_BYTES(field.value, field.len, "testing", 7);
    CHECK_INT(next_field("\x12\x00", 2, &field), MP_OK);
    CHECK_UINT(field.len, 0);
    CHECK_INT(next_field("\x82\x7d\x01z", 4, &field), MP_OK); /* field 2000 */
    CHECK_UINT(field.number, 2000);
    CHECK_INT(next_field("\x09"
                         "12345678",
                         9, &field),
              MP_OK);
    CHECK_UINT(field.len, 8);
    CHECK_INT(next_field("\x0d"
                         "1234",
                         5, &field),
              MP_OK);
    CHECK_UINT(field.len, 4);
    /* -1 takes ten bytes, the last of them 1. */
    CHECK_INT(next_field("\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 11, &field), MP_OK);

    static const struct {
        const char *bytes;
        size_t len;
        int status;
    } bad[] = {
        {"\x08", 1, MP_ERANGE},
        {"\x08\x96", 2, MP_ERANGE},
        {"\x12\x07testin", 8, MP_ERANGE},
        {"\x12\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 11, MP_ERANGE},
        {"\x09"
         "1234567",
         8, MP_ERANGE},
        {"\x0d"
         "123",
         4, MP_ERANGE},
        {"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02", 11, MP_EFORMAT}, /* 65 bits */
        {"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 12, MP_EFORMAT},
        {"\x00\x01", 2, MP_EFORMAT},                 /* field 0 */
        {"\x80\x80\x80\x80\x10\x01", 6, MP_EFORMAT}, /* field 2^29 */
        {"\x0b\x0c", 2, MP_EFORMAT},                 /* a group */
        {"\x0f", 1, MP_EFORMAT},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        CHECK_INT(next_field(bad[i].bytes, bad[i].len, &field), bad[i].status);
    }
}

static void check_ids(const uint64_t *ids, uint32_t count, bool sparse)
{
    mp_idmap map = {0};
    uint32_t number;
    for (uint32_t i = 0; i < count; i++) {
        CHECK(!mp_idmap_find(&map, ids[i], &number));
        CHECK_INT(mp_idmap_add(&map, ids[i]), MP_OK);
        CHECK_INT(mp_idmap_add(&map, ids[0]), MP_EFORMAT);
    }
    CHECK_UINT(map.count, count);
    CHECK(map.sparse == sparse);
    for (uint32_t i = 0; i < count; i++) {
        CHECK(mp_idmap_find(&map, ids[i], &number) && number == i);
    }
    CHECK(!mp_idmap_find(&map, UINT64_MAX - 7, &number));
    mp_idmap_free(&map);
}

static void test_idmap(void)
{
    check_ids((const uint64_t[]){1, 2, 3, 4}, 4, false);
    check_ids((const uint64_t[]){1, 2, 3, 5, 4, 9}, 6, true);
    check_ids((const uint64_t[]){UINT64_MAX, 1, 0x4f00, 2}, 4, true);

    uint64_t many[1000];
    for (uint32_t i = 0; i < 1000; i++) many[i] = UINT64_C(0x1000) * (1000 - i);
    check_ids(many, 1000, true);

    int status = MP_ENOMEM;
    for (long n = 0; status == MP_ENOMEM && n < 100; n++) {
        mp_idmap map = {0};
        mp_mem_fail_after(n);
        status = MP_OK;
        for (uint32_t i = 0; !status && i < 1000; i++) status = mp_idmap_add(&map, many[i]);
        mp_mem_fail_after(-1);
        mp_idmap_free(&map);
    }
    CHECK_INT(status, MP_OK);
}

static mp_pprof_str str(const char *text)
{
    return (mp_pprof_str){text, (uint32_t)strlen(text)};
}

static int by_number(const void *left, const void *right)
{
    uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
    return a < b ? -1 : a > b;
}

static void test_address(void)
{
    mp_pprof_str name = str("Foo#bar"), file = str("/srv/app/foo.rb");
    uint64_t address = mp_pprof_address(name, file, 10, 12);
    /* Files written by other releases are compared by it: it must never change. */
    CHECK_UINT(address, UINT64_C(0x31eca12bf9ac));
    CHECK_UINT(mp_pprof_address(name, file, 10, 12), address);
    CHECK(mp_pprof_address(name, file, 10, 13) != address);
    CHECK(mp_pprof_address(name, file, 10, -12) != address);
    CHECK(mp_pprof_address(name, file, 11, 12) != address);
    CHECK(mp_pprof_address(str("Foo#ba"), str("r/srv/app/foo.rb"), 10, 12) != address);
    CHECK(mp_pprof_address(file, name, 10, 12) != address);
    CHECK(mp_pprof_address(str(""), (mp_pprof_str){0}, 0, 0) != 0);

    /* 200,000 of 2^48: the odds of any two being the same are 1 in 14,000. */
    enum { COUNT = 200000 };
    uint64_t *all = malloc(COUNT * sizeof *all);
    uint64_t ones = 0, zeros = 0;
    for (uint32_t i = 0; i < COUNT; i++) {
        char text[32];
        snprintf(text, sizeof text, "Class%u#m", i / 100);
        all[i] = mp_pprof_address(str(text), file, 1, i % 100);
        ones |= all[i];
        zeros |= ~all[i];
        CHECK(all[i] != 0 && all[i] >> 48 == 0);
    }
    CHECK_UINT(ones, (UINT64_C(1) << 48) - 1);
    CHECK_UINT(zeros, UINT64_MAX);
    qsort(all, COUNT, sizeof *all, by_number);
    uint32_t same = 0;
    for (uint32_t i = 1; i < COUNT; i++) same += all[i] == all[i - 1];
    CHECK_UINT(same, 0);
    free(all);
}

int main(void)
{
    test_buffer();
    test_utf8();
    test_gunzip();
    test_gzip();
    test_wire();
    test_idmap();
    test_address();
    return check_report();
}
