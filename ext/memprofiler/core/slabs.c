#include "slabs.h"

#include <string.h>

#include "mem.h"

void mp_slabs_init(mp_slabs *slabs, size_t item_size, uint32_t cap)
{
    memset(slabs, 0, sizeof *slabs);
    slabs->size = (uint32_t)item_size;
    slabs->cap = cap;
}

void mp_slabs_destroy(mp_slabs *slabs)
{
    for (uint32_t i = 0; i < slabs->dir_len; i++) mp_free(slabs->dir[i]);
    mp_free(slabs->dir);
    mp_slabs_init(slabs, slabs->size, slabs->cap);
}

static int add_slab(mp_slabs *slabs)
{
    if (slabs->dir_len == slabs->dir_cap) {
        uint32_t cap = slabs->dir_cap ? slabs->dir_cap * 2 : 4;
        char **dir = mp_realloc(slabs->dir, cap * sizeof *dir);
        if (!dir) return 0;
        slabs->dir = dir;
        slabs->dir_cap = cap;
    }
    char *slab = mp_malloc((size_t)MP_SLAB_ITEMS * slabs->size);
    if (!slab) return 0;
    slabs->dir[slabs->dir_len++] = slab;
    return 1;
}

uint32_t mp_slabs_new(mp_slabs *slabs)
{
    if (slabs->in_use >= slabs->cap) return 0;
    uint32_t id = slabs->free;
    if (id) {
        memcpy(&slabs->free, mp_slabs_at(slabs, id), sizeof slabs->free);
    } else {
        if (slabs->top == slabs->dir_len << MP_SLAB_SHIFT && !add_slab(slabs)) return 0;
        id = ++slabs->top;
    }
    slabs->in_use++;
    memset(mp_slabs_at(slabs, id), 0, slabs->size);
    return id;
}

void mp_slabs_release(mp_slabs *slabs, uint32_t id)
{
    memcpy(mp_slabs_at(slabs, id), &slabs->free, sizeof slabs->free);
    slabs->free = id;
    slabs->in_use--;
}

size_t mp_slabs_memsize(const mp_slabs *slabs)
{
    return (size_t)slabs->dir_len * MP_SLAB_ITEMS * slabs->size + slabs->dir_cap * sizeof(char *);
}
