/*
 * Functions and locations of a profile. A function is (name, system name, file, first line); a
 * location is (function, line). Each distinct one exists once, with a count of references; a
 * location holds one on its function, a function one on each of its strings.
 *
 * Memory: owned by the table. Locks: the caller's; reading an item on which one holds a reference
 * needs none, with a copy of the slab directory.
 * Failure: 0, when memory or a cap ran out.
 */
#ifndef MEMPROFILER_CORE_FUNCTIONS_H
#define MEMPROFILER_CORE_FUNCTIONS_H

#include "records.h"
#include "strings.h"

enum {
    MP_FUNCTION_OURS = 1, /* the profiler's own: left out of stacks */
    MP_FUNCTION_MAIN = 2, /* a top-level `<main>`, which Ruby 3.1 lists twice */
};

typedef struct {
    mp_record record;
    uint32_t name, system_name, file, start_line; /* the key */
    uint32_t flags;
} mp_function;

typedef struct {
    mp_record record;
    uint32_t function, line; /* the key */
    uint64_t address;        /* not 0; the same in every process and every flush */
} mp_location;

enum { MP_RECENT_LOCATIONS_BITS = 8 };

typedef struct {
    mp_strings *strings; /* not owned */
    mp_records functions;
    mp_records locations;
    /* Numbers of locations, where to look first: one stack after the other has the same outer frames. */
    uint32_t recent[1 << MP_RECENT_LOCATIONS_BITS];
} mp_functions;

void mp_functions_init(mp_functions *functions, mp_strings *strings, uint32_t functions_cap,
                       uint32_t locations_cap);
void mp_functions_destroy(mp_functions *functions);

/* Takes over the caller's references on the three strings, whether it succeeds or not. */
uint32_t mp_functions_intern(mp_functions *functions, uint32_t name, uint32_t system_name,
                             uint32_t file, uint32_t start_line);
void mp_functions_retain(mp_functions *functions, uint32_t id);
void mp_functions_release(mp_functions *functions, uint32_t id);
/* Borrows the function: takes a reference of its own. */
uint32_t mp_locations_intern(mp_functions *functions, uint32_t function, uint32_t line);
void mp_locations_release(mp_functions *functions, uint32_t id);
size_t mp_functions_memsize(const mp_functions *functions);

static inline mp_function *mp_functions_at(const mp_functions *functions, uint32_t id)
{
    return mp_records_at(&functions->functions, id);
}

static inline mp_location *mp_locations_at(const mp_functions *functions, uint32_t id)
{
    return mp_records_at(&functions->locations, id);
}

#endif
