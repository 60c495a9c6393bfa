/* Label sets: numbers of what was said, against a model of plain strings; caps; no memory. */
#include "check.h"
#include "dice.h"
#include "error.h"
#include "label_sets.h"
#include "mem.h"

#include <stdlib.h>

static mp_label_text text_of(const char *key, const char *value)
{
    return (mp_label_text){key, value, strlen(key), value ? strlen(value) : 0};
}

static uint32_t with(mp_labels *labels, uint32_t set, const char *key, const char *value)
{
    mp_label_text text = text_of(key, value);
    return mp_labels_with(labels, set, &text, 1);
}

/* "key=value;" for each pair, in the order of keys' numbers. */
static const char *told(const mp_labels *labels, uint32_t set)
{
    static char out[4][MP_LABELS_MAX * 600];
    static int turn;
    char *at = out[turn = (turn + 1) % 4];
    mp_label_pair pairs[MP_LABELS_MAX];
    uint32_t n = mp_labels_pairs(labels, set, pairs);
    const char *begin = at;
    *at = 0;
    while (n-- > 0) {
        const mp_string *key = mp_strings_at(&labels->strings, pairs[n].key);
        const mp_string *value = mp_strings_at(&labels->strings, pairs[n].value);
        at += sprintf(at, "%.*s=%.*s;", (int)key->length, key->bytes, (int)value->length,
                      value->bytes);
    }
    return begin;
}

static void test_contents(void)
{
    mp_labels labels;
    CHECK_INT(mp_labels_init(&labels), MP_OK);
    uint32_t a = with(&labels, 0, "a", "1");
    uint32_t ab = with(&labels, a, "b", "2");
    CHECK_STR(told(&labels, 0), "");
    CHECK_STR(told(&labels, ab), "a=1;b=2;");
    /* However they came to be. */
    CHECK_UINT(with(&labels, with(&labels, 0, "b", "2"), "a", "1"), ab);
    CHECK_UINT(with(&labels, with(&labels, ab, "a", "9"), "a", "1"), ab);
    CHECK_UINT(with(&labels, ab, "b", NULL), a);
    CHECK_UINT(with(&labels, ab, "b", ""), a);
    CHECK_UINT(with(&labels, a, "never there", NULL), a);
    CHECK_UINT(with(&labels, a, "a", NULL), 0);
    CHECK_STR(told(&labels, 1000000), "");
    CHECK_STR(told(&labels, with(&labels, 0, "a\n", "\x1b]0;x\x07\xc2\x9b\xe2\x80\xae")),
              "a?=?]0;x???;");
    CHECK_UINT(with(&labels, 0, "a\t", "??"), with(&labels, 0, "a\r", "\x01\x02"));
    mp_label_text both[] = {text_of("a", "7"), text_of("b", "2"), text_of("a", "1")};
    CHECK_UINT(mp_labels_with(&labels, 0, both, 3), ab);
    mp_labels_destroy(&labels);
}

/* Cut to 256 bytes, but not in the middle of a character. */
static void test_long(void)
{
    mp_labels labels;
    CHECK_INT(mp_labels_init(&labels), MP_OK);
    char value[400];
    memset(value, 'x', sizeof value);
    memcpy(value + 255, "\xc3\xa9", 2);
    mp_label_text text = {"k", value, 1, sizeof value};
    mp_label_pair pair[MP_LABELS_MAX];
    CHECK_UINT(mp_labels_pairs(&labels, mp_labels_with(&labels, 0, &text, 1), pair), 1);
    CHECK_UINT(mp_strings_at(&labels.strings, pair[0].value)->length, 255);
    text.value = "y";
    text.value_length = 1;
    uint32_t set = 0;
    for (int i = 0; i < 40; i++) {
        char key[16];
        text.key_length = (size_t)sprintf(key, "k%d", i);
        text.key = key;
        set = mp_labels_with(&labels, set, &text, 1);
    }
    CHECK_UINT(mp_labels_pairs(&labels, set, pair), MP_LABELS_MAX);
    mp_labels_destroy(&labels);
}

static void test_model(uint64_t seed)
{
    mp_labels labels;
    CHECK_INT(mp_labels_init(&labels), MP_OK);
    dice d = dice_new(seed);
    int model[5] = {0}; /* value of each key; 0: none */
    uint32_t set = 0;
    for (int i = 0; i < 5000; i++) {
        char key[16], value[16];
        uint32_t k = dice_roll(&d, 5), v = dice_roll(&d, 6);
        sprintf(key, "k%u", k);
        sprintf(value, "v%u", v);
        set = with(&labels, set, key, v ? value : NULL);
        model[k] = (int)v;
        mp_label_pair pairs[MP_LABELS_MAX];
        uint32_t n = mp_labels_pairs(&labels, set, pairs), expected = 0;
        for (int at = 0; at < 5; at++) expected += model[at] != 0;
        CHECK_UINT(n, expected);
        while (n-- > 0) {
            const char *of = mp_strings_at(&labels.strings, pairs[n].key)->bytes;
            const char *is = mp_strings_at(&labels.strings, pairs[n].value)->bytes;
            CHECK_INT(is[1] - '0', model[of[1] - '0']);
        }
    }
    CHECK(labels.sets.slabs.in_use <= 6 * 6 * 6 * 6 * 6);
    mp_labels_destroy(&labels);
}

static void test_cap(void)
{
    mp_labels labels;
    CHECK_INT(mp_labels_init(&labels), MP_OK);
    uint32_t kept = with(&labels, 0, "kept", "yes");
    for (uint32_t i = 0; i < MP_CAP_LABEL_SETS + 5000; i++) {
        char value[16];
        sprintf(value, "%u", i);
        uint32_t set = with(&labels, kept, "id", value);
        if (i < MP_CAP_LABEL_SETS - 1) continue;
        if (!CHECK_STR(told(&labels, set), "kept=yes;id=(other);")) break;
    }
    CHECK_STR(told(&labels, with(&labels, kept, "id", "17")), "kept=yes;id=17;");
    CHECK_STR(told(&labels, with(&labels, 0, "new", "x")), "new=(other);");
    CHECK(labels.sets.slabs.in_use <= MP_CAP_LABEL_SETS + 1024);
    CHECK(mp_labels_memsize(&labels) < (size_t)12 << 20);
    mp_labels_destroy(&labels);
}

/* Whatever allocation fails, a set is what it was or what it should be. */
static void test_no_memory(void)
{
    for (long fail = 0; fail < 40; fail++) {
        mp_labels labels;
        mp_mem_fail_after(fail);
        int error = mp_labels_init(&labels);
        uint32_t set = error ? 0 : with(&labels, with(&labels, 0, "a", "1"), "b", "2");
        mp_mem_fail_after(-1);
        if (error) {
            mp_labels_destroy(&labels);
            continue;
        }
        mp_label_pair pairs[MP_LABELS_MAX];
        CHECK(mp_labels_pairs(&labels, set, pairs) <= 2);
        CHECK_STR(told(&labels, with(&labels, 0, "a", "1")), "a=1;");
        mp_labels_destroy(&labels);
    }
}

int main(void)
{
    test_contents();
    test_long();
    for (uint64_t seed = 1; seed <= 5; seed++) test_model(seed);
    test_cap();
    test_no_memory();
    return check_report();
}
