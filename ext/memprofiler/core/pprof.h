/*
 * A pprof profile as flat C arrays: what the encoder takes and the decoder gives. Strings stand
 * once, in `strings`; functions, locations and samples name each other and the strings by index
 * (not by pprof's ids). A location has one line.
 *
 * Memory: the encoder only reads its input. A decoded profile owns all that it points to, until
 * mp_pprof_decoded_free. Both take memory from mem.h alone and leave none behind when they fail.
 * Locks: none; both work on their arguments only, and need no GVL.
 */
#ifndef MEMPROFILER_CORE_PPROF_H
#define MEMPROFILER_CORE_PPROF_H

#include <stddef.h>
#include <stdint.h>

#include "buffer.h"

typedef struct {
    const char *ptr; /* not NUL-terminated; may be NULL when len is 0 */
    uint32_t len;
} mp_pprof_str;

typedef struct {
    uint32_t name, system_name, file; /* string indexes */
    int64_t start_line;
} mp_pprof_function;

typedef struct {
    uint32_t function; /* function index */
    int64_t line;
    uint64_t address;
} mp_pprof_location;

typedef struct {
    uint32_t key; /* string index */
    uint32_t str; /* string index; 0: the label is numeric */
    int64_t num;
    uint32_t num_unit; /* string index */
} mp_pprof_label;

typedef struct {
    const uint32_t *locations; /* location indexes, the leaf first */
    uint32_t depth;
    const int64_t *values;     /* one for each sample type */
    const int64_t *deviations; /* as many, each at least 0; or NULL (proto/profile.proto) */
    const mp_pprof_label *labels;
    uint32_t n_labels;
} mp_pprof_sample;

typedef struct {
    const mp_pprof_str *strings; /* strings[0] is empty */
    uint32_t n_strings;
    const mp_pprof_function *functions;
    uint32_t n_functions;
    const mp_pprof_location *locations;
    uint32_t n_locations;
    const mp_pprof_sample *samples;
    uint32_t n_samples;
    const uint32_t *sample_types; /* n_types pairs of string indexes: type, unit */
    uint32_t n_types;
    const uint32_t *comments; /* string indexes */
    uint32_t n_comments;
    uint32_t default_sample_type; /* string index, as all below; 0: none */
    uint32_t period_type, period_unit;
    uint32_t mapping_file; /* 0: no mapping */
    int64_t period;
    int64_t time_nanos, duration_nanos; /* 0: unknown */
} mp_pprof;

/* Why the decoder refused: this much holds every text it gives. */
#define MP_PPROF_WHY_LEN 160

/* The largest uncompressed profile that can be read, whatever max_bytes says. */
#define MP_PPROF_MAX_BYTES ((size_t)INT32_MAX)

/* What the arrays may take at most, in bytes: some three million samples. */
#define MP_PPROF_MAX_ARRAYS ((size_t)512 * 1024 * 1024)

typedef struct {
    mp_pprof profile;
    /* What the profile points to; for decode.c alone. */
    mp_buffer bytes;
    void *arena;
} mp_pprof_decoded;

/* What encoding takes beside its input and `out`, about: an arena, and the state of a deflate. */
#define MP_PPROF_ENCODING ((size_t)1 << 20)

/*
 * Appends the gzipped profile to `out`; the same input gives the same bytes. Strings that are not
 * UTF-8 are repaired (utf8.h), a system_name equal to its name is left out (pprof would demangle it
 * as C++), and every location belongs to the one mapping. Beyond `out`, memory use does not depend
 * on the number of samples.
 * MP_ERANGE: an index out of range, no sample types, or strings[0] not empty; MP_ENOMEM; MP_EZLIB.
 * After a failure `out` holds part of a profile.
 */
int mp_pprof_encode(const mp_pprof *profile, mp_buffer *out);

/*
 * Reads a profile, gzipped or not, by whatever program. A location with several (inlined) lines
 * becomes as many locations, and every stack through it grows accordingly; a location without a
 * function gets one named after its address ("0x4f00"); of several mappings the first gives
 * mapping_file. Strings are repaired to be UTF-8; a label with several values for a key keeps them
 * all. Every index in the result is in range, and every sample has n_types values.
 *
 * Never takes more than max_bytes for the unpacked profile, some ten times its size and
 * MP_PPROF_MAX_ARRAYS for the arrays, and 1 MiB for all that stands beside samples, locations, functions and strings.
 * MP_EFORMAT: not a profile, damaged, or cut short; MP_ELIMIT: larger than allowed; MP_ENOMEM;
 * MP_EZLIB. After a failure `out` needs no freeing, and `why` says what was wrong.
 */
int mp_pprof_decode(const uint8_t *bytes, size_t len, size_t max_bytes, mp_pprof_decoded *out,
                    char *why, size_t why_len);
void mp_pprof_decoded_free(mp_pprof_decoded *decoded);

/*
 * An address for a location of an interpreted language: never 0, below 2^48, the same in every
 * process for the same function and line. Scrapers tell stacks apart by address alone.
 */
uint64_t mp_pprof_address(mp_pprof_str name, mp_pprof_str file, int64_t start_line, int64_t line);

#endif
