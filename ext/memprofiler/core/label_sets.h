/*
 * Label sets: what the program says of a piece of work (`endpoint: "posts#index"`), as one number
 * that a site's key has room for. Number 0 is the empty set. Equal contents have one number, however
 * they were nested.
 *
 * Sets are for ever: a sample may speak of one long after the work is done. So there are at most
 * MP_CAP_LABEL_SETS of them; from then on a value that would make a new one is "(other)".
 *
 * Memory: owned by the table, some 8 MB with all of it full. Locks: the caller's.
 * Failure: a pair that there is no room for is left out.
 */
#ifndef MEMPROFILER_CORE_LABEL_SETS_H
#define MEMPROFILER_CORE_LABEL_SETS_H

#include "records.h"
#include "strings.h"

#define MP_LABELS_MAX 16u /* pairs in a set */
#define MP_CAP_LABEL_SETS (1u << 15)
#define MP_LABEL_BYTES_MAX 256u /* of a key or value; the rest is cut off */

typedef struct {
    mp_strings strings;
    mp_records sets;
    uint32_t other; /* the string */
} mp_labels;

/* Strings of the table. */
typedef struct {
    uint32_t key, value;
} mp_label_pair;

/* Not NUL-terminated. A value that is NULL or empty, which pprof can't tell from none, takes the key out of the set. */
typedef struct {
    const char *key, *value;
    size_t key_length, value_length;
} mp_label_text;

/* MP_ENOMEM: then every set is 0, and nothing needs to be freed. */
int mp_labels_init(mp_labels *labels);
void mp_labels_destroy(mp_labels *labels);

/* The set that `set` becomes with these pairs, the later of two for one key. */
uint32_t mp_labels_with(mp_labels *labels, uint32_t set, const mp_label_text *texts, uint32_t n);
/* How many pairs the set has, and which; an unknown number has none. */
uint32_t mp_labels_pairs(const mp_labels *labels, uint32_t set, mp_label_pair *pairs);
size_t mp_labels_memsize(const mp_labels *labels);

#endif
