#include "arena.h"

#include "error.h"
#include "mem.h"

static void *allocate(upb_alloc *alloc, void *ptr, size_t old_size, size_t size, size_t *actual)
{
    (void)alloc, (void)old_size, (void)actual;
    if (size == 0) {
        mp_free(ptr);
        return NULL;
    }
    return mp_realloc(ptr, size);
}

static upb_alloc allocator = {allocate};

upb_Arena *mp_arena_new(void)
{
    return upb_Arena_Init(NULL, 0, &allocator);
}

int mp_scratch_init(mp_scratch *scratch, size_t size)
{
    *scratch = (mp_scratch){.block = mp_malloc(size), .size = size};
    return scratch->block ? MP_OK : MP_ENOMEM;
}

upb_Arena *mp_scratch_empty(mp_scratch *scratch)
{
    if (scratch->arena) upb_Arena_Free(scratch->arena);
    scratch->arena = upb_Arena_Init(scratch->block, scratch->size, &allocator);
    return scratch->arena;
}

void mp_scratch_free(mp_scratch *scratch)
{
    if (scratch->arena) upb_Arena_Free(scratch->arena);
    mp_free(scratch->block);
    *scratch = (mp_scratch){0};
}
