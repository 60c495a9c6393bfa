/*
 * A run: the VM's side of one recorder, from `start` to `stop`. It has the hooks on, watches
 * collections, and gives every address the recorder holds its meaning.
 *
 *   hooks.c       hooks on and off, the table of runs that hooks find theirs in
 *   own.c         whose allocations are the profiler's own
 *   allocation.c  NEWOBJ: one sample
 *   deaths.c      GC_END_MARK or FREEOBJ: what died; lost collections
 *   naming.c      frames, classes and threads get their names
 *   run.c         start, stop, measuring, compaction, pinning, the postponed job
 *   holds.c       who needs it, and its end
 *   labels.c      what the program says it is working on
 *   ractors.c     which Ractor this is, and how many there are
 *
 * Memory: owned by its holders (holds.h), malloc(3). Holds the recorder.
 * Locks: the GVL, or a running collection. From Ruby 4.0 other Ractors allocate without main's GVL:
 * their NEWOBJ hooks hold the VM lock, then take `lock`; whoever changes or walks the recorder under
 * the GVL takes it too (to read a counter it need not), and does nothing under it that may want the
 * VM lock (no allocation). An object that another Ractor allocated, or may have been sent, may only
 * be read while all are stopped, in a collection, unless it is frozen.
 */
#ifndef MEMPROFILER_VM_RUN_H
#define MEMPROFILER_VM_RUN_H

#include <pthread.h>

#include "../core/recorder.h"
#include "compat.h"
#include "measure.h"

/* Collections without an event that are taken for a sign that the VM lost our hooks, at first. */
#define MP_LOST_HOOKS_AT 3u
/* And at most. Another tool's hook that collects loses any number of events. */
#define MP_LOST_HOOKS_AT_MOST 1024u

typedef enum { MP_LIVENESS_MARK, MP_LIVENESS_FREE } mp_liveness;

/* The free hook's sieve: most freed objects were never sampled. */
#define MP_SIEVE_BITS (1u << 17)

typedef struct mp_run {
    int64_t *countdown; /* the recorder's */
    mp_recorder *recorder;
    int holders;  /* see holds.h */
    VALUE holder; /* the collector: nothing else keeps pending objects alive */
    int armed;    /* hooks are on, and samples are taken */
    int orphaned; /* the holder is dead: pending objects may be gone */
    int slot;     /* in the table of hooks.c; -1 when not armed */
    int alone;    /* no Ractor but the main one was there when last looked */
    mp_liveness liveness;
    size_t gc_count;     /* the collection whose GC_END_MARK was the last one seen */
    uint32_t lost_hooks; /* calls of dmark in a row that found events missing */
    uint32_t patience;   /* so many lead to a look; doubles after one in vain, falls with events */
    int name_threads;    /* a collection came by since some were first seen: time to name them */
    size_t lost_at;      /* the last collection that was found missing */
    char stopped[128];   /* why it was stopped, when nobody asked for it; else empty */
    uint64_t id;         /* tells two profiles of one run from those of two; a child's is its own */
    uint64_t root;       /* the id of the run that the first fork went on from; 0: there was none */
    uint64_t parent;     /* and of the one that the last fork did */

    uint64_t heap_before;      /* bytes of all living objects, at the start; 0: not measured */
    uint64_t allocated_before; /* the VM's own count of allocations, at the start */
    uint64_t unseen;           /* mp_run_unseen at the stop; from 3.4: at the last GC_END_MARK */

    uintptr_t last_thread; /* and its number, for as long as no collection came by */
    uint32_t last_thread_id;
    int last_thread_foreign;  /* it is another Ractor's */
    uint32_t kinds[MP_KINDS]; /* class numbers for objects without a class */

    VALUE *frames; /* max_depth + 1, for rb_profile_frames */
    int *lines;
    uint64_t *sieve; /* MP_SIEVE_BITS bits; free hook only */
    uint32_t sieve_set;
    uint32_t doomed; /* samples that the sweep under way has to free, at most; free hook only */
    int met;         /* see holds.h: a hook of another Ractor may have found it */
    struct mp_run *next_buried;
    size_t buried_at; /* the collections there had been */
#if MP_HOOKS_ARE_GLOBAL
    pthread_mutex_t lock;
#endif
} mp_run;

/* Once, at load. */
void mp_run_init(void);
/* NULL without memory. The one who makes it is its first holder (holds.h). */
mp_run *mp_run_new(const mp_options *options, mp_liveness liveness);
/* Bytes it holds, the recorder's included. */
size_t mp_run_memsize(const mp_run *run);
/* Its collector lets go of it: hooks off, whoever else still holds it. Legal in a dfree. */
void mp_run_drop(mp_run *run);

/*
 * How far a measuring is. Numbers are good until others were let in: they may pack the table, and
 * then it begins anew. Zeroed: nothing is measured.
 */
typedef struct {
    uint32_t at; /* all living samples up to this number are */
    uint64_t packs;
} mp_measured;

/* MP_OK, MP_ELIMIT (too many runs at once) or MP_ENOMEM (then it is as if it never began). */
int mp_run_start(mp_run *run, VALUE holder);
/* Measures what is not measured so far, freezes it, forgets all addresses. */
void mp_run_stop(mp_run *run, mp_measured so_far);
/* `GC.stat(:total_allocated_objects)` since the start, less what the run has seen or kept out. */
uint64_t mp_run_unseen(const mp_run *run);

/* Before any address is used: if a collection went unseen, all that lived is given up. */
void mp_run_check(mp_run *run);
/* Free hook: let a sweep under way end, so that the living are known. Outside hooks. */
void mp_run_finish_sweep(mp_run *run);
/*
 * Measure up to `most` living samples of numbers up to `end` that are not measured so far. True
 * while there is more. Outside hooks, after mp_run_check.
 */
int mp_run_measure(mp_run *run, mp_measured *so_far, uint32_t end, uint32_t most);
/* If thinning is due: measure all at once, and thin. Where measuring is legal. */
void mp_run_thin(mp_run *run);
/*
 * Name up to `most` pending things; true while there are more. Allocates; must be the profiler's
 * own. Several may be at it at once. To ask a thread for its name lets interrupts in: a Thread#kill
 * that strikes there leaves by longjmp, where that is allowed; else a thread is called "(thread)".
 *
 * A thread mostly gets its name from its own first lines, and a job may not ask it. So threads wait for a
 * flush. Of those that have ended by then the last MP_KEPT_THREADS are kept alive, others are "(thread)":
 * from 3.3 a thread that has ended holds what it touched of its stack for as long as its object lives.
 * Where there are no mark bits all are kept, and named "(thread)" when more than that wait.
 */
#define MP_KEPT_THREADS (MP_DEAD_THREADS_HOLD_STACKS ? 32u : 256u)
typedef enum { MP_NAME_NO_THREADS, MP_NAME_ALL, MP_NAME_ALL_AND_JUMP } mp_naming_of;
int mp_run_name(mp_run *run, mp_naming_of which, uint32_t most);
static inline int mp_run_too_many_threads(const mp_run *run)
{
    return !MP_HAS_MARK_BITS && run->recorder->threads.n_pending > MP_KEPT_THREADS;
}
/* Threads that can't be freed before the next flush, those among them that live included. */
static inline uint32_t mp_run_kept_threads(const mp_run *run)
{
    const mp_recorder *recorder = run->recorder;
    uint32_t most = run->armed ? recorder->kept_threads : UINT32_MAX;
    return recorder->threads.n_pending < most ? recorder->threads.n_pending : most;
}
/* Something has no name, of whatever kind. */
static inline int mp_run_has_unnamed(const mp_run *run)
{
    const mp_recorder *recorder = run->recorder;
    return recorder->frames.pending || recorder->classes.pending || recorder->threads.pending;
}
/* The postponed job has something to name. */
static inline int mp_run_wants_names(const mp_run *run)
{
    const mp_recorder *recorder = run->recorder;
    return recorder->frames.pending || recorder->classes.pending || mp_run_too_many_threads(run);
}
/* What the postponed job does: naming, tidying, and a look whether the hooks still fire. */
void mp_run_settle(mp_run *run);

/* For the collector's dmark and dcompact. */
void mp_run_mark(mp_run *run);
void mp_run_compact(mp_run *run);
/* In a forked child, whose only thread is `here` (0: not a Ruby thread). */
void mp_run_forked(mp_run *run, VALUE here);

/* From 3.4: objects are about to be moved, which must not pass for allocations. */
void mp_run_before_moves(mp_run *run);

/* The hooks' ways in; called with the collection running, or from NEWOBJ. */
void mp_run_allocated(mp_run *run, VALUE obj);
void mp_run_marking_ended(mp_run *run);
void mp_run_sweep_ended(mp_run *run);
void mp_run_freed(mp_run *run, VALUE obj);

/* Flags of a frame in mp_refs. */
enum { MP_FRAME_IS_C = 1 };

static inline void mp_run_lock_init(mp_run *run)
{
#if MP_HOOKS_ARE_GLOBAL
    pthread_mutex_init(&run->lock, NULL);
#else
    (void)run;
#endif
}

static inline void mp_run_lock_destroy(mp_run *run)
{
#if MP_HOOKS_ARE_GLOBAL
    pthread_mutex_destroy(&run->lock);
#else
    (void)run;
#endif
}

static inline void mp_run_lock(mp_run *run)
{
#if MP_HOOKS_ARE_GLOBAL
    pthread_mutex_lock(&run->lock);
#else
    (void)run;
#endif
}

static inline void mp_run_unlock(mp_run *run)
{
#if MP_HOOKS_ARE_GLOBAL
    pthread_mutex_unlock(&run->lock);
#else
    (void)run;
#endif
}

#endif
