#include "label_sets.h"

#include <string.h>

#include "error.h"
#include "names.h"
#include "utf8.h"

/* Strings are few where values are; this much holds a key and a value for each set. */
#define STRINGS_CAP (2 * MP_CAP_LABEL_SETS)
#define STRING_BYTES_CAP ((size_t)4 << 20)
/* Sets that only "(other)" may make. */
#define SETS_FOR_OTHERS 1024u

/* A set is another one and a pair whose key has a larger number than all of that one's. */
typedef struct {
    mp_record record;
    uint32_t parent, key, value; /* the key words */
} label_set;

#define SET_KEY_WORDS 3

int mp_labels_init(mp_labels *labels)
{
    static const char other[] = "(other)";
    mp_strings_init(&labels->strings, STRINGS_CAP, STRING_BYTES_CAP);
    mp_records_init(&labels->sets, sizeof(label_set), SET_KEY_WORDS,
                    MP_CAP_LABEL_SETS + SETS_FOR_OTHERS);
    labels->other = mp_strings_intern(&labels->strings, other, sizeof other - 1);
    return labels->other == MP_STRING_NONE ? MP_ENOMEM : MP_OK;
}

void mp_labels_destroy(mp_labels *labels)
{
    mp_records_destroy(&labels->sets);
    mp_strings_destroy(&labels->strings);
}

static const label_set *set_at(const mp_labels *labels, uint32_t set)
{
    return mp_records_at(&labels->sets, set);
}

uint32_t mp_labels_pairs(const mp_labels *labels, uint32_t set, mp_label_pair *pairs)
{
    uint32_t n = 0;
    if (set > labels->sets.slabs.top) return 0;
    for (; set; set = set_at(labels, set)->parent) {
        pairs[n++] = (mp_label_pair){set_at(labels, set)->key, set_at(labels, set)->value};
    }
    return n;
}

/* Strings are for ever, as the sets are: each keeps its first reference. */
static uint32_t string_of(mp_labels *labels, const char *bytes, size_t length)
{
    enum { MOST = MP_LABEL_BYTES_MAX + 4 }; /* with all of a character that goes over the end */
    char valid[3 * MOST], clean[MP_LABEL_BYTES_MAX]; /* it may have come with a request */
    size_t cut = mp_utf8_repair(bytes, length < MOST ? length : MOST, valid);
    if (cut > MP_LABEL_BYTES_MAX) {
        cut = MP_LABEL_BYTES_MAX;
        while ((valid[cut] & 0xc0) == 0x80) cut--; /* not within a character */
    }
    uint32_t id = mp_strings_intern(&labels->strings, clean, mp_text_clean(valid, cut, clean));
    if (id != MP_STRING_NONE && mp_strings_at(&labels->strings, id)->refs > 1) {
        mp_strings_release(&labels->strings, id);
    }
    return id;
}

static void take_out(mp_label_pair *pairs, uint32_t *n, uint32_t key)
{
    for (uint32_t i = 0; i < *n; i++) {
        if (pairs[i].key != key) continue;
        pairs[i] = pairs[--*n];
        return;
    }
}

static void change(mp_labels *labels, mp_label_pair *pairs, uint32_t *n, const mp_label_text *text)
{
    uint32_t key = string_of(labels, text->key, text->key_length);
    if (key == MP_STRING_NONE) return;
    take_out(pairs, n, key);
    if (!text->value || !text->value_length || *n == MP_LABELS_MAX) return;
    uint32_t value = string_of(labels, text->value, text->value_length);
    pairs[(*n)++] = (mp_label_pair){key, value == MP_STRING_NONE ? labels->other : value};
}

static void sort(mp_label_pair *pairs, uint32_t n)
{
    for (uint32_t i = 1; i < n; i++) {
        mp_label_pair pair = pairs[i];
        uint32_t at = i;
        for (; at > 0 && pairs[at - 1].key > pair.key; at--) pairs[at] = pairs[at - 1];
        pairs[at] = pair;
    }
}

static uint32_t set_of(mp_labels *labels, uint32_t parent, mp_label_pair pair)
{
    uint32_t key[SET_KEY_WORDS] = {parent, pair.key, pair.value};
    uint32_t set = mp_records_find(&labels->sets, key);
    if (set) return set;
    if (labels->sets.slabs.in_use >= MP_CAP_LABEL_SETS && pair.value != labels->other) {
        return set_of(labels, parent, (mp_label_pair){pair.key, labels->other});
    }
    set = mp_records_intern(&labels->sets, key);
    return set ? set : parent;
}

uint32_t mp_labels_with(mp_labels *labels, uint32_t set, const mp_label_text *texts, uint32_t n)
{
    mp_label_pair pairs[MP_LABELS_MAX];
    uint32_t count = mp_labels_pairs(labels, set, pairs);
    for (uint32_t i = 0; i < n; i++) change(labels, pairs, &count, &texts[i]);
    sort(pairs, count);
    set = 0;
    for (uint32_t i = 0; i < count; i++) set = set_of(labels, set, pairs[i]);
    return set;
}

size_t mp_labels_memsize(const mp_labels *labels)
{
    return mp_strings_memsize(&labels->strings) + mp_records_memsize(&labels->sets);
}
