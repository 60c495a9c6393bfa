#include "functions.h"

#include <string.h>

#include "pprof.h"

void mp_functions_init(mp_functions *functions, mp_strings *strings, uint32_t functions_cap,
                       uint32_t locations_cap)
{
    functions->strings = strings;
    memset(functions->recent, 0, sizeof functions->recent);
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

static mp_pprof_str text_of(const mp_functions *functions, uint32_t string)
{
    const mp_string *of = mp_strings_at(functions->strings, string);
    return (mp_pprof_str){of->bytes, of->length};
}

static uint32_t *recent_of(mp_functions *functions, uint32_t function, uint32_t line)
{
    uint32_t mixed = (function * UINT32_C(0x9e3779b1)) ^ (line * UINT32_C(0x85ebca6b));
    return &functions->recent[mixed >> (32 - MP_RECENT_LOCATIONS_BITS)];
}

/* A number in `recent` may have been freed, or be another location's by now: what is there counts. */
static int is_location(const mp_functions *functions, uint32_t id, uint32_t function, uint32_t line)
{
    if (!id) return 0;
    const mp_location *location = mp_locations_at(functions, id);
    return location->record.refs && location->function == function && location->line == line;
}

uint32_t mp_locations_intern(mp_functions *functions, uint32_t function, uint32_t line)
{
    uint32_t *recent = recent_of(functions, function, line);
    if (is_location(functions, *recent, function, line)) {
        mp_locations_at(functions, *recent)->record.refs++;
        return *recent;
    }
    uint32_t key[2] = {function, line};
    uint32_t id = mp_records_intern(&functions->locations, key);
    if (!id) return 0;
    *recent = id;
    mp_location *location = mp_locations_at(functions, id);
    if (location->record.refs == 1) {
        mp_functions_retain(functions, function);
        const mp_function *of = mp_functions_at(functions, function);
        location->address = mp_pprof_address(text_of(functions, of->name),
                                             text_of(functions, of->file), of->start_line, line);
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
