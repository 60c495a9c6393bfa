/* Names fit for a profile. Expected forms are written by hand, after names that Ruby prints. */
#include "check.h"
#include "names.h"

#include <stdlib.h>

static void check_clean(const char *name, const char *expected)
{
    char out[MP_NAME_MAX];
    CHECK_BYTES(out, mp_name_clean(name, strlen(name), out), expected, strlen(expected));
}

static void test_addresses(void)
{
    check_clean("", "");
    check_clean("Foo::Bar#baz", "Foo::Bar#baz");
    check_clean("block in Foo#each", "block in Foo#each");
    /* Ruby 3.x, 64 bits: sixteen digits. */
    check_clean("#<Class:0x00007f0123456789>", "#<Class>");
    check_clean("#<Module:0x00007fa0d1e2f3a4>#call", "#<Module>#call");
    check_clean("#<Class:0x00007f0123456789>::Inner#new", "#<Class>::Inner#new");
    check_clean("#<Class:#<Object:0x00007f0123456789>>", "#<Class:#<Object>>");
    check_clean("#<Class:0x0000000000000001>#<Class:0xffffffffffffffff>", "#<Class>#<Class>");
    check_clean("#<Class:0x12345678>", "#<Class>"); /* eight digits are enough */
    check_clean(":0x12345678", "");
    check_clean("#<Class:0x00007f0123456789", "#<Class");
    /* Not addresses. */
    check_clean("#<Class:0x1234567>", "#<Class:0x1234567>");
    check_clean("#<Class:Foo>", "#<Class:Foo>");
    check_clean("0x00007f0123456789", "0x00007f0123456789");
    check_clean(":0X00007f0123456789", ":0X00007f0123456789");
    check_clean("Foo:0x", "Foo:0x");
    check_clean("Foo:0xzzzzzzzzz", "Foo:0xzzzzzzzzz");
    check_clean("::0x1234567", "::0x1234567");
    check_clean("::0x12345678", ":");
}

static void test_control_characters(void)
{
    check_clean("a\nb\tc\x01\x1f\x7f", "a?b?c???");
    check_clean("d\xc3\xa9j\xc3\xa0 vu", "d\xc3\xa9j\xc3\xa0 vu");
    check_clean("\xff\x80", "\xff\x80"); /* not UTF-8: the encoder's affair */
    char out[MP_NAME_MAX];
    CHECK_BYTES(out, mp_name_clean("a\0b", 3, out), "a?b", 3);
    /* U+009B, which terminals take for ESC [; and what turns text round or breaks its line. */
    check_clean("a\xc2\x9b"
                "31m",
                "a?31m");
    check_clean("\xc2\x80\xc2\x9f\xc2\xa0", "??\xc2\xa0");
    check_clean("\xe2\x80\xae"
                "cba\xe2\x80\xac",
                "?cba?");
    check_clean("\xe2\x80\x8e\xe2\x80\x8f\xe2\x80\xa8\xe2\x80\xa9\xe2\x81\xa6\xe2\x81\xa9\xd8\x9c",
                "???????");
    check_clean("\xe2\x80\x90\xe2\x80\xa7\xe2\x80\xaf\xe2\x81\xa5\xe2\x81\xaa\xd8\x9b",
                "\xe2\x80\x90\xe2\x80\xa7\xe2\x80\xaf\xe2\x81\xa5\xe2\x81\xaa\xd8\x9b");
    check_clean("\xc2", "\xc2"); /* cut short */
    check_clean("\xe2\x80", "\xe2\x80");
    check_clean("\xe2\x80\xc2\x9b", "\xe2\x80?");
    /* What an address kept apart. */
    check_clean("\xc2:0x12345678\x9b"
                "31m",
                "?31m");
    check_clean("\xe2\x80:0x123456789\xae", "?");
    check_clean("\xe2:0x123456789\x81:0x123456789\xa6", "?");
    char text[] = ":0x00007f0123456789\x1b[0m\xc2\x85";
    CHECK_BYTES(text, mp_text_clean(text, strlen(text), text), ":0x00007f0123456789?[0m?", 24);
}

static void test_length(void)
{
    char name[3 * MP_NAME_MAX], out[MP_NAME_MAX], expected[MP_NAME_MAX];
    const char *cut = "\xe2\x80\xa6";
    memset(name, 'x', sizeof name);
    CHECK_BYTES(out, mp_name_clean(name, MP_NAME_MAX, out), name, MP_NAME_MAX);
    for (size_t length = MP_NAME_MAX + 1; length < MP_NAME_MAX + 9; length++) {
        memcpy(expected, name, MP_NAME_MAX);
        memcpy(expected + MP_NAME_MAX - 3, cut, 3);
        CHECK_BYTES(out, mp_name_clean(name, length, out), expected, MP_NAME_MAX);
    }

    /* Cut between characters of two, three and four bytes, wherever the limit falls. */
    static const char *const letters[] = {"\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x92\x8e"};
    for (size_t letter = 0; letter < 3; letter++) {
        size_t width = strlen(letters[letter]);
        for (size_t shift = 0; shift < 8; shift++) {
            size_t length = shift;
            memset(name, 'x', shift);
            while (length + width <= sizeof name) {
                memcpy(name + length, letters[letter], width);
                length += width;
            }
            size_t keep = MP_NAME_MAX - 3; /* room for the ellipsis, then whole letters */
            keep -= (keep - shift) % width;
            memcpy(expected, name, keep);
            memcpy(expected + keep, cut, 3);
            CHECK_BYTES(out, mp_name_clean(name, length, out), expected, keep + 3);
        }
    }

    /* What an address would have taken does not count. */
    memset(name, 'x', sizeof name);
    memcpy(name + MP_NAME_MAX - 5, ":0x00007f0123456789>", 20);
    memset(expected, 'x', MP_NAME_MAX);
    expected[MP_NAME_MAX - 5] = '>';
    CHECK_BYTES(out, mp_name_clean(name, MP_NAME_MAX + 15, out), expected, MP_NAME_MAX - 4);
    memset(name, 'x', sizeof name);
    memcpy(name + MP_NAME_MAX, ":0x00007f0123456789", 19);
    CHECK_BYTES(out, mp_name_clean(name, MP_NAME_MAX + 19, out), name, MP_NAME_MAX);

    /* Never more than the room there is, even for bytes that are no text at all. */
    memset(name, 0x80, sizeof name);
    CHECK(mp_name_clean(name, sizeof name, out) <= MP_NAME_MAX);
}

/* A name that is clean stays as it is: a class is the same in every flush. */
static void test_twice(void)
{
    const char *names[] = {"#<Class:0x00007f0123456789>", "a\nb", "Foo#bar", "::0x123456789"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char once[MP_NAME_MAX], twice[MP_NAME_MAX];
        size_t length = mp_name_clean(names[i], strlen(names[i]), once);
        CHECK_BYTES(twice, mp_name_clean(once, length, twice), once, length);
    }
}

int main(void)
{
    test_addresses();
    test_control_characters();
    test_length();
    test_twice();
    return check_report();
}
