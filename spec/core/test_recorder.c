/*
 * The recorder at interval 1, where it must be exact: a simulated program in which objects grow and
 * die, classes come late, collections are lost, and frames, classes and threads end and come back.
 */
#include "audit.h"
#include "check.h"
#include "mem.h"
#include "program.h"
#include "program_check.h"

#include <math.h>

#include <stdlib.h>

static mp_options exact(uint64_t seed)
{
    return (mp_options){.interval = 1, .track_one_in = 1, .max_depth = 64, .seed = seed};
}

static void check_counts(const program *p)
{
    const mp_counts *counts = &p->recorder->counts;
    CHECK_UINT(counts->samples, p->allocations);
    CHECK_UINT(counts->lost_samples, p->lost_samples);
    CHECK_UINT(counts->reused, p->reused);
    CHECK_UINT(counts->dropped, 0);
    CHECK_UINT(counts->untracked, 0);
    CHECK_UINT(counts->thinned, 0);
    CHECK_UINT(counts->overflow, 0);
    CHECK_UINT(mp_recorder_allocations(p->recorder), p->allocations);
    uint32_t living = 0;
    for (uint32_t at = 0; at < OBJECTS; at++) {
        living += p->objects[at].alive && !p->objects[at].lost;
    }
    CHECK_UINT(mp_live_count(&p->recorder->live), living);
}

/* Everything the program has dies; then the recorder must have let go of all but names. */
static void end_program(program *p)
{
    mp_recorder *r = p->recorder;
    name_all(p);
    for (uint32_t at = 0; at < OBJECTS; at++) {
        if (p->objects[at].alive) die(p, at);
    }
    name_all(p);
    for (uint32_t f = 0; f < FUNCTIONS; f++) function_dies(p, f);
    for (uint32_t k = 0; k < CLASSES; k++) class_dies(p, k);
    for (uint32_t t = 0; t < THREADS; t++) thread_dies(p, t);
    check_exact(p);
    mp_recorder_tidy(r);
    check_exact(p);
    audit(r);
    CHECK_UINT(mp_live_count(&r->live), 0);
    CHECK_UINT(r->frames.slabs.in_use, MP_FRAMES_MADE_UP - 1);
    CHECK_UINT(r->classes.slabs.in_use, 2); /* (other classes) and (hidden) */
    CHECK_UINT(r->threads.slabs.in_use, 0);
    CHECK_UINT(r->raw_stacks.slabs.in_use, 1); /* (overflow) */
    CHECK_UINT(r->raw_sites.slabs.in_use, 1);  /* the same */
    CHECK_UINT(r->frames.dead + r->classes.dead + r->threads.dead, 0);
    CHECK(!mp_recorder_untidy(r));
}

static void test_exact(uint64_t seed, unsigned what)
{
    mp_options options = exact(seed);
    program *p = program_new(&options);
    for (int i = 0; i < 12000; i++) {
        step(p, what);
        if (i % 1500 != 1499) continue;
        if (i % 2) measure_all(p);
        check_exact(p);
        check_cumulative(p);
        check_counts(p);
        audit(p->recorder);
    }
    end_program(p);
    check_cumulative(p);
    program_free(p);
}

/* stop: the living stay in use, as they were measured last, whatever becomes of their addresses. */
static void test_freeze(uint64_t seed)
{
    mp_options options = exact(seed);
    program *p = program_new(&options);
    for (int i = 0; i < 4000; i++) step(p, EVERYTHING & ~LOSSES);
    collect(p, 20);
    measure_all(p);
    for (int i = 0; i < 50; i++) allocate_at(p, p->spare[--p->n_spare], true);
    name_all(p);
    mp_recorder_fold(p->recorder);
    mp_recorder_freeze(p->recorder);
    for (uint32_t at = 0; at < OBJECTS; at++) {
        object *o = &p->objects[at];
        if (!o->alive || !o->waits) continue;
        o->waits = false;
        count(p, o);
    }
    check_exact(p);
    for (uint32_t at = 0; at < OBJECTS; at++) {
        CHECK_UINT(mp_live_find(&p->recorder->live, object_address(p, at)), 0);
    }
    mp_recorder_tidy(p->recorder);
    check_exact(p);
    check_cumulative(p);
    audit(p->recorder);
    program_free(p);
}

/* Code, classes and threads that come and go for ever: memory does not grow with time. */
static void test_bounded(void)
{
    mp_options options = exact(1);
    program *p = program_new(&options);
    size_t after_few = 0;
    for (int round = 0; round < 300; round++) {
        for (int i = 0; i < 150; i++) allocate(p);
        name_all(p);
        collect(p, 40);
        for (uint32_t f = 0; f < FUNCTIONS; f++) function_dies(p, f);
        for (uint32_t k = 0; k < CLASSES; k++) class_dies(p, k);
        for (uint32_t t = 0; t < THREADS; t++) thread_dies(p, t);
        mp_recorder_tidy(p->recorder);
        if (round == 60) after_few = mp_recorder_memsize(p->recorder);
    }
    /* What lives holds the dead frames of its stack; 150 a round at 40 % a collection are few. */
    CHECK(mp_live_count(&p->recorder->live) < 1000);
    CHECK(mp_recorder_memsize(p->recorder) <= after_few + after_few / 4);
    check_exact(p);
    end_program(p);
    program_free(p);
}

/* Of frames, classes and threads, whichever dies takes its sites along, and nothing else. */
static void test_one_kind_ends(int kind)
{
    mp_options options = exact((uint64_t)kind);
    program *p = program_new(&options);
    mp_recorder *r = p->recorder;
    for (int i = 0; i < 1000; i++) allocate(p);
    name_all(p);
    for (uint32_t at = 0; at < OBJECTS; at++) {
        if (p->objects[at].alive) die(p, at);
    }
    uint32_t sites = r->raw_sites.slabs.in_use, stacks = r->raw_stacks.slabs.in_use;
    mp_recorder_tidy(r);
    CHECK_UINT(r->raw_sites.slabs.in_use, sites);
    for (uint32_t f = 0; kind == 0 && f < FUNCTIONS; f++) function_dies(p, f);
    for (uint32_t k = 0; kind == 1 && k < CLASSES; k++) class_dies(p, k);
    for (uint32_t t = 0; kind == 2 && t < THREADS; t++) thread_dies(p, t);
    mp_recorder_tidy(r);
    CHECK_UINT(r->frames.dead + r->classes.dead + r->threads.dead, 0);
    CHECK_UINT(r->raw_sites.slabs.in_use, 1);
    CHECK_UINT(r->raw_stacks.slabs.in_use, kind == 0 ? 1 : stacks);
    CHECK_UINT(r->classes.slabs.in_use, kind == 1 ? 2 : 2 + CLASSES);
    CHECK_UINT(r->threads.slabs.in_use, kind == 2 ? 0 : THREADS);
    check_exact(p);
    audit(r);
    for (int i = 0; i < 1000; i++) allocate(p); /* their numbers mean others now */
    check_exact(p);
    audit(r);
    program_free(p);
}

/* Tidying is called for once there is something to tidy, and not again for what it had to leave. */
static void test_untidy(void)
{
    mp_options options = exact(1);
    program *p = program_new(&options);
    CHECK(!mp_recorder_untidy(p->recorder));
    int rounds = 0;
    for (; rounds < 100 && !mp_recorder_untidy(p->recorder); rounds++) {
        for (int i = 0; i < 200; i++) allocate(p);
        name_all(p);
        for (uint32_t f = 0; f < FUNCTIONS; f++) function_dies(p, f);
    }
    CHECK(mp_recorder_untidy(p->recorder));
    uint64_t held = p->recorder->frames.dead_refs;
    CHECK(held > 512);
    mp_recorder_tidy(p->recorder);
    CHECK_UINT(p->recorder->frames.dead_refs, held); /* all of it is held by living samples */
    CHECK(!mp_recorder_untidy(p->recorder));
    end_program(p);
    program_free(p);
}

static uint32_t tidied_in(uint32_t depth)
{
    mp_options options = exact(1);
    options.max_depth = depth;
    mp_recorder *r = mp_recorder_new(&options);
    uintptr_t frames[320];
    int lines[320];
    for (uint32_t i = 0; i < depth; i++) {
        frames[i] = 0x1000 + i * 64;
        lines[i] = 1;
    }
    for (lines[0] = 1; lines[0] <= 50; lines[0]++) mp_recorder_stack(r, frames, lines, depth, 0);
    uint32_t pieces = 1;
    while (mp_recorder_tidy_some(r, 10)) pieces++;
    mp_recorder_release(r);
    return pieces;
}

/* The program waits for a piece, and what takes its time in deep stacks is their frames. */
static void test_deep_stacks(void)
{
    CHECK(tidied_in(5) < 15);
    CHECK(tidied_in(320) > 90); /* one for each stack: to look at it, and to let go of it */
}

/* A thread for each job, which allocates in many places: its sites go soon after it. */
static void test_a_thread_each(void)
{
    mp_options options = exact(2);
    mp_recorder *r = mp_recorder_new(&options);
    uint32_t most = 0, tidied = 0;
    for (uint64_t thread = 1; thread <= 2000; thread++) {
        uint32_t t = mp_recorder_thread(r, thread << 12);
        for (uintptr_t place = 1; place <= 20; place++) {
            uint32_t stack = mp_recorder_stack(r, &place, &(int){1}, 1, 0);
            mp_recorder_sample(r, &(mp_allocation){.stack = stack,
                                                   .klass = r->overflow_class,
                                                   .thread = t,
                                                   .address = place << 20,
                                                   .size = 40});
            mp_recorder_died(r, mp_live_find(&r->live, place << 20));
        }
        while (r->frames.pending) {
            uint32_t function = mp_refs_at(&r->frames, MP_FRAME_OVERFLOW)->name;
            mp_functions_retain(&r->functions, function);
            mp_refs_name(&r->frames, r->frames.pending, function, 0);
        }
        mp_refs_name(&r->threads, t, 0, 0);
        mp_refs_die(&r->threads, t);
        if (mp_recorder_untidy(r)) {
            mp_recorder_tidy(r);
            tidied++;
        }
        if (r->raw_sites.slabs.in_use > most) most = r->raw_sites.slabs.in_use;
    }
    CHECK(most < 1000);
    CHECK(tidied > 0 && tidied <= 2000 * 20 / 512);
    audit(r);
    mp_recorder_release(r);
}

/* The gap under way is drawn anew, and nothing that was allocated is lost or counted twice. */
static void test_reseed(void)
{
    double mean = 0;
    for (uint64_t seed = 1; seed <= 400; seed++) {
        mp_options options = {.interval = 1000, .track_one_in = 1, .max_depth = 8, .seed = 1};
        mp_recorder *r = mp_recorder_new(&options);
        r->countdown -= 7;
        mp_recorder_reseed(r, seed);
        CHECK_UINT(mp_recorder_allocations(r), 7);
        mean += (double)r->countdown / 400;
        r->countdown -= 5;
        CHECK_UINT(mp_recorder_allocations(r), 12);
        mp_recorder_release(r);
    }
    CHECK(fabs(mean - 1000) < 4 * 1000 / sqrt(400)); /* sigma of one: its mean */
}

/* Two collectors over one program disturb each other in nothing; here: one seed, the same state. */
static void test_determinism(void)
{
    mp_options options = {.interval = 7, .track_one_in = 2, .max_depth = 64, .seed = 11};
    program *p[2];
    for (int i = 0; i < 2; i++) {
        p[i] = program_new(&options);
        for (int n = 0; n < 5000; n++) step(p[i], ENDINGS | TIDY);
        name_all(p[i]);
    }
    static cells one, two;
    values other;
    read_recorder(p[0], one, &other);
    read_recorder(p[1], two, &other);
    check_same(one, two);
    CHECK(total(one).inuse_objects > 0);
    for (int i = 0; i < 2; i++) program_free(p[i]);
}

/* Threads that are not kept until they have names: what they are called then. */
static void test_threads_gone(void)
{
    mp_options options = {.interval = 1, .track_one_in = 1, .max_depth = 8};
    mp_recorder *r = mp_recorder_new(&options);
    uint32_t ids[6];
    for (uint32_t i = 0; i < 6; i++) {
        ids[i] = mp_recorder_thread(r, 64 * (i + 1));
        mp_refs_retain(&r->threads, ids[i]);
    }
    mp_refs_name(&r->threads, ids[5], mp_strings_intern(&r->strings, "five", 4), 0);
    mp_recorder_thread_gone(r, ids[0]);
    CHECK_UINT(mp_refs_at(&r->threads, ids[0])->name, r->unnamed_thread);
    CHECK_INT(mp_refs_at(&r->threads, ids[0])->state, MP_REF_DEAD);
    r->kept_threads = 2; /* the newest: 4 and 3 */
    mp_recorder_lost(r);
    for (uint32_t i = 0; i < 6; i++) {
        const mp_ref *ref = mp_refs_at(&r->threads, ids[i]);
        CHECK_INT(ref->state, i == 3 || i == 4 ? MP_REF_PENDING : MP_REF_DEAD);
        if (i < 3) CHECK_UINT(ref->name, r->unnamed_thread);
        CHECK_UINT(mp_refs_find(&r->threads, 64 * (i + 1)), i == 3 || i == 4 ? ids[i] : 0);
    }
    CHECK_UINT(r->threads.n_pending, 2);
    mp_recorder_lost(r);
    CHECK_UINT(r->threads.n_pending, 2);
    CHECK_UINT(mp_strings_at(&r->strings, r->unnamed_thread)->refs, 4);
    for (uint32_t i = 0; i < 6; i++) mp_refs_release(&r->threads, ids[i]);
    CHECK_UINT(mp_strings_at(&r->strings, r->unnamed_thread)->refs, 1);
    mp_recorder_release(r);
}

int main(void)
{
    test_threads_gone();
    static const unsigned whats[] = {0,
                                     LATE,
                                     ENDINGS,
                                     ENDINGS | TIDY,
                                     LOSSES | ENDINGS | LATE,
                                     REUSE | LATE,
                                     COMPACT | TIDY | ENDINGS,
                                     EVERYTHING};
    for (size_t i = 0; i < sizeof whats / sizeof *whats; i++) test_exact(i + 1, whats[i]);
    for (uint64_t seed = 20; seed < 23; seed++) {
        test_exact(seed, EVERYTHING);
        test_freeze(seed);
    }
    for (int kind = 0; kind < 3; kind++) test_one_kind_ends(kind);
    test_bounded();
    test_untidy();
    test_deep_stacks();
    test_a_thread_each();
    test_reseed();
    test_determinism();
    return check_report();
}
