#include "records.h"

#include <string.h>

#include "error.h"
#include "hash.h"

void mp_records_init(mp_records *records, size_t item_size, uint32_t key_words, uint32_t cap)
{
    mp_slabs_init(&records->slabs, item_size, cap);
    mp_index_init(&records->index);
    records->key_words = key_words;
}

void mp_records_destroy(mp_records *records)
{
    mp_slabs_destroy(&records->slabs);
    mp_index_destroy(&records->index);
}

static uint32_t *key_of(const mp_records *records, uint32_t id)
{
    return (uint32_t *)((mp_record *)mp_records_at(records, id) + 1);
}

static uint32_t tag_of(const mp_records *records, const uint32_t *key)
{
    return mp_index_tag(mp_hash_bytes(key, records->key_words * sizeof *key));
}

static uint32_t find(const mp_records *records, const uint32_t *key, uint32_t tag)
{
    for (uint32_t pos = tag, id; (id = mp_index_next(&records->index, tag, &pos)) != 0;) {
        if (memcmp(key_of(records, id), key, records->key_words * sizeof *key) == 0) return id;
    }
    return 0;
}

uint32_t mp_records_find(const mp_records *records, const uint32_t *key)
{
    return find(records, key, tag_of(records, key));
}

uint32_t mp_records_intern(mp_records *records, const uint32_t *key)
{
    uint32_t tag = tag_of(records, key);
    uint32_t id = find(records, key, tag);
    if (id) {
        ((mp_record *)mp_records_at(records, id))->refs++;
        return id;
    }
    if (mp_index_reserve(&records->index) != MP_OK) return 0;
    id = mp_slabs_new(&records->slabs);
    if (!id) return 0;
    mp_record *record = mp_records_at(records, id);
    record->tag = tag;
    record->refs = 1;
    memcpy(record + 1, key, records->key_words * sizeof *key);
    mp_index_add(&records->index, tag, id);
    return id;
}

int mp_records_release(mp_records *records, uint32_t id)
{
    mp_record *record = mp_records_at(records, id);
    if (--record->refs) return 0;
    mp_index_remove(&records->index, record->tag, id);
    mp_slabs_release(&records->slabs, id);
    return 1;
}

size_t mp_records_memsize(const mp_records *records)
{
    return mp_slabs_memsize(&records->slabs) + mp_index_memsize(&records->index);
}
