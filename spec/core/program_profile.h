/*
 * A snapshot's output, decoded again, told by the simulated program's own numbers.
 */
#ifndef MEMPROFILER_SPEC_PROGRAM_PROFILE_H
#define MEMPROFILER_SPEC_PROGRAM_PROFILE_H

#include "check.h"
#include "error.h"
#include "pprof.h"
#include "program.h"
#include "program_check.h"

static inline mp_pprof_decoded decode(const mp_buffer *bytes)
{
    mp_pprof_decoded decoded;
    char why[MP_PPROF_WHY_LEN];
    int error = mp_pprof_decode(bytes->data, bytes->len, 1 << 28, &decoded, why, sizeof why);
    if (!CHECK_INT(error, MP_OK)) exit(1);
    return decoded;
}

static inline bool is(const mp_pprof *profile, uint32_t string, const char *text)
{
    mp_pprof_str s = profile->strings[string];
    return s.len == strlen(text) && (s.len == 0 || memcmp(s.ptr, text, s.len) == 0);
}

static inline uint32_t number_after(const mp_pprof *profile, uint32_t string, const char *prefix)
{
    mp_pprof_str s = profile->strings[string];
    char text[32] = {0};
    if (s.len >= sizeof text || s.len <= strlen(prefix)) return OTHER;
    memcpy(text, s.ptr, s.len);
    if (strncmp(text, prefix, strlen(prefix))) return OTHER;
    return (uint32_t)strtoul(text + strlen(prefix), NULL, 10);
}

static inline uint32_t shape_of_sample(const program *p, const mp_pprof *profile,
                                       const mp_pprof_sample *sample)
{
    for (uint32_t s = 0; s < SHAPES; s++) {
        uint32_t i = 0;
        while (i < sample->depth && sample->depth == p->shape[s].depth) {
            const mp_pprof_location *location = &profile->locations[sample->locations[i]];
            const mp_pprof_function *function = &profile->functions[location->function];
            uint32_t f = p->shape[s].function[i];
            char file[16];
            snprintf(file, sizeof file, "app/%u.rb", f % 3);
            if (number_after(profile, function->name, "f") != f / 2 || function->start_line != f ||
                !is(profile, function->file, file) || location->line != p->shape[s].line[i])
                break;
            CHECK(location->address != 0);
            i++;
        }
        if (i == p->shape[s].depth && i == sample->depth) return s;
    }
    return OTHER;
}

#endif
