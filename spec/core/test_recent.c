/*
 * The recent stacks against a plain list of what was kept last: nothing is found that was not kept
 * in just this form, and what was kept last is found.
 */
#include "check.h"
#include "dice.h"
#include "mem.h"
#include "recent.h"

#include <string.h>

#define DEPTH 40
#define ROUNDS 200000

typedef struct {
    uint32_t depth;
    int truncated;
    uintptr_t frames[DEPTH];
    int lines[DEPTH];
} stack;

/* Few frames and lines, so that stacks differ in one place only, anywhere. */
static void make(stack *of, dice *d)
{
    of->depth = dice_roll(d, 4) ? 1 + dice_roll(d, 3) : 1 + dice_roll(d, DEPTH);
    of->truncated = dice_roll(d, 2) != 0;
    for (uint32_t i = 0; i < of->depth; i++) {
        of->frames[i] = 0x7f0000001000 + 40 * (uintptr_t)dice_roll(d, 2);
        of->lines[i] = (int)dice_roll(d, 2);
    }
}

static bool same(const stack *a, const stack *b)
{
    return a->depth == b->depth && a->truncated == b->truncated &&
           memcmp(a->frames, b->frames, a->depth * sizeof *a->frames) == 0 &&
           memcmp(a->lines, b->lines, a->depth * sizeof *a->lines) == 0;
}

static uint32_t find(const mp_recent *recent, const stack *of)
{
    return mp_recent_find(recent, of->frames, of->lines, of->depth, of->truncated);
}

static void keep(mp_recent *recent, uint32_t id, const stack *of)
{
    mp_recent_keep(recent, id, of->frames, of->lines, of->depth, of->truncated);
}

static void test_finds_only_what_was_kept(void)
{
    static stack kept[ROUNDS + 1];
    mp_recent recent = {0};
    dice d = dice_new(7);
    uint32_t oldest = 1, found = 0;
    for (uint32_t id = 1; id <= ROUNDS; id++) {
        stack *of = &kept[id];
        make(of, &d);
        uint32_t known = find(&recent, of);
        if (known) {
            found++;
            CHECK(known >= oldest && same(&kept[known], of));
        }
        keep(&recent, id, of);
        CHECK(find(&recent, of) == id);
        if (dice_roll(&d, 1000) == 0) {
            mp_recent_forget(&recent);
            oldest = id + 1;
            CHECK(find(&recent, of) == 0);
        }
    }
    CHECK(found > ROUNDS / 100);
    CHECK(mp_recent_memsize(&recent) > 0);
    CHECK(mp_recent_memsize(&recent) <= MP_RECENT_STACKS * DEPTH * 3 / 2 * 12);
    mp_recent_destroy(&recent);
    CHECK(mp_recent_memsize(&recent) == 0);
}

static void test_a_stack_without_frames_is_not_kept(void)
{
    mp_recent recent = {0};
    stack none = {0};
    keep(&recent, 1, &none);
    CHECK(find(&recent, &none) == 0);
    mp_recent_destroy(&recent);
}

static void test_without_memory_nothing_is_found(void)
{
    mp_recent recent = {0};
    stack shallow = {.depth = 1, .frames = {0x1000}, .lines = {3}};
    mp_mem_fail_after(0);
    keep(&recent, 1, &shallow);
    CHECK(find(&recent, &shallow) == 0);
    mp_mem_fail_after(-1);
    keep(&recent, 2, &shallow);
    CHECK(find(&recent, &shallow) == 2);
    mp_recent_destroy(&recent);
}

int main(void)
{
    test_finds_only_what_was_kept();
    test_a_stack_without_frames_is_not_kept();
    test_without_memory_nothing_is_found();
    return check_report();
}
