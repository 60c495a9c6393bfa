/*
 * What a snapshot is made of, for snapshot.c, which copies it, and snapshot_output.c, which writes
 * it. Nobody else's business.
 */
#ifndef MEMPROFILER_CORE_SNAPSHOT_PARTS_H
#define MEMPROFILER_CORE_SNAPSHOT_PARTS_H

#include "baseline.h"
#include "snapshot.h"

enum { ALLOC_OBJECTS, ALLOC_SPACE, INUSE_OBJECTS, INUSE_SPACE, N_VALUES };

/* What is known of one named site, or of one row of the output. */
typedef struct {
    uint64_t values[N_VALUES];
    double variances[N_VALUES]; /* that of ALLOC_OBJECTS follows from its value, and is not kept */
} figures;

/* Variances that living samples as the baseline had them add to both sums of a site. */
typedef struct {
    double objects, bytes;
} unchanged;

/* Literals of the output, interned before it is written so that each stands once. */
enum {
    LIT_ALLOC_OBJECTS,
    LIT_ALLOC_SPACE,
    LIT_INUSE_OBJECTS,
    LIT_INUSE_SPACE,
    LIT_COUNT,
    LIT_BYTES,
    LIT_OBJECTS,
    LIT_PROGRAM,
    LIT_CLASS,
    LIT_THREAD,
    LIT_AGE,
    LIT_COLLECTIONS,
    LIT_PID,
    N_LITERALS
};

/* The tables' slab directories, as they were: the items are never freed while the recorder lives. */
typedef struct {
    char **dir;
    uint32_t size;
    uint32_t top;
} items;

/* A living sample, kept apart only when its age is asked for. */
typedef struct {
    uint32_t site; /* named */
    uint32_t age;
    uint64_t objects; /* it stands for */
    uint64_t size;
} aged;

struct mp_snapshot {
    mp_live_cursor cursor; /* first: mp_snapshot and its cursor are one address */
    mp_snapshot *next;     /* of the recorder's */
    uintptr_t owner;
    mp_recorder *recorder;
    unsigned labels;
    uint32_t moment;
    uint32_t completed; /* collections, at the beginning */
    mp_counts counts;   /* the recorder's, at the beginning */
    uint64_t losses;    /* the recorder's count of them at the beginning */
    uint64_t live_samples, live_objects;

    /* How far the preparations are, and how far they go: what comes later is left to the begin. */
    uint32_t folded, fold_end, sites_end, locations_end, label_sets_end;
    uint32_t placed_sites, placed_locations, n_placed_locations, placed_function, placed_label_sets;

    items sites, stacks, functions, locations, label_sets, strings;
    figures *figures;                     /* by named site */
    uint32_t room_figures, clear_figures; /* how many there are, and how many of them are all 0 */
    const mp_baseline *since;
    int in_use_since;     /* what is in use is to be the change of it */
    unchanged *unchanged; /* by named site, if so */
    aged *living;
    uint32_t n_living, room_living;

    size_t output; /* bytes that writing it took */
    mp_string_index index;
    uint32_t literal[N_LITERALS];
    uint32_t pid; /* the place of its text, if that label is asked for */
};

#endif
