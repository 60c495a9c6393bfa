#include "idmap.h"

#include "error.h"
#include "hash.h"
#include "mem.h"

/* Who writes a file must not know which ids collide, so the seed is where the map happens to be. */
static uint32_t tag_of(const mp_idmap *map, uint64_t id)
{
    return mp_index_tag(mp_hash_end(mp_hash_word(map->seed, id), sizeof id));
}

static bool find_sparse(const mp_idmap *map, uint64_t id, uint32_t *number)
{
    uint32_t tag = tag_of(map, id);
    for (uint32_t at = tag, found; (found = mp_index_next(&map->index, tag, &at)) != 0;) {
        if (map->ids[found - 1] != id) continue;
        *number = found - 1;
        return true;
    }
    return false;
}

bool mp_idmap_find(const mp_idmap *map, uint64_t id, uint32_t *number)
{
    if (map->sparse) return find_sparse(map, id, number);
    if (id == 0 || id > map->count) return false;
    *number = (uint32_t)(id - 1);
    return true;
}

static int add_sparse(mp_idmap *map, uint64_t id, uint32_t number)
{
    if (number >= INT32_MAX) return MP_ELIMIT;
    if (number >= map->cap) {
        size_t cap = (size_t)number * 2 + 64;
        uint64_t *ids = mp_realloc(map->ids, cap * sizeof *ids);
        if (!ids) return MP_ENOMEM;
        map->ids = ids;
        map->cap = cap;
    }
    int status = mp_index_reserve(&map->index);
    if (status) return status;
    map->ids[number] = id;
    mp_index_add(&map->index, tag_of(map, id), number + 1);
    return MP_OK;
}

static int become_sparse(mp_idmap *map)
{
    map->sparse = true;
    map->seed = MP_HASH_SEED ^ (uint64_t)(uintptr_t)map;
    mp_index_init(&map->index);
    for (uint32_t number = 0; number < map->count; number++) {
        int status = add_sparse(map, (uint64_t)number + 1, number);
        if (status) return status;
    }
    return MP_OK;
}

int mp_idmap_add(mp_idmap *map, uint64_t id)
{
    uint32_t number;
    if (mp_idmap_find(map, id, &number)) return MP_EFORMAT;
    if (!map->sparse && id != (uint64_t)map->count + 1) {
        int status = become_sparse(map);
        if (status) return status;
    }
    if (map->sparse) {
        int status = add_sparse(map, id, map->count);
        if (status) return status;
    }
    map->count++;
    return MP_OK;
}

void mp_idmap_free(mp_idmap *map)
{
    if (map->sparse) mp_index_destroy(&map->index);
    mp_free(map->ids);
    *map = (mp_idmap){0};
}
