#include "run.h"

#include <string.h>
#include <time.h>
#include <unistd.h>

#include "../core/error.h"
#include "../core/mem.h"
#include "../core/snapshot.h"
#include "deaths.h"
#include "gc_bits.h"
#include "holds.h"
#include "hooks.h"
#include "labels.h"
#include "naming.h"
#include "own.h"
#include "ractors.h"

static VALUE sym_total_allocated;

void mp_run_init(void)
{
    sym_total_allocated = ID2SYM(rb_intern("total_allocated_objects"));
    mp_ractors_init();
    mp_labels_vm_init();
    mp_gc_bits_init();
    mp_naming_init();
    mp_hooks_init();
}

static int name_kinds(mp_run *run)
{
    mp_recorder *recorder = run->recorder;
    for (int kind = 0; kind < MP_KINDS; kind++) {
        char text[64];
        /* A hidden String is the usual owner of bytes that visible ones share. */
        snprintf(text, sizeof text, "(%s %s%s)", kind >= MP_KIND_IMEMO ? "imemo" : "hidden",
                 mp_kind_name(kind),
                 kind == T_STRING || kind == T_ARRAY ? ": shared contents" : "");
        uint32_t string = mp_strings_intern(&recorder->strings, text, strlen(text));
        if (string == MP_STRING_NONE) return MP_ENOMEM;
        run->kinds[kind] = mp_refs_add_named(&recorder->classes, string);
        if (!run->kinds[kind]) return MP_ENOMEM;
    }
    return MP_OK;
}

/* Not from Ruby's generator, nor from the seed, which may be the same everywhere. */
static uint64_t new_id(void)
{
    uint64_t id;
    if (getentropy(&id, sizeof id) != 0) id = (uint64_t)getpid() << 32 ^ (uint64_t)time(NULL);
    return id;
}

mp_run *mp_run_new(const mp_options *options, mp_liveness liveness)
{
    mp_run *run = mp_calloc(1, sizeof *run);
    if (!run) return NULL;
    run->holders = 1;
    run->slot = -1;
    run->patience = MP_LOST_HOOKS_AT;
    run->id = new_id();
    run->liveness = liveness;
    run->recorder = mp_recorder_new(options);
    if (run->recorder) {
        run->countdown = &run->recorder->countdown;
        run->recorder->labels = mp_labels_all();
        if (MP_HAS_MARK_BITS) run->recorder->kept_threads = MP_KEPT_THREADS;
    }
    run->frames = mp_calloc((size_t)options->max_depth + 1, sizeof *run->frames);
    run->lines = mp_calloc((size_t)options->max_depth + 1, sizeof *run->lines);
    if (liveness == MP_LIVENESS_FREE) run->sieve = mp_calloc(MP_SIEVE_BITS / 64, 8);
    mp_run_lock_init(run);
    if (!run->recorder || !run->frames || !run->lines ||
        (liveness == MP_LIVENESS_FREE && !run->sieve) || name_kinds(run) != MP_OK) {
        mp_run_release(run);
        return NULL;
    }
    return run;
}

size_t mp_run_memsize(const mp_run *run)
{
    size_t depth = (size_t)run->recorder->options.max_depth + 1;
    return sizeof *run + mp_recorder_memsize(run->recorder) +
           depth * (sizeof *run->frames + sizeof *run->lines) +
           (run->sieve ? MP_SIEVE_BITS / 8 : 0);
}

void mp_run_drop(mp_run *run)
{
    run->orphaned = 1; /* and the job may be in the middle of it */
    mp_hooks_drop(run);
    mp_run_release(run);
}

static uint64_t total_allocated(void)
{
    return rb_gc_stat(sym_total_allocated);
}

/* Known beforehand: nothing of most programs waits for a flush, which alone may ask a thread. */
static void name_main_thread(mp_run *run)
{
    mp_recorder *recorder = run->recorder;
    mp_run_lock(run);
    uint32_t thread = mp_recorder_thread(recorder, rb_thread_main());
    uint32_t name = thread ? mp_strings_intern(&recorder->strings, "main", 4) : MP_STRING_NONE;
    if (name != MP_STRING_NONE && mp_refs_at(&recorder->threads, thread)->state == MP_REF_PENDING)
        mp_refs_name(&recorder->threads, thread, name, 0);
    mp_run_unlock(run);
}

int mp_run_start(mp_run *run, VALUE holder)
{
    mp_runs_free_buried();
    run->holder = holder;
    mp_hooks_check_before_change();
    run->allocated_before = total_allocated();
    int error = mp_hooks_arm(run);
    if (error == MP_OK) name_main_thread(run);
    return error;
}

static uint64_t past_hooks(const mp_run *run)
{
    uint64_t all = total_allocated() - run->allocated_before;
    uint64_t known = mp_recorder_allocations(run->recorder) + run->recorder->counts.own_objects;
    return all > known ? all - known : 0;
}

/*
 * From 4.0 the VM's total lacks up to 1024 objects of each size for each Ractor, also of those that
 * were allocated before the start; and nothing goes past the hooks but where they were lost.
 */
uint64_t mp_run_unseen(const mp_run *run)
{
    if (MP_HOOKS_ARE_GLOBAL && !run->recorder->counts.rearmed) return 0;
    return run->armed ? past_hooks(run) : run->unseen;
}

void mp_run_before_moves(mp_run *run)
{
    if (MP_MOVES_COUNT_AS_ALLOCATED) run->unseen = past_hooks(run);
}

/* Nothing allocates between the end of marking and the moves of one collection. */
static void after_moves(mp_run *run)
{
    if (MP_MOVES_COUNT_AS_ALLOCATED) run->allocated_before += past_hooks(run) - run->unseen;
}

/*
 * Free hook, while the sweep of the last collection goes on: what was there before it may be dead
 * already, and what it refers to gone. (The mark bits don't tell: a swept page's are gone too.)
 */
static int may_be_swept(const mp_run *run, const mp_live_entry *entry)
{
    const mp_recorder *recorder = run->recorder;
    return recorder->completed != recorder->collections && entry->born != recorder->collections;
}

void mp_run_finish_sweep(mp_run *run)
{
    const mp_recorder *recorder = run->recorder;
    if (run->liveness != MP_LIVENESS_FREE || recorder->completed == recorder->collections) return;
    if (!RTEST(rb_gc_disable())) rb_gc_enable(); /* disabling finishes what is under way */
    mp_run_lock(run);
    /* It had ended before, in a hook of another tool, and nobody was told. */
    if (recorder->completed != recorder->collections) mp_run_sweep_ended(run);
    mp_run_unlock(run);
}

int mp_run_measure(mp_run *run, mp_measured *so_far, uint32_t end, uint32_t most)
{
    mp_recorder *recorder = run->recorder;
    mp_live *live = &recorder->live;
    if (!run->armed) return 0;
    if (so_far->packs != live->packs) *so_far = (mp_measured){0, live->packs};
    for (uint32_t n = 0; n < most; n++) {
        uint32_t id = mp_live_next(live, so_far->at);
        if (!id || id > end) return 0;
        so_far->at = id;
        mp_live_entry *entry = mp_live_at(live, id);
        if (entry->flags & (MP_LIVE_FROZEN | MP_LIVE_FOREIGN) || may_be_swept(run, entry)) continue;
        VALUE obj = (VALUE)entry->address;
        if (!mp_read_class(run, id, obj)) continue;
        /* It may have been sent to another Ractor, which writes to it. */
        if (!run->alone && !mp_is_frozen(obj)) continue;
        size_t size = mp_measure(obj);
        if (size) mp_recorder_measured(recorder, id, size);
        if (mp_is_frozen(obj)) entry->flags |= MP_LIVE_FROZEN;
    }
    return 1;
}

void mp_run_thin(mp_run *run)
{
    mp_recorder *recorder = run->recorder;
    if (!recorder->wants_thinning || recorder->live.cursors) return;
    mp_measured nothing = {0};
    while (mp_run_measure(run, &nothing, UINT32_MAX, UINT32_MAX)) continue;
    mp_recorder_thin(recorder);
}

void mp_run_stop(mp_run *run, mp_measured so_far)
{
    if (!run->armed) return;
    mp_hold *hold = mp_hold_begin(run);
    mp_own_begin();
    while (mp_run_name(run, MP_NAME_ALL, UINT32_MAX)) continue;
    mp_run_finish_sweep(run);
    mp_hooks_check_before_change();
    mp_run_lock(run);
    mp_run_check(run);
    while (mp_run_measure(run, &so_far, UINT32_MAX, UINT32_MAX)) continue;
    run->unseen = mp_run_unseen(run);
    run->armed = 0; /* a hook that waits for the lock goes home */
    mp_run_unlock(run);
    mp_hooks_disarm(run);
    /* What measuring, or another Ractor, has met since; pending things are pinned all the while. */
    while (mp_run_name(run, MP_NAME_ALL, UINT32_MAX)) continue;
    mp_run_lock(run);
    mp_recorder_fold(run->recorder);
    mp_recorder_freeze(run->recorder);
    mp_run_unlock(run);
    mp_own_end();
    mp_hold_end(hold, run);
}

/*
 * Names at a time, some milliseconds' worth: the program waits for the job. One that is called in a job
 * comes right behind it, before anybody else: that is for what is pinned. The rest goes on with the
 * samples that follow (allocation.c).
 */
#define JOB_NAMES 1000u
#define JOB_STACKS 2000u
#define JOB_SITES 4000u
/* Sites and stacks tidied at a time, the same. */
#define JOB_ITEMS 20000u

/* Collections seen since the last one that was missed, before the job names again. */
#define CALM 2

/*
 * What is named while collections go unseen is forgotten at the next one, and has to be named anew; where
 * each allocation collects (GC.stress beside objspace's hook) that is most of what the program does.
 * There it waits: what has no name is pinned, and stays known.
 */
static int name_now(mp_run *run)
{
    mp_recorder *recorder = run->recorder;
    mp_run_lock(run);
    mp_run_check(run);
    mp_run_unlock(run);
    return recorder->counts.lost_collections == 0 || rb_gc_count() >= run->lost_at + CALM ||
           mp_run_too_many_threads(run) ||
           recorder->frames.n_pending + recorder->classes.n_pending >= JOB_NAMES;
}

void mp_run_settle(mp_run *run)
{
    mp_recorder *recorder = run->recorder;
    if (run->lost_hooks >= run->patience) mp_hooks_check();
    int untidy = mp_recorder_untidy(recorder);
    mp_naming_of which = mp_run_too_many_threads(run) ? MP_NAME_ALL : MP_NAME_NO_THREADS;
    if (name_now(run) && mp_run_name(run, which, JOB_NAMES)) {
        mp_hooks_call_job();
        return;
    }
    if (!run->armed) return; /* naming allocates, and its collector may have died of that */
    if (recorder->wants_thinning) mp_run_finish_sweep(run);
    mp_run_lock(run);
    mp_run_check(run);
    mp_run_thin(run);
    /* Here rather than in a flush, which has a program wait for all of them. */
    if (!mp_recorder_name_stacks(recorder, JOB_STACKS)) mp_recorder_name_sites(recorder, JOB_SITES);
    if (untidy) mp_recorder_tidy_some(recorder, JOB_ITEMS);
    if (mp_live_sparse(&recorder->live)) mp_live_pack(&recorder->live);
    mp_run_unlock(run);
}

/* The newest, so many at most. */
static void mark_pending(const mp_refs *refs, uint32_t most)
{
    for (uint32_t id = refs->pending; id && most > 0; id = mp_refs_at(refs, id)->link, most--) {
        rb_gc_mark((VALUE)mp_refs_at(refs, id)->address);
    }
}

/* dmark of a holder without write barriers: the one thing that every collection comes by. */
void mp_run_mark(mp_run *run)
{
    mp_runs_free_buried();
    mark_pending(&run->recorder->frames, UINT32_MAX);
    mark_pending(&run->recorder->classes, UINT32_MAX);
    /* Deaths are only seen while the hooks are on. */
    mark_pending(&run->recorder->threads, mp_run_kept_threads(run));
    if (!run->armed) return;
    if (rb_gc_count() > run->gc_count + 1) {
        if (++run->lost_hooks >= run->patience) mp_hooks_call_job();
    } else {
        run->lost_hooks = 0;
    }
}

static uint64_t moved_to(uint64_t address)
{
    return rb_gc_location((VALUE)address);
}

void mp_run_compact(mp_run *run)
{
    if (!run->armed) return;
    run->holder = rb_gc_location(run->holder);
    after_moves(run);
    mp_run_check(run);
    mp_recorder *recorder = run->recorder;
    mp_live_rekey(&recorder->live, moved_to);
    mp_refs_rekey(&recorder->frames, moved_to);
    mp_refs_rekey(&recorder->classes, moved_to);
    mp_refs_rekey(&recorder->threads, moved_to);
    mp_recorder_forget_stacks(recorder);
    run->last_thread = 0;
    if (run->sieve) {
        for (uint32_t id = 0; (id = mp_live_next(&recorder->live, id)) != 0;) {
            mp_sieve_add(run, (VALUE)mp_live_at(&recorder->live, id)->address);
        }
    }
}

void mp_run_forked(mp_run *run, VALUE here)
{
    mp_run_lock_init(run);
    if (!run->root) run->root = run->id;
    run->parent = run->id;
    run->id = new_id();
    mp_recorder *recorder = run->recorder;
    /* Or every worker would sample the same allocations. */
    mp_recorder_reseed(recorder, (uint64_t)getpid());
    mp_snapshots_keep(recorder, here);
}
