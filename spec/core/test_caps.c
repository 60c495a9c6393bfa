/*
 * A recorder whose tables are full: nothing is lost from the totals, what has no place of its own
 * is under a made-up one, and the counts tell.
 */
#include <math.h>

#include "audit.h"
#include "check.h"
#include "error.h"
#include "mem.h"
#include "program.h"
#include "program_check.h"

static program *exact_program(uint64_t seed)
{
    mp_options options = {.interval = 1, .track_one_in = 1, .max_depth = 64, .seed = seed};
    return program_new(&options);
}

/* Returns what ended up under made-up stacks, or under no thread. */
static values check_totals(program *p)
{
    static cells recorded, truth;
    values other;
    read_recorder(p, recorded, &other);
    read_truth(p, truth);
    values sum = total(recorded), real = total(truth);
    CHECK_UINT(sum.alloc_objects + other.alloc_objects, real.alloc_objects);
    CHECK_UINT(sum.alloc_space + other.alloc_space, real.alloc_space);
    CHECK_UINT(sum.inuse_objects + other.inuse_objects, real.inuse_objects);
    CHECK_UINT(sum.inuse_space + other.inuse_space, real.inuse_space);
    return other;
}

static void some_steps(program *p, int steps)
{
    for (int i = 1; i <= steps; i++) {
        allocate(p);
        resize(p, dice_roll(&p->dice, OBJECTS));
        if (i % 50 == 0) name_all(p);
        if (i % 400 == 0) collect(p, 20);
        if (i % 700 == 0) {
            function_dies(p, dice_roll(&p->dice, FUNCTIONS));
            mp_recorder_tidy(p->recorder);
        }
        if (i % 1000 == 0) {
            measure_all(p);
            check_cumulative(p);
        }
    }
}

/* Some room for the beginning, then none. */
static void test_full(uint32_t *(*cap_of)(mp_recorder *), uint32_t cap, bool overflows, bool others)
{
    program *p = exact_program(cap);
    mp_recorder *r = p->recorder;
    *cap_of(r) = cap;
    some_steps(p, 4000);
    values other = check_totals(p);
    CHECK((r->counts.overflow > 0) == overflows);
    CHECK((other.alloc_objects > 0) == others);
    if (overflows) CHECK(r->counts.overflow >= other.alloc_objects); /* and what has no class */
    CHECK_UINT(r->counts.samples, 4000);
    CHECK_UINT(r->counts.dropped, 0);
    audit(r);
    program_free(p);
}

static uint32_t *raw_stacks(mp_recorder *r)
{
    return &r->raw_stacks.slabs.cap;
}

static uint32_t *frames(mp_recorder *r)
{
    return &r->frames.slabs.cap;
}

static uint32_t *classes(mp_recorder *r)
{
    return &r->classes.slabs.cap;
}

static uint32_t *threads(mp_recorder *r)
{
    return &r->threads.slabs.cap;
}

static uint32_t *raw_sites(mp_recorder *r)
{
    return &r->raw_sites.slabs.cap;
}

static uint32_t *named_sites(mp_recorder *r)
{
    return &r->named_sites.slabs.cap;
}

static uint32_t *named_stacks(mp_recorder *r)
{
    return &r->named_stacks.slabs.cap;
}

static uint32_t *functions(mp_recorder *r)
{
    return &r->functions.functions.slabs.cap;
}

static uint32_t *locations(mp_recorder *r)
{
    return &r->functions.locations.slabs.cap;
}

static uint32_t *strings(mp_recorder *r)
{
    return &r->strings.slabs.cap;
}

static void test_full_tables(void)
{
    /* Found out when the sample is taken. */
    test_full(raw_stacks, 30, true, true);
    test_full(frames, 20, true, true);
    test_full(classes, 5, true, false);
    test_full(threads, 1, false, true);
    test_full(raw_sites, 50, true, true);
    test_full(raw_sites, 1, true, true);
    /* Found out when it is named. */
    test_full(named_stacks, 20, true, true);
    test_full(named_sites, 50, true, true);
    test_full(named_sites, 2, true, true);
    test_full(functions, 10, true, true);
    test_full(locations, 20, true, true);
    test_full(strings, 12, true, true);
}

static void test_full_words(void)
{
    program *p = exact_program(1);
    p->recorder->raw_stacks.count.cap = 90;
    some_steps(p, 3000);
    CHECK(check_totals(p).alloc_objects > 0);
    CHECK(p->recorder->counts.overflow > 0);
    CHECK(p->recorder->raw_stacks.count.words <= 90);
    audit(p->recorder);
    program_free(p);
}

static void test_full_bytes(void)
{
    program *p = exact_program(1);
    p->recorder->strings.bytes_cap = 130;
    some_steps(p, 3000);
    CHECK(check_totals(p).alloc_objects > 0);
    CHECK(p->recorder->strings.bytes <= 130);
    audit(p->recorder);
    program_free(p);
}

/* What does not fit is not for ever: once frames have died and were tidied up, there is room. */
static void test_room_again(void)
{
    program *p = exact_program(3);
    mp_recorder *r = p->recorder;
    *raw_stacks(r) = 60;
    some_steps(p, 2000);
    uint64_t overflow = r->counts.overflow;
    CHECK(overflow > 0);
    name_all(p);
    collect(p, 100);
    for (uint32_t f = 0; f < FUNCTIONS; f++) function_dies(p, f);
    mp_recorder_tidy(r);
    CHECK_UINT(r->raw_stacks.slabs.in_use, 1);
    for (int i = 0; i < 20; i++) allocate(p);
    CHECK_UINT(r->counts.overflow, overflow);
    check_totals(p);
    audit(r);
    program_free(p);
}

/* A function whose name, or file, found no room leaves the other one as it was. */
static void test_function_without_room(void)
{
    program *p = exact_program(5);
    mp_recorder *r = p->recorder;
    uint32_t known = mp_strings_intern(&r->strings, "app.rb", 6);
    r->strings.slabs.cap = r->strings.slabs.in_use;
    uint32_t overflow = mp_refs_at(&r->frames, MP_FRAME_OVERFLOW)->name;
    for (int i = 0; i < 4; i++) {
        uint32_t again = mp_strings_intern(&r->strings, "app.rb", 6);
        uint32_t none = mp_strings_intern(&r->strings, "too late", 8);
        CHECK_UINT(none, MP_STRING_NONE);
        uint32_t function =
            mp_recorder_function(r, i % 2 ? again : none, i % 2 ? none : again, 1, 0);
        CHECK_UINT(function, overflow);
        mp_functions_release(&r->functions, function);
    }
    CHECK_UINT(mp_strings_at(&r->strings, known)->refs, 1);
    mp_strings_release(&r->strings, known);
    audit(r);
    program_free(p);
}

/* It was by type that they had room. */
static void test_late_classes_without_room(void)
{
    program *p = exact_program(6);
    mp_recorder *r = p->recorder;
    int line = 1;
    uintptr_t frame = FRAME_BASE;
    uint32_t stack = mp_recorder_stack(r, &frame, &line, 1, 0), by_type = mp_recorder_class(r, 64);
    r->classes.slabs.cap = r->classes.slabs.in_use;
    for (uint64_t i = 1; i <= 10; i++) {
        uint64_t address = i << 20;
        int later = i > 5;
        uint32_t klass = later ? by_type : mp_recorder_class(r, (uintptr_t)(128 * i));
        mp_recorder_sample(r, &(mp_allocation){.stack = stack,
                                               .klass = klass,
                                               .address = address,
                                               .size = 40,
                                               .class_later = later});
        uint32_t live = mp_live_find(&r->live, address);
        if (later) mp_recorder_class_known(r, live, mp_recorder_class(r, (uintptr_t)(128 * i)));
        CHECK_UINT(mp_site_at(&r->raw_sites, mp_live_at(&r->live, live)->site)->klass,
                   r->overflow_class);
        CHECK_UINT(r->counts.overflow, i);
    }
    program_free(p);
}

/* ---- live samples ---------------------------------------------------------------------------- */

/*
 * The cap is soft for as long as measuring is not legal: each further quarter of it halves the
 * odds, so n samples bring the table to cap + cap / 4 * log2(4 * n / cap) on average; eight steps
 * more have odds of 2^-8. Nothing is turned away.
 */
static void test_live_cap(uint32_t cap)
{
    const uint32_t step = cap / 4 ? cap / 4 : 1, samples = 60 * cap + 200;
    const uint32_t most = cap + step * ((uint32_t)log2((double)samples / step) + 8);
    mp_options options = {1, 1, cap, 64, cap};
    program *p = program_new(&options);
    mp_recorder *r = p->recorder;
    uint32_t asked_at = 0;
    for (uint32_t i = 1; i <= samples; i++) {
        allocate(p);
        if (!asked_at && r->wants_thinning) asked_at = i;
        CHECK(mp_live_count(&r->live) <= most);
    }
    CHECK_UINT(asked_at, cap + 1);
    CHECK_UINT(r->counts.samples, samples);
    CHECK_UINT(r->counts.untracked, 0);
    check_cumulative(p);
    name_all(p);
    measure_all(p);
    mp_recorder_thin(r);
    CHECK(!r->wants_thinning);
    check_cumulative(p);
    audit(r);
    static cells recorded;
    values other;
    read_recorder(p, recorded, &other);
    CHECK_UINT(total(recorded).alloc_objects, samples);
    program_free(p);
}

/* No cap: no thinning, however many. */
static void test_no_cap(void)
{
    program *p = exact_program(4);
    for (uint32_t i = 0; i < OBJECTS; i++) allocate(p);
    CHECK_UINT(mp_live_count(&p->recorder->live), OBJECTS);
    CHECK(!p->recorder->wants_thinning && p->recorder->doublings == 0);
    program_free(p);
}

/* A profile can be had all the same, whose own words have found no room before. */
static void test_flush_without_room_for_strings(void)
{
    program *p = exact_program(9);
    mp_recorder *r = p->recorder;
    some_steps(p, 500);
    name_all(p);
    mp_recorder_fold(r);
    r->strings.slabs.cap = r->strings.slabs.in_use;
    r->strings.bytes_cap = r->strings.bytes;
    uint32_t strings = mp_strings_count(&r->strings);
    for (int again = 0; again < 2; again++) {
        mp_snapshot *snapshot;
        mp_snapshot_header header = {0};
        mp_buffer bytes = {0};
        if (!CHECK_INT(snapshot_begun(&snapshot, r, MP_LABEL_CLASS | MP_LABEL_PID, 1), MP_OK))
            break;
        int done;
        mp_snapshot_step(snapshot, UINT32_MAX, &done);
        CHECK_INT(mp_snapshot_encode(snapshot, &header, &bytes), MP_OK);
        CHECK_UINT(mp_strings_intern(&r->strings, "one more", 8), MP_STRING_NONE);
        mp_buffer_free(&bytes);
        mp_snapshot_free(snapshot);
    }
    CHECK_UINT(mp_strings_count(&r->strings), strings);
    audit(r);
    program_free(p);
}

int main(void)
{
    test_full_tables();
    test_function_without_room();
    test_late_classes_without_room();
    test_full_words();
    test_full_bytes();
    test_room_again();
    test_live_cap(1);
    test_live_cap(2);
    test_live_cap(7);
    test_live_cap(300);
    test_no_cap();
    test_flush_without_room_for_strings();
    return check_report();
}
