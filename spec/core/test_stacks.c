/* The table of stacks against a model that keeps each stack's words in a row. */
#include <string.h>

#include "audit_words.h"
#include "check.h"
#include "dice.h"
#include "mem.h"
#include "stacks.h"

#define SHAPES 400u
#define DEEPEST 60u

typedef struct {
    uint32_t depth, id, refs;
    uint64_t words[DEEPEST];
} shape;

static shape model[SHAPES];

static bool is_new(uint32_t s)
{
    for (uint32_t i = 0; i < s; i++) {
        if (model[i].depth == model[s].depth &&
            memcmp(model[i].words, model[s].words, model[s].depth * sizeof(uint64_t)) == 0)
            return false;
    }
    return true;
}

/* As programs have them: some inner words before the outer ones of an earlier stack. */
static void make_shapes(dice *d)
{
    memset(model, 0, sizeof model);
    for (uint32_t s = 1; s < SHAPES;) { /* the first has no words */
        const shape *like = &model[dice_roll(d, s)];
        uint32_t outer = dice_roll(d, like->depth + 1), inner = dice_roll(d, 9);
        if (outer + inner > DEEPEST) continue;
        shape *of = &model[s];
        of->depth = outer + inner;
        for (uint32_t i = 0; i < inner; i++) of->words[i] = (uint64_t)dice_roll(d, 50) << 32 | 7;
        memcpy(of->words + inner, like->words + like->depth - outer, outer * sizeof(uint64_t));
        if (is_new(s)) s++;
    }
}

static void check_words(const mp_stacks *stacks, const shape *of)
{
    const mp_stack *stack = mp_stacks_at(stacks, of->id);
    CHECK_UINT(stack->refs, of->refs);
    if (!CHECK_UINT(stack->depth, of->depth)) return;
    mp_words at = stack->words;
    for (uint32_t i = 0; i < of->depth; i++) CHECK_UINT(mp_words_next(&at), of->words[i]);
}

static void check_all(const mp_stacks *stacks)
{
    uint32_t distinct = 0;
    for (uint32_t s = 0; s < SHAPES; s++) {
        if (!model[s].refs) continue;
        distinct++;
        check_words(stacks, &model[s]);
    }
    CHECK_UINT(stacks->slabs.in_use, distinct);
    CHECK_UINT(stacks->index.used, distinct);
    audit_words(stacks);
    CHECK(mp_stacks_memsize(stacks) >= distinct * sizeof(mp_stack) + stacks->count.words * 8);
}

/* With `faults`, memory runs out now and then, at any of a few allocations. */
static void intern(mp_stacks *stacks, shape *of, dice *d, bool faults)
{
    if (of->refs) mp_mem_fail_after(0); /* a known one allocates nothing */
    bool fails = !of->refs && faults && dice_roll(d, 3) == 0;
    if (fails) mp_mem_fail_after((long)dice_roll(d, 4));
    uint32_t id = mp_stacks_intern(stacks, of->words, of->depth);
    mp_mem_fail_after(-1);
    if (!id) {
        CHECK(fails || stacks->slabs.in_use == stacks->slabs.cap ||
              stacks->count.words + of->depth > stacks->count.cap);
        CHECK(!of->refs);
        return;
    }
    if (of->refs) {
        CHECK_UINT(id, of->id);
    } else {
        const mp_stack *stack = mp_stacks_at(stacks, id);
        CHECK(!stack->user && !stack->flags && !stack->last_site);
    }
    of->id = id;
    of->refs++;
    CHECK(stacks->count.words <= stacks->count.cap);
}

static void test_model(uint64_t seed, uint32_t cap, size_t words_cap, bool faults)
{
    mp_stacks stacks;
    dice d = dice_new(seed);
    make_shapes(&d);
    mp_stacks_init(&stacks, cap, words_cap, UINT64_MAX);
    for (uint32_t i = 0; i < 30000; i++) {
        shape *of = &model[dice_roll(&d, SHAPES)];
        if (dice_roll(&d, 100) < (i < 15000 ? 55u : 45u)) {
            intern(&stacks, of, &d, faults);
        } else if (of->refs) {
            CHECK_INT(mp_stacks_release(&stacks, of->id), of->refs == 1);
            of->refs--;
            if (!of->refs) CHECK_UINT(mp_stacks_at(&stacks, of->id)->refs, 0);
        }
        if (i % 512 == 0) check_all(&stacks);
    }
    check_all(&stacks);
    for (uint32_t s = 0; s < SHAPES; s++) {
        for (; model[s].refs; model[s].refs--) mp_stacks_release(&stacks, model[s].id);
    }
    CHECK_UINT(stacks.count.words, 0);
    CHECK_UINT(stacks.count.pieces, 0);
    mp_stacks_destroy(&stacks);
}

/* However much they share, their depths come to no more than they may: each is written out whole. */
static void test_frames_cap(void)
{
    enum { DEPTH = 100 };
    uint64_t words[DEPTH] = {0};
    mp_stacks stacks;
    mp_stacks_init(&stacks, UINT32_MAX, SIZE_MAX, 10 * DEPTH + 1);
    uint32_t first = 0;
    for (uint32_t i = 1; i <= 10; i++) {
        words[0] = i;
        uint32_t id = mp_stacks_intern(&stacks, words, DEPTH);
        CHECK(id != 0);
        if (!first) first = id;
    }
    words[0] = 11;
    CHECK_UINT(mp_stacks_intern(&stacks, words, DEPTH), 0);
    CHECK_UINT(mp_stacks_intern(&stacks, words, 1), 11);
    words[0] = 1;
    CHECK_UINT(mp_stacks_intern(&stacks, words, DEPTH), first); /* a known one takes nothing */
    CHECK(!mp_stacks_release(&stacks, first));
    CHECK(mp_stacks_release(&stacks, first));
    words[0] = 11;
    CHECK(mp_stacks_intern(&stacks, words, DEPTH) != 0);
    mp_stacks_destroy(&stacks);
}

/* A recursion met at every depth, once on its way down and again from the bottom up. */
static void test_recursion(bool down)
{
    enum { DEPTH = 1024 };
    static uint64_t words[DEPTH];
    mp_stacks stacks;
    mp_stacks_init(&stacks, UINT32_MAX, SIZE_MAX, UINT64_MAX);
    for (uint32_t i = 0; i < DEPTH; i++) words[i] = DEPTH - i; /* the outermost is 1 */
    for (uint32_t i = 1; i <= DEPTH; i++) {
        uint32_t depth = down ? i : DEPTH + 1 - i;
        CHECK(mp_stacks_intern(&stacks, words + DEPTH - depth, depth) != 0);
    }
    audit_words(&stacks);
    /* In a row they would be 524,800 words. Upwards each is the end of the first. Downwards a piece
     * takes in the shorter ones, so that no word is copied more than log2 of the depth times. */
    if (down)
        CHECK(stacks.count.words <= 11 * DEPTH);
    else
        CHECK_UINT(stacks.count.words, DEPTH);
    mp_stacks_destroy(&stacks);
}

int main(void)
{
    test_frames_cap();
    for (uint64_t seed = 1; seed <= 3; seed++) {
        test_model(seed, UINT32_MAX, SIZE_MAX, false);
        test_model(seed, UINT32_MAX, SIZE_MAX, true);
        test_model(seed, 150, SIZE_MAX, false);
        test_model(seed, UINT32_MAX, 700, false);
    }
    test_recursion(true);
    test_recursion(false);
    return check_report();
}
