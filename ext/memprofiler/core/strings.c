#include "strings.h"

#include <string.h>

#include "error.h"
#include "hash.h"
#include "mem.h"

void mp_strings_init(mp_strings *strings, uint32_t cap, size_t bytes_cap)
{
    mp_slabs_init(&strings->slabs, sizeof(mp_string), cap);
    mp_index_init(&strings->index);
    strings->bytes = strings->held = 0;
    strings->bytes_cap = bytes_cap;
}

void mp_strings_destroy(mp_strings *strings)
{
    for (uint32_t id = 1; id <= strings->slabs.top; id++) {
        mp_string *string = mp_slabs_at(&strings->slabs, id);
        if (string->refs) mp_free(string->bytes);
    }
    mp_slabs_destroy(&strings->slabs);
    mp_index_destroy(&strings->index);
    strings->bytes = strings->held = 0;
}

static mp_string *at(const mp_strings *strings, uint32_t id)
{
    return mp_slabs_at(&strings->slabs, id);
}

uint32_t mp_strings_intern(mp_strings *strings, const char *bytes, size_t length)
{
    if (length == 0) return 0;
    if (length > UINT32_MAX) return MP_STRING_NONE;

    uint32_t tag = mp_index_tag(mp_hash_bytes(bytes, length));
    for (uint32_t pos = tag, id; (id = mp_index_next(&strings->index, tag, &pos)) != 0;) {
        mp_string *known = at(strings, id);
        if (known->length == length && memcmp(known->bytes, bytes, length) == 0) {
            known->refs++;
            return id;
        }
    }

    if (strings->bytes > strings->bytes_cap || length > strings->bytes_cap - strings->bytes)
        return MP_STRING_NONE;
    if (mp_index_reserve(&strings->index) != MP_OK) return MP_STRING_NONE;
    char *copy = mp_malloc(length);
    if (!copy) return MP_STRING_NONE;
    uint32_t id = mp_slabs_new(&strings->slabs);
    if (!id) {
        mp_free(copy);
        return MP_STRING_NONE;
    }
    memcpy(copy, bytes, length);
    *at(strings, id) = (mp_string){copy, (uint32_t)length, 1, tag};
    mp_index_add(&strings->index, tag, id);
    strings->bytes += length;
    strings->held += mp_mem_size(length);
    return id;
}

uint32_t mp_strings_intern_own(mp_strings *strings, const char *bytes, size_t length)
{
    size_t bytes_cap = strings->bytes_cap;
    uint32_t cap = strings->slabs.cap;
    strings->bytes_cap = SIZE_MAX;
    strings->slabs.cap = MP_STRING_NONE - 1;
    uint32_t id = mp_strings_intern(strings, bytes, length);
    strings->bytes_cap = bytes_cap;
    strings->slabs.cap = cap;
    return id;
}

void mp_strings_retain(mp_strings *strings, uint32_t id)
{
    if (id) at(strings, id)->refs++;
}

void mp_strings_release(mp_strings *strings, uint32_t id)
{
    if (!id) return;
    mp_string *string = at(strings, id);
    if (--string->refs) return;
    mp_index_remove(&strings->index, string->tag, id);
    strings->bytes -= string->length;
    strings->held -= mp_mem_size(string->length);
    mp_free(string->bytes);
    mp_slabs_release(&strings->slabs, id);
}

uint32_t mp_strings_count(const mp_strings *strings)
{
    return strings->slabs.in_use + 1;
}

size_t mp_strings_memsize(const mp_strings *strings)
{
    return mp_slabs_memsize(&strings->slabs) + mp_index_memsize(&strings->index) + strings->held;
}

int mp_string_index_init(mp_string_index *index, mp_strings *strings)
{
    index->strings = strings;
    mp_index_init(&index->index);
    index->length = 1;
    index->room = 64;
    index->order = mp_malloc(index->room * sizeof *index->order);
    if (!index->order) return MP_ENOMEM;
    index->order[0] = 0;
    return MP_OK;
}

void mp_string_index_destroy(mp_string_index *index)
{
    for (uint32_t i = 1; index->order && i < index->length; i++) {
        mp_strings_release(index->strings, index->order[i]);
    }
    mp_free(index->order);
    index->order = NULL;
    mp_index_destroy(&index->index);
}

uint32_t mp_string_index_place(mp_string_index *index, uint32_t id)
{
    if (id == 0) return 0;
    uint32_t tag = mp_index_tag(mp_hash_u64(id));
    for (uint32_t pos = tag, place; (place = mp_index_next(&index->index, tag, &pos)) != 0;) {
        if (index->order[place] == id) return place;
    }
    if (mp_index_reserve(&index->index) != MP_OK) return MP_STRING_NONE;
    if (index->length == index->room) {
        uint32_t *order = mp_realloc(index->order, 2 * (size_t)index->room * sizeof *order);
        if (!order) return MP_STRING_NONE;
        index->order = order;
        index->room *= 2;
    }
    uint32_t place = index->length++;
    index->order[place] = id;
    mp_index_add(&index->index, tag, place);
    mp_strings_retain(index->strings, id);
    return place;
}
