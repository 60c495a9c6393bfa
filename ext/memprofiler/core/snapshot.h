/*
 * A snapshot: what a recorder holds at one moment, copied in pieces so that the program waits only
 * for a piece at a time, then turned into pprof without any lock.
 *
 *   GVL held:  new, prepare until done    what can be got ready in pieces: folding, strings
 *              begin                      flat copies of the counters: the moment it speaks of
 *              step until done            and of the live samples
 *   released:  encode                     rows -> pprof -> gzip
 *   GVL held:  free                       gives back references
 *
 * The snapshot is as of `begin`: what dies while it is being copied is handed over first (live.h).
 * Sizes are those last measured when the copy comes by: another flush may measure meanwhile.
 * If a collection is lost meanwhile, the copy is worthless for the living: mp_snapshot_spoiled says
 * so, and the caller begins again.
 *
 * Memory: owned by the snapshot, which holds the recorder. Failure: MP_ENOMEM.
 */
#ifndef MEMPROFILER_CORE_SNAPSHOT_H
#define MEMPROFILER_CORE_SNAPSHOT_H

#include <stddef.h>
#include <stdint.h>

#include "baseline.h"
#include "buffer.h"
#include "recorder.h"

/* What a sample is to say beside the labels that the program itself has set (label_sets.h). */
enum { MP_LABEL_CLASS = 1, MP_LABEL_AGE = 2, MP_LABEL_THREAD = 4, MP_LABEL_PID = 8 };

typedef struct mp_snapshot mp_snapshot;

/* What the profile says about itself; plain text, one "key: value" each. */
typedef struct {
    const char *const *comments;
    uint32_t n_comments;
    int64_t time_nanos, duration_nanos;
    int alloc_first; /* readers show alloc_space, not inuse_space, unless told otherwise */
} mp_snapshot_header;

/*
 * What profiles call the binary that they are of: the program's name, or "ruby" until it's told. To be
 * told once, before the first snapshot: readers take samples of other binaries for others.
 */
void mp_snapshot_program(const char *name);

/* `owner` is the thread that takes it, for mp_snapshots_keep. */
int mp_snapshot_new(mp_snapshot **out, mp_recorder *recorder, unsigned labels, uintptr_t owner);
/* Up to `most` items; *done tells whether begin would find little left. It may be called at once. */
int mp_snapshot_prepare(mp_snapshot *snapshot, uint32_t most, int *done);
/*
 * Before begin, and without MP_LABEL_AGE: the output has what was allocated since an earlier
 * snapshot of the same recorder (NULL: since the start), and what is in use, or (`in_use`, for which
 * the baseline must have it) what that has changed by, be it negative. What is 0 is left out. The
 * baseline must last until after encode.
 */
void mp_snapshot_since(mp_snapshot *snapshot, const mp_baseline *baseline, int in_use);
/* Folds what is left; what has no name yet waits for the next one. After an error: free it. */
int mp_snapshot_begin(mp_snapshot *snapshot);
/* Copy up to `most` live samples more; *done tells whether that was all. */
void mp_snapshot_step(mp_snapshot *snapshot, uint32_t most, int *done);
int mp_snapshot_spoiled(const mp_snapshot *snapshot);
/* As encode, without any lock: this one for later ones to subtract. NULL without memory. */
mp_baseline *mp_snapshot_baseline(const mp_snapshot *snapshot, int in_use);
int mp_snapshot_encode(mp_snapshot *snapshot, const mp_snapshot_header *header, mp_buffer *out);
void mp_snapshot_free(mp_snapshot *snapshot);
/* In a forked child: frees the snapshots of all other threads, which are gone. */
void mp_snapshots_keep(mp_recorder *recorder, uintptr_t owner);

/* Estimates for the header, ready when the copy is done. */
uint64_t mp_snapshot_live_samples(const mp_snapshot *snapshot);
uint64_t mp_snapshot_live_objects(const mp_snapshot *snapshot);
/* The most bytes that it and its output took at once, the recorder's not among them. */
size_t mp_snapshot_held(const mp_snapshot *snapshot);

#endif
