/*
 * The string table: each distinct string of a profile once, with a count of references. Strings
 * have a length and may hold any bytes. Number 0 is the empty string, always there, never counted.
 *
 * Also the string index: the order in which one output lists its strings (the empty one first).
 * It holds a reference of its own on each of them, so that the table may go on changing while the
 * output is written.
 *
 * Memory: the table owns copies of the bytes; they never move while a reference is held.
 * Locks: the caller's. Reading the bytes of a string on which one holds a reference needs none.
 * Failure: MP_STRING_NONE, when memory or a cap (strings, bytes) ran out.
 */
#ifndef MEMPROFILER_CORE_STRINGS_H
#define MEMPROFILER_CORE_STRINGS_H

#include <stddef.h>
#include <stdint.h>

#include "index.h"
#include "slabs.h"

#define MP_STRING_NONE UINT32_MAX

typedef struct {
    char *bytes;
    uint32_t length;
    uint32_t refs;
    uint32_t tag;
} mp_string;

typedef struct {
    mp_slabs slabs;
    mp_index index;
    size_t bytes;     /* of all strings now */
    size_t bytes_cap; /* exceeded by mp_strings_intern_own only */
    size_t held;      /* what malloc has given for them */
} mp_strings;

void mp_strings_init(mp_strings *strings, uint32_t cap, size_t bytes_cap);
void mp_strings_destroy(mp_strings *strings);
/* The number of the string, with one reference more for the caller. */
uint32_t mp_strings_intern(mp_strings *strings, const char *bytes, size_t length);
/*
 * The same beyond the caps: for the few texts that a profile can't do without, whatever the program has
 * filled the table with.
 */
uint32_t mp_strings_intern_own(mp_strings *strings, const char *bytes, size_t length);
void mp_strings_retain(mp_strings *strings, uint32_t id);
/* The last one frees the string. */
void mp_strings_release(mp_strings *strings, uint32_t id);
uint32_t mp_strings_count(const mp_strings *strings);
size_t mp_strings_memsize(const mp_strings *strings);

static inline const mp_string *mp_strings_at(const mp_strings *strings, uint32_t id)
{
    static char nothing[] = "";
    static const mp_string empty = {nothing, 0, 1, 0};
    return id == 0 ? &empty : mp_slabs_at(&strings->slabs, id);
}

typedef struct {
    mp_strings *strings;
    mp_index index;  /* string number -> place */
    uint32_t *order; /* place -> string number; order[0] is 0, the empty string */
    uint32_t length;
    uint32_t room;
} mp_string_index;

int mp_string_index_init(mp_string_index *index, mp_strings *strings);
/* Gives the references back; under the same lock as every other change of the table. */
void mp_string_index_destroy(mp_string_index *index);
/* The place of string `id` in this output, appended when new; MP_STRING_NONE without memory. */
uint32_t mp_string_index_place(mp_string_index *index, uint32_t id);

#endif
