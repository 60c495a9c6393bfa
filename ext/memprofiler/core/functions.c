#include "functions.h"

#include "hash.h"

void mp_functions_init(mp_functions *functions, mp_strings *strings, uint32_t functions_cap,
                       uint32_t locations_cap)
{
    functions->strings = strings;
    mp_records_init(&functions->functions, sizeof(mp_function), 4, functions_cap);
    mp_records_init(&functions->locations, sizeof(mp_location), 2, locations_cap);
}

void mp_functions_destroy(mp_functions *functions)
{
    mp_records_destroy(&functions->functions);
    mp_records_destroy(&functions->locations);
}

static void release_strings(mp_functions *functions, const uint32_t *strings)
{
    for (int i = 0; i < 3; i++) mp_strings_release(functions->strings, strings[i]);
}

uint32_t mp_functions_intern(mp_functions *functions, uint32_t name, uint32_t system_name,
                             uint32_t file, uint32_t start_line)
{
    uint32_t key[4] = {name, system_name, file, start_line};
    uint32_t id = mp_records_intern(&functions->functions, key);
    /* A new function keeps the references; a known one has its own already. */
    if (!id || mp_functions_at(functions, id)->record.refs > 1) release_strings(functions, key);
    return id;
}

void mp_functions_retain(mp_functions *functions, uint32_t id)
{
    mp_functions_at(functions, id)->record.refs++;
}

void mp_functions_release(mp_functions *functions, uint32_t id)
{
    const mp_function *function = mp_functions_at(functions, id);
    uint32_t strings[3] = {function->name, function->system_name, function->file};
    if (mp_records_release(&functions->functions, id)) release_strings(functions, strings);
}

/*
 * 48 bits from what a person would call the same place, so that readers which know a location by
 * its address alone see the same one in every scrape and every process. The seedless hash of
 * hash.h is part of that promise.
 */
static uint64_t address_of(const mp_functions *functions, const mp_function *function, uint32_t line)
{
    const mp_string *name = mp_strings_at(functions->strings, function->name);
    const mp_string *file = mp_strings_at(functions->strings, function->file);
    uint64_t hash = mp_hash_word(mp_hash_bytes(name->bytes, name->length),
                                 mp_hash_bytes(file->bytes, file->length));
    hash = mp_hash_word(hash, (uint64_t)function->start_line << 32 | line);
    uint64_t address = mp_hash_end(hash, 0) >> 16;
    return address ? address : 1;
}

uint32_t mp_locations_intern(mp_functions *functions, uint32_t function, uint32_t line)
{
    uint32_t key[2] = {function, line};
    uint32_t id = mp_records_intern(&functions->locations, key);
    if (!id) return 0;
    mp_location *location = mp_locations_at(functions, id);
    if (location->record.refs == 1) {
        mp_functions_retain(functions, function);
        location->address = address_of(functions, mp_functions_at(functions, function), line);
    }
    return id;
}

void mp_locations_release(mp_functions *functions, uint32_t id)
{
    uint32_t function = mp_locations_at(functions, id)->function;
    if (mp_records_release(&functions->locations, id)) mp_functions_release(functions, function);
}

size_t mp_functions_memsize(const mp_functions *functions)
{
    return mp_records_memsize(&functions->functions) + mp_records_memsize(&functions->locations);
}
