/*
 * Functions, locations and samples of the file, made into the flat arrays. A location with inlined
 * lines becomes as many locations; one without a function gets a function of its own.
 */
#include "decoder.h"
#include "error.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* --- functions and locations ------------------------------------------------------------------ */

static int add_id(mp_decoder *decoder, mp_idmap *ids, uint64_t id, const char *what)
{
    if (id == 0) return mp_decoder_fail(decoder, MP_EFORMAT, "a %s has the id 0", what);
    int status = mp_idmap_add(ids, id);
    if (status != MP_EFORMAT) return status;
    return mp_decoder_fail(decoder, MP_EFORMAT, "%s %" PRIu64 " is in the profile twice", what, id);
}

static int find_id(mp_decoder *decoder, const mp_idmap *ids, uint64_t id, const char *what,
                   uint32_t *number)
{
    if (mp_idmap_find(ids, id, number)) return MP_OK;
    return mp_decoder_fail(decoder, MP_EFORMAT, "%s %" PRIu64 " is not in the profile", what, id);
}

static int read_function(mp_decoder *decoder, const mp_wire_field *field)
{
    upb_Message *message;
    int status =
        mp_decoder_parse(decoder, field, &perftools__profiles__Function_msg_init, &message);
    if (status) return status;
    const perftools_profiles_Function *from = (perftools_profiles_Function *)message;
    status =
        add_id(decoder, &decoder->function_ids, perftools_profiles_Function_id(from), "function");
    if (status) return status;

    mp_pprof_function *function = &decoder->functions[decoder->profile->n_functions++];
    function->start_line = perftools_profiles_Function_start_line(from);
    status = mp_decoder_string(decoder, perftools_profiles_Function_name(from), &function->name);
    if (status) return status;
    status = mp_decoder_string(decoder, perftools_profiles_Function_system_name(from),
                               &function->system_name);
    if (status) return status;
    return mp_decoder_string(decoder, perftools_profiles_Function_filename(from), &function->file);
}

int mp_decoder_read_functions(mp_decoder *decoder)
{
    void *functions;
    int status =
        mp_decoder_take(decoder, (size_t)decoder->counts[MP_FIELD_FUNCTION] + decoder->n_nameless,
                        sizeof *decoder->functions, &functions);
    if (status) return status;
    decoder->profile->functions = decoder->functions = functions;
    return mp_decoder_each_field(decoder, MP_FIELD_FUNCTION, read_function);
}

/* A location that nobody symbolized is named after its address. */
static int nameless_function(mp_decoder *decoder, uint64_t address, uint32_t *number)
{
    char name[2 + 16 + 1];
    int len = snprintf(name, sizeof name, "0x%" PRIx64, address);
    void *kept;
    int status = mp_decoder_take(decoder, (size_t)len, 1, &kept);
    if (status) return status;
    memcpy(kept, name, (size_t)len);

    mp_pprof *profile = decoder->profile;
    decoder->strings[profile->n_strings] = (mp_pprof_str){kept, (uint32_t)len};
    decoder->functions[profile->n_functions] = (mp_pprof_function){.name = profile->n_strings++};
    *number = profile->n_functions++;
    return MP_OK;
}

static int measure_location(mp_decoder *decoder, const mp_wire_field *field)
{
    upb_Message *message;
    int status =
        mp_decoder_parse(decoder, field, &perftools__profiles__Location_msg_init, &message);
    if (status) return status;
    size_t n;
    const perftools_profiles_Line *const *lines =
        perftools_profiles_Location_line((perftools_profiles_Location *)message, &n);
    decoder->n_lines += n > 0 ? (uint32_t)n : 1;
    decoder->n_nameless += n == 0;
    for (size_t i = 0; i < n; i++) {
        decoder->n_nameless += perftools_profiles_Line_function_id(lines[i]) == 0;
    }
    return MP_OK;
}

int mp_decoder_measure_locations(mp_decoder *decoder)
{
    return mp_decoder_each_field(decoder, MP_FIELD_LOCATION, measure_location);
}

static int add_location(mp_decoder *decoder, uint64_t address, uint64_t function_id, int64_t line)
{
    uint32_t function;
    int status = function_id
                     ? find_id(decoder, &decoder->function_ids, function_id, "function", &function)
                     : nameless_function(decoder, address, &function);
    if (status) return status;
    decoder->locations[decoder->profile->n_locations++] =
        (mp_pprof_location){.function = function, .line = line, .address = address};
    return MP_OK;
}

static int read_location(mp_decoder *decoder, const mp_wire_field *field)
{
    upb_Message *message;
    int status =
        mp_decoder_parse(decoder, field, &perftools__profiles__Location_msg_init, &message);
    if (status) return status;
    const perftools_profiles_Location *from = (perftools_profiles_Location *)message;
    status =
        add_id(decoder, &decoder->location_ids, perftools_profiles_Location_id(from), "location");
    if (status) return status;

    uint64_t address = perftools_profiles_Location_address(from);
    size_t n;
    const perftools_profiles_Line *const *lines = perftools_profiles_Location_line(from, &n);
    if (n == 0) status = add_location(decoder, address, 0, 0);
    for (size_t i = 0; !status && i < n; i++) {
        status = add_location(decoder, address, perftools_profiles_Line_function_id(lines[i]),
                              perftools_profiles_Line_line(lines[i]));
    }
    decoder->lines[decoder->location_ids.count] = decoder->profile->n_locations;
    return status;
}

int mp_decoder_read_locations(mp_decoder *decoder)
{
    void *locations, *lines;
    int status = mp_decoder_take(decoder, decoder->n_lines, sizeof *decoder->locations, &locations);
    if (status) return status;
    status = mp_decoder_take(decoder, (size_t)decoder->counts[MP_FIELD_LOCATION] + 1,
                             sizeof *decoder->lines, &lines);
    if (status) return status;
    decoder->profile->locations = decoder->locations = locations;
    decoder->lines = lines;
    decoder->lines[0] = 0;
    return mp_decoder_each_field(decoder, MP_FIELD_LOCATION, read_location);
}

/* --- samples ---------------------------------------------------------------------------------- */

static int copy_stack(mp_decoder *decoder, const perftools_profiles_Sample *from,
                      mp_pprof_sample *sample)
{
    size_t n, depth = 0;
    const uint64_t *ids = perftools_profiles_Sample_location_id(from, &n);
    for (size_t i = 0; i < n; i++) {
        uint32_t number;
        int status = find_id(decoder, &decoder->location_ids, ids[i], "location", &number);
        if (status) return status;
        depth += decoder->lines[number + 1] - decoder->lines[number];
    }
    if (depth > UINT32_MAX)
        return mp_decoder_fail(decoder, MP_ELIMIT, "a stack of %zu frames", depth);

    void *taken;
    int status = mp_decoder_take(decoder, depth, sizeof(uint32_t), &taken);
    if (status) return status;
    uint32_t *locations = taken;
    sample->locations = locations;
    sample->depth = (uint32_t)depth;
    for (size_t i = 0; i < n; i++) {
        uint32_t number = 0;
        mp_idmap_find(&decoder->location_ids, ids[i], &number);
        for (uint32_t at = decoder->lines[number]; at < decoder->lines[number + 1]; at++) {
            *locations++ = at;
        }
    }
    return MP_OK;
}

static int copy_values(mp_decoder *decoder, const perftools_profiles_Sample *from,
                       mp_pprof_sample *sample)
{
    size_t n;
    const int64_t *values = perftools_profiles_Sample_value(from, &n);
    if (n != decoder->profile->n_types) {
        return mp_decoder_fail(decoder, MP_EFORMAT,
                               "sample %" PRIu32 " has %zu values for %" PRIu32 " types",
                               decoder->profile->n_samples, n, decoder->profile->n_types);
    }
    void *copy;
    int status = mp_decoder_take(decoder, n, sizeof *values, &copy);
    if (status) return status;
    memcpy(copy, values, n * sizeof *values);
    sample->values = copy;
    return MP_OK;
}

/* Somebody else may mean something else by the field: what does not fit is left out. */
static int copy_deviations(mp_decoder *decoder, const perftools_profiles_Sample *from,
                           mp_pprof_sample *sample)
{
    size_t n;
    const int64_t *deviations = perftools_profiles_Sample_deviation(from, &n);
    if (n != decoder->profile->n_types) return MP_OK;
    for (size_t i = 0; i < n; i++) {
        if (deviations[i] < 0) return MP_OK;
    }
    void *copy;
    int status = mp_decoder_take(decoder, n, sizeof *deviations, &copy);
    if (status) return status;
    memcpy(copy, deviations, n * sizeof *deviations);
    sample->deviations = copy;
    return MP_OK;
}

static int copy_label(mp_decoder *decoder, const perftools_profiles_Label *from,
                      mp_pprof_label *label)
{
    int status = mp_decoder_string(decoder, perftools_profiles_Label_key(from), &label->key);
    if (!status)
        status = mp_decoder_string(decoder, perftools_profiles_Label_str(from), &label->str);
    if (!status) {
        status =
            mp_decoder_string(decoder, perftools_profiles_Label_num_unit(from), &label->num_unit);
    }
    label->num = perftools_profiles_Label_num(from);
    return status;
}

static int copy_labels(mp_decoder *decoder, const perftools_profiles_Sample *from,
                       mp_pprof_sample *sample)
{
    size_t n;
    const perftools_profiles_Label *const *labels = perftools_profiles_Sample_label(from, &n);
    if (n == 0) return MP_OK;
    void *taken;
    int status = mp_decoder_take(decoder, n, sizeof *sample->labels, &taken);
    if (status) return status;
    mp_pprof_label *copies = taken;
    for (size_t i = 0; i < n; i++) {
        status = copy_label(decoder, labels[i], &copies[i]);
        if (status) return status;
    }
    sample->labels = copies;
    sample->n_labels = (uint32_t)n;
    return MP_OK;
}

static int read_sample(mp_decoder *decoder, const mp_wire_field *field)
{
    upb_Message *message;
    int status = mp_decoder_parse(decoder, field, &perftools__profiles__Sample_msg_init, &message);
    if (status) return status;
    const perftools_profiles_Sample *from = (perftools_profiles_Sample *)message;
    mp_pprof_sample *sample = &decoder->samples[decoder->profile->n_samples++];
    *sample = (mp_pprof_sample){0};
    status = copy_stack(decoder, from, sample);
    if (!status) status = copy_values(decoder, from, sample);
    if (!status) status = copy_deviations(decoder, from, sample);
    if (!status) status = copy_labels(decoder, from, sample);
    return status;
}

int mp_decoder_read_samples(mp_decoder *decoder)
{
    void *samples;
    int status = mp_decoder_take(decoder, decoder->counts[MP_FIELD_SAMPLE],
                                 sizeof *decoder->samples, &samples);
    if (status) return status;
    decoder->profile->samples = decoder->samples = samples;
    return mp_decoder_each_field(decoder, MP_FIELD_SAMPLE, read_sample);
}
