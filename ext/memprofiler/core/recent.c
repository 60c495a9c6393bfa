#include "recent.h"

#include <string.h>

#include "hash.h"
#include "mem.h"

/* By the innermost two frames, which differ most from one stack to the next. */
static uint32_t place(const uintptr_t *frames, const int *lines, uint32_t depth)
{
    uint64_t state = MP_HASH_SEED ^ depth;
    for (uint32_t i = 0; i < depth && i < 2; i++) {
        state = mp_hash_word(state, frames[i] ^ (uint64_t)(uint32_t)lines[i] << 40);
    }
    return (uint32_t)(state >> 32) % MP_RECENT_STACKS;
}

static int *lines_of(const mp_recent_stack *stack)
{
    return (int *)(stack->frames + stack->room);
}

void mp_recent_destroy(mp_recent *recent)
{
    for (uint32_t i = 0; i < MP_RECENT_STACKS; i++) mp_free(recent->at[i].frames);
    memset(recent, 0, sizeof *recent);
}

void mp_recent_forget(mp_recent *recent)
{
    for (uint32_t i = 0; i < MP_RECENT_STACKS; i++) recent->at[i].id = 0;
}

uint32_t mp_recent_find(const mp_recent *recent, const uintptr_t *frames, const int *lines,
                        uint32_t depth, int truncated)
{
    const mp_recent_stack *stack = &recent->at[place(frames, lines, depth)];
    if (!stack->id || stack->depth != depth || stack->truncated != truncated) return 0;
    if (memcmp(stack->frames, frames, depth * sizeof *frames) != 0) return 0;
    if (memcmp(lines_of(stack), lines, depth * sizeof *lines) != 0) return 0;
    return stack->id;
}

void mp_recent_keep(mp_recent *recent, uint32_t id, const uintptr_t *frames, const int *lines,
                    uint32_t depth, int truncated)
{
    mp_recent_stack *stack = &recent->at[place(frames, lines, depth)];
    stack->id = 0;
    if (depth == 0) return;
    if (stack->room < depth) {
        uint32_t room = depth + depth / 2;
        uintptr_t *wider = mp_realloc(stack->frames, room * (sizeof *frames + sizeof *lines));
        if (!wider) return;
        stack->frames = wider;
        stack->room = room;
    }
    memcpy(stack->frames, frames, depth * sizeof *frames);
    memcpy(lines_of(stack), lines, depth * sizeof *lines);
    stack->depth = depth;
    stack->truncated = truncated;
    stack->id = id;
}

size_t mp_recent_memsize(const mp_recent *recent)
{
    size_t size = 0;
    for (uint32_t i = 0; i < MP_RECENT_STACKS; i++) {
        size += recent->at[i].room * (sizeof(uintptr_t) + sizeof(int));
    }
    return size;
}
