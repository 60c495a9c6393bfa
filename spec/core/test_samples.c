/*
 * The recorder, one sample at a time: stacks and what they are called, sizes that change, classes
 * that come late, addresses used twice.
 */
#include "audit.h"
#include "check.h"
#include "mem.h"
#include "recorder.h"

#include <stdlib.h>

static const mp_options plain = {.interval = 1, .track_one_in = 1, .max_depth = 32, .seed = 1};

/* Frame address 100 * n is function "fn" in "file", classes and threads alike. */
static void name_all(mp_recorder *r, uint32_t flags_of_9)
{
    char text[32];
    uint32_t id;
    while ((id = r->frames.pending) != 0) {
        unsigned n = (unsigned)(mp_refs_at(&r->frames, id)->address / 100);
        uint32_t name = mp_strings_intern(&r->strings, text, (size_t)sprintf(text, "f%u", n));
        uint32_t file = mp_strings_intern(&r->strings, "file", 4);
        uint32_t function = mp_functions_intern(&r->functions, name, 0, file, n);
        if (n == 9) mp_functions_at(&r->functions, function)->flags = flags_of_9;
        mp_refs_name(&r->frames, id, function, 0);
    }
    while ((id = r->classes.pending) != 0) {
        unsigned n = (unsigned)(mp_refs_at(&r->classes, id)->address / 100);
        uint32_t name = mp_strings_intern(&r->strings, text, (size_t)sprintf(text, "C%u", n));
        mp_refs_name(&r->classes, id, name, 0);
    }
    while ((id = r->threads.pending) != 0) mp_refs_name(&r->threads, id, 0, 0);
}

/* The named stack as text, innermost first: "f1:10 f2:20". */
static const char *stack_text(mp_recorder *r, uint32_t named)
{
    static char text[1024];
    const mp_stack *stack = mp_stacks_at(&r->named_stacks, named);
    mp_words words = stack->words;
    size_t at = 0;
    text[0] = '\0';
    for (uint32_t i = 0; i < stack->depth; i++) {
        const mp_location *location =
            mp_locations_at(&r->functions, (uint32_t)mp_words_next(&words));
        const mp_function *function = mp_functions_at(&r->functions, location->function);
        const mp_string *name = mp_strings_at(&r->strings, function->name);
        at += (size_t)sprintf(text + at, "%s%.*s:%u", i ? " " : "", (int)name->length, name->bytes,
                              location->line);
    }
    return text;
}

/* Allocates under this stack and says what the stack is called in the end. */
static const char *called(mp_recorder *r, const uintptr_t *frames, const int *lines, uint32_t depth,
                          int truncated, uint32_t flags_of_9)
{
    static uint64_t address = 1 << 20;
    uint32_t stack = mp_recorder_stack(r, frames, lines, depth, truncated);
    uint32_t klass = mp_recorder_class(r, 100);
    address += 40;
    mp_recorder_sample(r, &(mp_allocation){stack, klass, 0, 0, address, 40, 0, 0});
    name_all(r, flags_of_9);
    mp_recorder_fold(r);
    uint32_t site = mp_live_at(&r->live, mp_live_find(&r->live, address))->site;
    uint32_t named = mp_site_at(&r->raw_sites, site)->named;
    return stack_text(r, mp_site_at(&r->named_sites, named)->stack);
}

static void test_stack_names(void)
{
    mp_recorder *r = mp_recorder_new(&plain);
    uintptr_t frames[] = {100, 200, 300, 100};
    int lines[] = {10, 20, -1, 0};
    CHECK_STR(called(r, frames, lines, 4, 0, 0), "f1:10 f2:20 f3:0 f1:0");
    CHECK_STR(called(r, frames, lines, 4, 1, 0), "f1:10 f2:20 f3:0 f1:0 (truncated):0");
    CHECK_STR(called(r, frames, lines, 3, 0, 0), "f1:10 f2:20 f3:0");
    CHECK_STR(called(r, frames, lines, 1, 0, 0), "f1:10");
    CHECK_STR(called(r, frames, lines, 0, 0, 0), "(no stack):0");
    CHECK_STR(called(r, frames, lines, 0, 0, 0), "(no stack):0");
    CHECK_UINT(r->raw_stacks.slabs.in_use, 6); /* five, and (overflow) */
    audit(r);
    mp_recorder_release(r);
}

static void test_own_frames(void)
{
    mp_recorder *r = mp_recorder_new(&plain);
    uintptr_t frames[] = {900, 900, 100, 200};
    int lines[] = {1, 2, 3, 4};
    CHECK_STR(called(r, frames, lines, 4, 0, MP_FUNCTION_OURS), "f1:3 f2:4");
    CHECK_STR(called(r, frames, lines, 2, 0, MP_FUNCTION_OURS), "(no stack):0");
    audit(r);
    mp_recorder_release(r);

    /* Ruby 3.1's second <main>: only at the end, only at line 0, only if it is not all there is. */
    r = mp_recorder_new(&plain);
    uintptr_t twice[] = {100, 900, 900};
    int at_0[] = {1, 2, 0}, at_3[] = {1, 2, 3}, none[] = {0, 0, 0};
    CHECK_STR(called(r, twice, at_0, 3, 0, MP_FUNCTION_MAIN), "f1:1 f9:2");
    CHECK_STR(called(r, twice, at_3, 3, 0, MP_FUNCTION_MAIN), "f1:1 f9:2 f9:3");
    CHECK_STR(called(r, twice + 1, none, 1, 0, MP_FUNCTION_MAIN), "f9:0");
    mp_recorder_release(r);
}

/* The same stack is the same number, found without allocating, as long as its frames live. */
static void test_stack_numbers(void)
{
    mp_recorder *r = mp_recorder_new(&plain);
    uintptr_t frames[] = {100, 200, 300};
    int lines[] = {1, 2, 3}, others[] = {1, 2, 4};
    uint32_t stack = mp_recorder_stack(r, frames, lines, 3, 0);
    mp_mem_fail_after(0);
    CHECK_UINT(mp_recorder_stack(r, frames, lines, 3, 0), stack);
    mp_mem_fail_after(-1);
    CHECK(mp_recorder_stack(r, frames, others, 3, 0) != stack);
    CHECK(mp_recorder_stack(r, frames, lines, 3, 1) != stack);
    CHECK(mp_recorder_stack(r, frames, lines, 2, 0) != stack);
    name_all(r, 0);
    uint32_t dead = mp_refs_find(&r->frames, 200);
    mp_refs_die(&r->frames, dead);
    uint32_t again = mp_recorder_stack(r, frames, lines, 3, 0);
    CHECK(again != stack);
    CHECK(mp_refs_find(&r->frames, 200) != dead);
    CHECK_UINT(mp_recorder_stack(r, frames, lines, 3, 0), again);
    name_all(r, 0);
    mp_recorder_tidy(r);
    CHECK_UINT(mp_recorder_stack(r, frames, lines, 3, 0), again);
    audit(r);
    mp_recorder_release(r);
}

/* ---- sizes and classes ----------------------------------------------------------------------- */

typedef struct {
    mp_recorder *r;
    uint32_t stack, klass, hidden;
} scene;

static scene new_scene(const mp_options *options)
{
    scene s = {.r = mp_recorder_new(options)};
    s.stack = mp_recorder_stack(s.r, (uintptr_t[]){100}, (int[]){1}, 1, 0);
    s.klass = mp_recorder_class(s.r, 100);
    s.hidden = mp_refs_add_named(&s.r->classes, mp_strings_intern(&s.r->strings, "(hidden)", 8));
    return s;
}

static uint32_t sample(scene *s, uint64_t address, uint64_t size, int class_later)
{
    uint32_t klass = class_later ? s->hidden : s->klass;
    mp_recorder_sample(s->r,
                       &(mp_allocation){s->stack, klass, 0, 0, address, size, class_later, 0});
    return mp_live_find(&s->r->live, address);
}

/* What has been counted under a class: "" for all. */
static void check_counted(scene *s, const char *klass, uint64_t objects, uint64_t bytes)
{
    uint64_t n = 0, sum = 0;
    name_all(s->r, 0);
    mp_recorder_fold(s->r);
    for (uint32_t id = 1; id <= s->r->named_sites.slabs.top; id++) {
        const mp_site *site = mp_site_at(&s->r->named_sites, id);
        const mp_string *name = mp_strings_at(&s->r->strings, site->klass);
        if (*klass && (name->length != strlen(klass) || memcmp(name->bytes, klass, name->length)))
            continue;
        n += site->objects;
        sum += site->bytes;
    }
    CHECK_UINT(n, objects);
    CHECK_UINT(sum, bytes);
}

static void test_sizes(void)
{
    scene s = new_scene(&plain);
    uint32_t live = sample(&s, 8, 40, 0);
    check_counted(&s, "C1", 1, 40);
    mp_recorder_measured(s.r, live, 1000);
    check_counted(&s, "C1", 1, 1000);
    mp_recorder_measured(s.r, live, 60); /* String#clear */
    check_counted(&s, "C1", 1, 1000);
    CHECK_UINT(mp_live_at(&s.r->live, live)->size, 60);
    mp_recorder_measured(s.r, live, 900);
    check_counted(&s, "C1", 1, 1000);
    mp_recorder_measured(s.r, live, 1001);
    check_counted(&s, "C1", 1, 1001);
    mp_recorder_measured(s.r, live, UINT64_MAX);
    check_counted(&s, "C1", 1, MP_LIVE_SIZE_MAX);
    mp_recorder_died(s.r, live);
    check_counted(&s, "C1", 1, MP_LIVE_SIZE_MAX);
    mp_recorder_release(s.r);

    /* A slot counts with every sample, what it owns with the tracked ones: interval 10, 1 in 3. */
    mp_options sparse = {.interval = 10, .track_one_in = 3, .max_depth = 32, .seed = 5};
    s = new_scene(&sparse);
    uint32_t tracked = 0;
    for (uint64_t i = 1; i <= 60; i++) {
        if ((live = sample(&s, i * 64, 40, 0)) == 0) continue;
        tracked++;
        mp_recorder_measured(s.r, live, 100);
    }
    CHECK(tracked > 5 && tracked < 40);
    check_counted(&s, "C1", 600, 600 * 40 + tracked * 30 * 60);
    mp_recorder_release(s.r);
}

static void test_late_class(void)
{
    scene s = new_scene(&plain);
    uint32_t live = sample(&s, 8, 40, 1);
    check_counted(&s, "", 0, 0); /* waits */
    mp_recorder_class_known(s.r, live, mp_recorder_class(s.r, 200));
    check_counted(&s, "C2", 1, 40);
    mp_recorder_class_known(s.r, live, s.klass); /* known already */
    check_counted(&s, "C2", 1, 40);
    mp_recorder_measured(s.r, live, 100);
    check_counted(&s, "C2", 1, 100);
    mp_recorder_died(s.r, live);
    check_counted(&s, "(hidden)", 0, 0);

    live = sample(&s, 8, 40, 1);
    mp_recorder_class_known(s.r, live, 0); /* never will be */
    check_counted(&s, "(hidden)", 1, 40);
    live = sample(&s, 16, 40, 1);
    mp_recorder_died(s.r, live);
    check_counted(&s, "(hidden)", 2, 80);
    live = sample(&s, 24, 40, 1);
    mp_recorder_class_known(s.r, live, s.hidden); /* what it was called anyway */
    check_counted(&s, "(hidden)", 3, 120);
    sample(&s, 32, 40, 1);
    mp_recorder_freeze(s.r);
    check_counted(&s, "(hidden)", 4, 160);
    check_counted(&s, "", 5, 260);
    audit(s.r);
    mp_recorder_release(s.r);
}

/* Whether it is tracked or not, it counts for its class; only a tracked one stays after that. */
static void test_late_class_untracked(void)
{
    mp_options sparse = {.interval = 1, .track_one_in = 5, .max_depth = 32, .seed = 6};
    scene s = new_scene(&sparse);
    uint32_t stayed = 0;
    for (uint64_t i = 1; i <= 500; i++) {
        uint32_t live = sample(&s, i * 64, 40, 1);
        CHECK(live != 0);
        stayed += mp_recorder_class_known(s.r, live, s.klass) != 0;
    }
    check_counted(&s, "(hidden)", 0, 0);
    check_counted(&s, "", 500, 500 * 40);
    CHECK(abs((int)stayed - 100) < 5 * 9); /* sigma: sqrt(500 * 0.2 * 0.8) */
    CHECK_UINT(mp_live_count(&s.r->live), stayed);
    CHECK_UINT(s.r->counts.untracked, 0);
    audit(s.r);
    mp_recorder_release(s.r);
}

/* The free hook measures what is dying, but asks for no class: its bytes count once. */
static void test_late_class_measured(void)
{
    scene s = new_scene(&plain);
    uint32_t live = sample(&s, 8, 40, 1);
    mp_recorder_measured(s.r, live, 1040);
    mp_recorder_died(s.r, live);
    check_counted(&s, "(hidden)", 1, 1040);
    mp_recorder_release(s.r);

    /* With a slot that stands for 10 and bytes that stand for 30. */
    mp_options sparse = {.interval = 10, .track_one_in = 3, .max_depth = 32, .seed = 5};
    s = new_scene(&sparse);
    uint32_t waiting = 0, all = 0;
    for (uint64_t i = 1; i <= 60; i++, all++) {
        live = sample(&s, i * 64, 40, 1);
        if (!mp_recorder_class_known(s.r, live, 0)) continue; /* not tracked */
        waiting++;
        mp_recorder_measured(s.r, live, 140);
        mp_recorder_died(s.r, live);
    }
    CHECK(waiting > 5);
    check_counted(&s, "(hidden)", all * 10, all * 400 + waiting * 30 * 100);
    audit(s.r);
    mp_recorder_release(s.r);
}

/* The class of an object comes to light after its stack was tidied away. */
static void test_late_class_of_retired(void)
{
    scene s = new_scene(&plain);
    uint32_t live = sample(&s, 8, 40, 1), other = sample(&s, 16, 40, 1);
    name_all(s.r, 0);
    mp_refs_die(&s.r->frames, mp_refs_find(&s.r->frames, 100));
    mp_recorder_tidy(s.r);
    audit(s.r);
    mp_recorder_class_known(s.r, live, mp_recorder_class(s.r, 200));
    mp_recorder_class_known(s.r, other, mp_recorder_class(s.r, 200));
    audit(s.r);
    check_counted(&s, "C2", 2, 80);
    mp_recorder_tidy(s.r);
    audit(s.r);
    mp_recorder_measured(s.r, live, 100);
    mp_recorder_died(s.r, live);
    audit(s.r);
    mp_recorder_measured(s.r, other, 200);
    mp_recorder_died(s.r, other);
    audit(s.r);
    check_counted(&s, "C2", 2, 300);
    CHECK_UINT(s.r->raw_sites.slabs.in_use, 1); /* (overflow) */
    CHECK_UINT(s.r->raw_stacks.slabs.in_use, 1);
    mp_recorder_release(s.r);
}

static void test_reused_address(void)
{
    scene s = new_scene(&plain);
    sample(&s, 8, 40, 0);
    uint32_t second = sample(&s, 8, 80, 0);
    CHECK_UINT(mp_live_count(&s.r->live), 1);
    CHECK_UINT(mp_live_at(&s.r->live, second)->size, 80);
    CHECK_UINT(s.r->counts.reused, 1);
    check_counted(&s, "C1", 2, 120);
    sample(&s, 16, 40, 1);
    sample(&s, 16, 40, 0);
    check_counted(&s, "(hidden)", 1, 40);
    check_counted(&s, "C1", 3, 160);
    audit(s.r);
    mp_recorder_release(s.r);
}

static void test_holders(void)
{
    mp_recorder *r = mp_recorder_new(&plain);
    mp_recorder_hold(r);
    mp_recorder_hold(r);
    mp_recorder_release(r);
    mp_recorder_release(r);
    CHECK_UINT(r->holders, 1);
    CHECK(mp_recorder_memsize(r) > sizeof *r);
    mp_recorder_release(r);
}

/* Allocations counted: all gaps that ended, and what has run of the one under way. */
static void test_allocations(void)
{
    mp_options options = {.interval = 100, .track_one_in = 1, .max_depth = 8, .seed = 9};
    mp_recorder *r = mp_recorder_new(&options);
    for (uint64_t i = 0; i < 5000; i++) {
        CHECK_UINT(mp_recorder_allocations(r), i);
        if (--r->countdown <= 0) mp_recorder_next_gap(r);
    }
    mp_recorder_release(r);
}

int main(void)
{
    test_stack_names();
    test_own_frames();
    test_stack_numbers();
    test_sizes();
    test_late_class();
    test_late_class_measured();
    test_late_class_untracked();
    test_late_class_of_retired();
    test_reused_address();
    test_holders();
    test_allocations();
    return check_report();
}
