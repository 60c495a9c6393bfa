/*
 * Memory that runs out, at every allocation there is: no crash, nothing left behind, the counts
 * tell, and once there is memory again all goes on.
 */
#define OBJECTS 400u
#include "audit.h"
#include "check.h"
#include "error.h"
#include "mem.h"
#include "pprof.h"
#include "program.h"
#include "program_check.h"
#include "snapshot.h"

#include <stdlib.h>

static const mp_options exact = {.interval = 1, .track_one_in = 1, .max_depth = 64, .seed = 1};

static void test_recorder_new(void)
{
    mp_recorder *r = NULL;
    long n = 0;
    for (; !r && n < 1000; n++) {
        mp_mem_fail_after(n);
        r = mp_recorder_new(&exact);
        mp_mem_fail_after(-1);
    }
    CHECK(n > 20 && n < 1000);
    audit(r);
    mp_recorder_release(r);
}

/* ---- sampling, naming, folding, tidying ------------------------------------------------------ */

static void live_a_little(program *p)
{
    for (int i = 1; i <= 90; i++) {
        allocate(p);
        resize(p, dice_roll(&p->dice, OBJECTS));
        if (i % 15 == 0) name_all(p);
        if (i % 25 == 0) function_dies(p, dice_roll(&p->dice, FUNCTIONS));
        if (i % 30 == 0) {
            name_all(p);
            mp_recorder_fold(p->recorder);
            collect(p, 25);
        }
        if (i % 45 == 0) {
            class_dies(p, dice_roll(&p->dice, CLASSES));
            name_all(p);
            mp_recorder_tidy(p->recorder);
        }
    }
}

/* What was sampled is counted, somewhere; what was not, is dropped. */
static void check_sums(program *p)
{
    static cells recorded, truth;
    values other;
    read_recorder(p, recorded, &other);
    read_truth(p, truth);
    values sum = total(recorded), real = total(truth);
    const mp_counts *counts = &p->recorder->counts;
    CHECK_UINT(counts->samples + counts->dropped, p->allocations);
    CHECK_UINT(sum.alloc_objects + other.alloc_objects, counts->samples);
    CHECK(sum.alloc_space + other.alloc_space <= real.alloc_space);
    CHECK(sum.inuse_objects + other.inuse_objects <= real.inuse_objects);
    uint32_t known = 0;
    for (uint32_t at = 0; at < OBJECTS; at++) {
        if (!p->objects[at].alive) continue;
        known += mp_live_find(&p->recorder->live, object_address(p, at)) != 0;
    }
    CHECK_UINT(mp_live_count(&p->recorder->live), known);
    check_cumulative(p);
    audit(p->recorder);
}

/* Something was named while there was no memory for it: what it allocates later is told as well. */
static bool some_lost_their_names(const mp_recorder *r)
{
    for (uint32_t id = 1; id <= r->raw_stacks.slabs.top; id++) {
        const mp_stack *stack = mp_stacks_at(&r->raw_stacks, id);
        if (id == r->overflow_stack || !stack->refs) continue;
        if (stack->user == r->overflow_named_stack) return true;
    }
    for (uint32_t id = 1; id <= r->raw_sites.slabs.top; id++) {
        const mp_site *site = mp_site_at(&r->raw_sites, id);
        if (id == r->overflow_site || !site->record.refs) continue;
        if (site->named == r->overflow_named_site) return true;
    }
    for (uint32_t id = MP_FRAME_OVERFLOW + 1; id <= r->frames.slabs.top; id++) {
        const mp_ref *frame = mp_refs_at(&r->frames, id);
        if (frame->refs && frame->name == mp_refs_at(&r->frames, MP_FRAME_OVERFLOW)->name)
            return true;
    }
    for (uint32_t id = r->overflow_class + 1; id <= r->classes.slabs.top; id++) {
        const mp_ref *klass = mp_refs_at(&r->classes, id);
        if (klass->refs && klass->name == mp_refs_at(&r->classes, r->overflow_class)->name)
            return true;
    }
    return false;
}

/*
 * Memory fails from the n-th allocation on; then it comes back. Returns whether that was too late
 * to be noticed.
 */
static bool fail_from(long n, mp_counts *all)
{
    program *p = program_new(&exact);
    live_a_little(p); /* so that tables are there, and full enough to grow */
    check_sums(p);
    mp_mem_fail_after(n);
    live_a_little(p);
    void *more = mp_malloc(1);
    bool unnoticed = more != NULL;
    mp_free(more);
    mp_mem_fail_after(-1);
    check_sums(p);
    mp_counts after = p->recorder->counts;
    all->dropped += after.dropped;
    all->untracked += after.untracked;
    all->overflow += after.overflow;
    if (unnoticed) CHECK(!after.dropped && !after.untracked && !after.overflow);
    bool lost = some_lost_their_names(p->recorder);
    live_a_little(p);
    check_sums(p);
    CHECK_UINT(p->recorder->counts.dropped, after.dropped);
    CHECK_UINT(p->recorder->counts.untracked, after.untracked);
    if (!lost) CHECK_UINT(p->recorder->counts.overflow, after.overflow);

    name_all(p);
    for (uint32_t at = 0; at < OBJECTS; at++) {
        if (p->objects[at].alive) die(p, at);
    }
    for (uint32_t f = 0; f < FUNCTIONS; f++) function_dies(p, f);
    for (uint32_t k = 0; k < CLASSES; k++) class_dies(p, k);
    for (uint32_t t = 0; t < THREADS; t++) thread_dies(p, t);
    name_all(p);
    mp_recorder_tidy(p->recorder);
    audit(p->recorder);
    CHECK_UINT(p->recorder->raw_stacks.slabs.in_use, 1);
    CHECK_UINT(p->recorder->frames.slabs.in_use, MP_FRAMES_MADE_UP - 1);
    program_free(p);
    return unnoticed;
}

static void test_sampling(void)
{
    mp_counts all = {0};
    long n = 0;
    while (!fail_from(n, &all) && n < 2000) n++;
    CHECK(n > 50 && n < 2000);
    CHECK_UINT(all.dropped, 0); /* (overflow) is always there to count in */
    CHECK(all.overflow > 0);
}

/* The first samples of all, and what the live table needs for them. */
static void test_first_samples(void)
{
    mp_counts all = {0};
    for (long n = 0; n < 40; n++) {
        program *p = program_new(&exact);
        mp_mem_fail_after(n);
        for (int i = 0; i < 20; i++) allocate(p);
        mp_mem_fail_after(-1);
        check_sums(p);
        all.dropped += p->recorder->counts.dropped;
        all.untracked += p->recorder->counts.untracked;
        all.overflow += p->recorder->counts.overflow;
        program_free(p);
    }
    CHECK_UINT(all.dropped, 0);
    CHECK(all.untracked > 0);
    CHECK(all.overflow > 0);
}

/* ---- snapshots ------------------------------------------------------------------------------- */

static const char *const comments[] = {"interval: 1", "ruby: none"};
static const mp_snapshot_header header = {
    .comments = comments, .n_comments = 2, .time_nanos = 123456789};

static mp_buffer encoded(mp_snapshot *snapshot)
{
    mp_buffer bytes = {0};
    CHECK_INT(mp_snapshot_encode(snapshot, &header, &bytes), MP_OK);
    return bytes;
}

static void copy_all(mp_snapshot *snapshot)
{
    int done = 0;
    mp_mem_fail_after(0); /* copying needs no memory */
    while (!done) mp_snapshot_step(snapshot, 30, &done);
    mp_mem_fail_after(-1);
}

static void test_begin(program *p, unsigned labels)
{
    mp_snapshot *snapshot = NULL;
    uint32_t strings = mp_strings_count(&p->recorder->strings);
    long n = 0;
    for (; n < 1000; n++) {
        mp_mem_fail_after(n);
        int error = snapshot_begun(&snapshot, p->recorder, labels, 1);
        mp_mem_fail_after(-1);
        if (error == MP_OK) break;
        CHECK_INT(error, MP_ENOMEM);
        CHECK(snapshot == NULL && p->recorder->snapshots == NULL);
        CHECK(p->recorder->live.cursors == NULL);
        CHECK_UINT(p->recorder->holders, 1);
        CHECK_UINT(mp_strings_count(&p->recorder->strings), strings);
        audit(p->recorder);
    }
    CHECK(n > 10 && n < 1000);
    copy_all(snapshot);
    mp_buffer bytes = encoded(snapshot);
    mp_snapshot_free(snapshot);

    /* The same as one that met no obstacle. */
    snapshot_begun(&snapshot, p->recorder, labels, 1);
    copy_all(snapshot);
    mp_buffer again = encoded(snapshot);
    CHECK_BYTES(bytes.data, bytes.len, again.data, again.len);
    mp_buffer_free(&bytes);
    mp_buffer_free(&again);
    mp_snapshot_free(snapshot);
}

static void test_encode(program *p, unsigned labels)
{
    mp_snapshot *snapshot;
    CHECK_INT(snapshot_begun(&snapshot, p->recorder, labels, 1), MP_OK);
    copy_all(snapshot);
    mp_buffer expected = encoded(snapshot);
    long n = 0;
    for (; n < 5000; n++) {
        mp_buffer bytes = {0};
        mp_mem_fail_after(n);
        int error = mp_snapshot_encode(snapshot, &header, &bytes);
        mp_mem_fail_after(-1);
        if (error == MP_OK) CHECK_BYTES(bytes.data, bytes.len, expected.data, expected.len);
        mp_buffer_free(&bytes);
        if (error == MP_OK) break;
        CHECK_INT(error, MP_ENOMEM);
    }
    CHECK(n > 10 && n < 5000);
    mp_buffer_free(&expected);
    mp_snapshot_free(snapshot);
    audit(p->recorder);
}

static void test_snapshots(void)
{
    program *p = program_new(&exact);
    live_a_little(p);
    live_a_little(p);
    name_all(p);
    mp_recorder_fold(p->recorder);
    for (unsigned labels = 0; labels < 8; labels++) {
        test_begin(p, labels);
        test_encode(p, labels);
    }
    check_exact(p);
    program_free(p);
}

int main(void)
{
    test_recorder_new();
    test_sampling();
    test_first_samples();
    test_snapshots();
    return check_report();
}
