/*
 * The recorder: everything one run of a collector has gathered, from `start` to the next `start`.
 * It knows numbers and addresses, never the VM: the VM side (vm/) tells it what was allocated, what
 * died, how large things are, and what the frames, classes and threads are called.
 *
 *   sample:  raw stack + class + thread -> raw site (+= weight) -> live table
 *   measure: a live sample grew         -> its site's bytes, its own size
 *   death:                              -> out of the live table; what the site counted stays
 *   fold:    raw sites -> named sites, whose names outlive frames, classes and threads
 *
 * Estimates. A sample stands for `interval` allocations. A tracked one (1 in `track_one_in`, halved
 * with each thinning) stands for interval * track_one_in * 2^doublings living objects, and what it
 * owns beyond its slot is counted with that weight, in alloc_space too. Each is unbiased; all are
 * whole numbers, so that nothing is lost to rounding.
 *
 * Memory: owned by the recorder, malloc(3) only, bounded by the caps below. Freed when the last
 * holder (the collector, a flush that is still encoding) lets go.
 * Locks: everything is under the GVL or inside a collection (run.h says what 4.0 adds).
 * Failure: counted in `counts`, never fatal; a sample that can't be recorded is dropped whole.
 */
#ifndef MEMPROFILER_CORE_RECORDER_H
#define MEMPROFILER_CORE_RECORDER_H

#include <stddef.h>
#include <stdint.h>

#include "functions.h"
#include "label_sets.h"
#include "live.h"
#include "recent.h"
#include "refs.h"
#include "sampler.h"
#include "sites.h"
#include "stacks.h"
#include "strings.h"

/* Caps: what a runaway program can make the profiler hold, 341 MB with every table full: docs/memory.md. */
#define MP_CAP_FRAMES (1u << 18)
#define MP_CAP_CLASSES (1u << 17)
#define MP_CAP_THREADS (1u << 16)
#define MP_CAP_STACKS (1u << 18)
#define MP_CAP_STACK_WORDS (1u << 22)
#define MP_CAP_STACK_FRAMES (UINT64_C(1) << 25)
#define MP_CAP_SITES (1u << 19)
#define MP_CAP_FUNCTIONS (1u << 18)
#define MP_CAP_LOCATIONS (1u << 19)
#define MP_CAP_STRINGS (1u << 19)
#define MP_CAP_STRING_BYTES ((size_t)32 << 20)

typedef struct {
    uint32_t interval;     /* 1..MP_INTERVAL_MAX objects */
    uint32_t track_one_in; /* 1..1,000,000 samples; times interval: 1..MP_INTERVAL_MAX */
    uint32_t max_samples;  /* live samples; 0: no cap */
    uint32_t max_depth;    /* 1..10,000 frames */
    uint64_t seed;
} mp_options;

typedef struct {
    uint64_t samples;          /* taken and counted */
    uint64_t dropped;          /* hit, but not counted; (overflow) being there, always 0 */
    uint64_t untracked;        /* counted, but not followed: out of memory or far over the cap */
    uint64_t thinned;          /* live samples given up by thinning */
    uint64_t lost_samples;     /* live samples given up because a collection went unseen */
    uint64_t lost_collections; /* times that happened */
    uint64_t reused;           /* deaths seen late: at an address' reuse, or a sweep's end */
    uint64_t truncated;        /* samples whose stack was cut at max_depth */
    uint64_t overflow;         /* samples whose stack, class or names found no room */
    uint64_t own_objects;      /* the profiler's own allocations, kept out */
    uint64_t rearmed;          /* times the VM had lost our hooks */
} mp_counts;

/* A label set as named sites know it, with its texts in the recorder's own strings. */
typedef struct {
    mp_record record;
    uint32_t set; /* the key word: its number in label_sets.h */
    uint32_t n;
    mp_label_pair pairs[MP_LABELS_MAX];
} mp_label_set;

/* Snapshots after which nobody tells any more which samples changed since which. */
#define MP_MOMENTS_MAX 0xffffffu

/* Frames of our own making. */
enum { MP_FRAME_TRUNCATED = 1, MP_FRAME_OVERFLOW, MP_FRAME_NONE, MP_FRAMES_MADE_UP };

typedef struct {
    /* The hot path's: one cache line. */
    int64_t countdown; /* allocations until the next sample */
    int64_t gap;       /* what the countdown started from */
    uint64_t seen;     /* allocations of all finished gaps */
    mp_sampler sampler;

    mp_options options;
    uint32_t holders;
    uint32_t doublings; /* thinning in force */
    uint32_t thin_at;   /* live samples at which to thin once more; UINT32_MAX: never */
    uint32_t wants_thinning;
    uint32_t
        collections;    /* whose marking has ended since start: what a sample's `born` counts in */
    uint32_t completed; /* whose dead are all known: samples born before are in use */
    mp_counts counts;

    mp_refs frames, classes, threads;
    mp_stacks raw_stacks;
    mp_index stack_cache; /* hash of (address, line) pairs -> raw stack */
    mp_recent recent;     /* in front of it */
    mp_records raw_sites;
    uint32_t overflow_stack, overflow_class, overflow_site;
    mp_live live;

    mp_strings strings;
    mp_functions functions;
    mp_stacks named_stacks;
    mp_records named_sites;
    uint32_t overflow_named_stack, overflow_named_site;
    uint32_t unnamed_thread; /* a string: what threads are called that were gone before */
    uint32_t kept_threads;   /* so many pending ones, the newest, are pinned; all until told */
    const mp_labels *labels; /* what the numbers of label sets mean; NULL: none is ever set */
    mp_records label_sets;   /* of mp_label_set */
    uint32_t stacks_named;   /* raw stacks up to this number have been looked at by name_stacks */
    uint32_t sites_named;    /* the same of raw sites and name_sites */

    struct mp_snapshot *snapshots; /* under way: see snapshot.h */
    uint32_t moments;              /* of which one was taken */
    struct {
        uint32_t stage, at;
    } tidy; /* how far it is */
    /* References on dead things that the last tidying had to leave, by sites and by stacks. */
    uint64_t tidied_sites, tidied_stacks;
    uint64_t *scratch; /* room for the words of one stack */
} mp_recorder;

/* NULL without memory. The one who makes it is its first holder. */
mp_recorder *mp_recorder_new(const mp_options *options);
void mp_recorder_hold(mp_recorder *recorder);
void mp_recorder_release(mp_recorder *recorder);

/* The number of a raw stack, from frame addresses and lines, innermost first. Never 0. */
uint32_t mp_recorder_stack(mp_recorder *recorder, const uintptr_t *frames, const int *lines,
                           uint32_t depth, int truncated);
/* A collection has marked: whoever tells which frames died tells this first. */
static inline void mp_recorder_marked(mp_recorder *recorder);
/* Frames moved, or a raw stack's number is given back. */
void mp_recorder_forget_stacks(mp_recorder *recorder);
/*
 * The function of a frame, from strings that it takes over the references on, with a reference for the
 * caller. Where one of them, or it, found no room (MP_STRING_NONE), that of (overflow).
 */
uint32_t mp_recorder_function(mp_recorder *recorder, uint32_t name, uint32_t file, uint32_t line,
                              uint32_t flags);
/* The number of a class or thread by its address; the overflow class, or thread 0, when full. */
uint32_t mp_recorder_class(mp_recorder *recorder, uintptr_t klass);
uint32_t mp_recorder_thread(mp_recorder *recorder, uintptr_t thread);
/* The object of this number is dead, be it named or pending. Allocates nothing. */
void mp_recorder_thread_gone(mp_recorder *recorder, uint32_t thread);

typedef struct {
    uint32_t stack, klass, thread, labels; /* labels: a set of label_sets.h */
    uint64_t address;
    uint64_t size; /* bytes of the slot */
    /* `klass` is what the object is called if its class stays unknown. */
    int class_later;
    int foreign; /* allocated by another Ractor: measured in collections only */
} mp_allocation;

/*
 * A living sample is not what earlier snapshots have of it: baseline.h asks for that. After the last
 * moment what ever changes counts as changed since any other, which is the safe side.
 */
static inline void mp_recorder_changed(const mp_recorder *recorder, mp_live_entry *entry)
{
    entry->changed = recorder->moments & MP_MOMENTS_MAX;
}

/* Count it, and track it if the coin says so. */
void mp_recorder_sample(mp_recorder *recorder, const mp_allocation *allocation);
/* Go on with other random numbers, the gap under way among them: in a forked child. */
void mp_recorder_reseed(mp_recorder *recorder, uint64_t seed);
/* Draw the next gap; called when the countdown has run out. */
void mp_recorder_next_gap(mp_recorder *recorder);

/*
 * A live sample is `size` bytes now: largest size and its site's bytes follow, and never fall. Tell
 * its class first; one whose class nobody knows waits no longer.
 */
void mp_recorder_measured(mp_recorder *recorder, uint32_t live, uint64_t size);
/*
 * The class of a sample that was allocated without one is known now, or (0) will never be. False
 * when that was all it was kept for, and it is gone.
 */
int mp_recorder_class_known(mp_recorder *recorder, uint32_t live, uint32_t klass);
void mp_recorder_died(mp_recorder *recorder, uint32_t live);
/*
 * Bring every live sample to the thinning in force, by coin. All must have been measured, and no
 * cursor be open: it would see weights of before and after.
 */
void mp_recorder_thin(mp_recorder *recorder);
/* A collection's dead are all known: with much room below the cap, the odds of tracking double. */
void mp_recorder_relax(mp_recorder *recorder);
/* A collection went unseen: no address means anything any more. */
void mp_recorder_lost(mp_recorder *recorder);
/* stop: keep the living as they are, forget every address. */
void mp_recorder_freeze(mp_recorder *recorder);

/* Move what raw sites have counted to named ones; a site with something unnamed waits. */
void mp_recorder_fold(mp_recorder *recorder);
/* The same for up to `most` raw sites after *at, moving it on; true while there are more. */
int mp_recorder_fold_some(mp_recorder *recorder, uint32_t *at, uint32_t most);
/*
 * Give up to `most` new raw stacks the named ones that a fold would, so that it finds them; true
 * while there are more. One with a frame that has no name yet waits.
 */
int mp_recorder_name_stacks(mp_recorder *recorder, uint32_t most);
/* The same for raw sites, but that one with something unnamed is left to the fold. */
int mp_recorder_name_sites(mp_recorder *recorder, uint32_t most);
/* Worth doing: many raw stacks or sites are new. */
static inline int mp_recorder_has_new_items(const mp_recorder *recorder);
/* Let go of raw stacks and sites whose frames, classes or threads died. Folds first. */
void mp_recorder_tidy(mp_recorder *recorder);
/*
 * The same for up to `most` items, of which a deep stack counts as several, going on where the last call
 * ended; true while there are more.
 */
int mp_recorder_tidy_some(mp_recorder *recorder, uint32_t most);
/* In the middle of it. */
static inline int mp_recorder_tidying(const mp_recorder *recorder);
/* Worth tidying: many dead things are still referred to. */
int mp_recorder_untidy(const mp_recorder *recorder);

uint64_t mp_recorder_allocations(const mp_recorder *recorder);
size_t mp_recorder_memsize(const mp_recorder *recorder);

static inline int mp_recorder_has_new_items(const mp_recorder *recorder)
{
    return recorder->raw_stacks.slabs.top - recorder->stacks_named > 1024 ||
           recorder->raw_sites.slabs.top - recorder->sites_named > 1024;
}

static inline int mp_recorder_tidying(const mp_recorder *recorder)
{
    return recorder->tidy.stage || recorder->tidy.at;
}

static inline void mp_recorder_marked(mp_recorder *recorder)
{
    recorder->collections++;
    mp_recent_forget(&recorder->recent);
}

/*
 * A sample that stands for `weight` objects was met with the odds 1 / weight: this much variance it
 * gives to a sum of sizes. 0 when every object is met.
 */
static inline double mp_recorder_variance(uint64_t weight, uint64_t size)
{
    return (double)weight * (double)(weight - 1) * (double)size * (double)size;
}

/* Living objects one tracked sample of this thinning stands for. */
static inline uint64_t mp_recorder_live_weight(const mp_recorder *recorder, uint32_t doublings)
{
    return ((uint64_t)recorder->options.interval * recorder->options.track_one_in) << doublings;
}

#endif
