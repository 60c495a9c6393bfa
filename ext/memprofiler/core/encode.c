/*
 * The profile is serialized as many small Profile messages laid end to end, which is their merge:
 * each is built in the same scratch arena, and deflated before the next is begun.
 */
#include "arena.h"
#include "error.h"
#include "gzip.h"
#include "pprof.h"
#include "utf8.h"

#include <string.h>

/* A message is closed when what was put into it may take this much of the arena. */
#define CHUNK_BYTES ((size_t)192 * 1024)
#define SCRATCH_BYTES ((size_t)512 * 1024)

/* What upb needs for a message with its arrays, about; the chunk size is all that hangs on it. */
#define MESSAGE_BYTES ((size_t)128)

#define MAPPING_ID 1

typedef struct {
    const mp_pprof *in;
    mp_gzip gzip;
    mp_scratch scratch;
    upb_Arena *arena;
    perftools_profiles_Profile *chunk; /* NULL until something is put into it */
    size_t weight;
} pprof_encoder;

static int serialize_chunk(pprof_encoder *encoder)
{
    if (!encoder->chunk) return MP_OK;
    char *bytes;
    size_t len;
    upb_EncodeStatus code =
        upb_Encode(UPB_UPCAST(encoder->chunk), &perftools__profiles__Profile_msg_init, 0,
                   encoder->arena, &bytes, &len);
    encoder->chunk = NULL;
    if (code == kUpb_EncodeStatus_OutOfMemory) return MP_ENOMEM;
    if (code != kUpb_EncodeStatus_Ok) return MP_ERANGE; /* a string table of 2 GB and the like */
    return mp_gzip_write(&encoder->gzip, bytes, len);
}

/* Sees to it that there is a chunk with room for one more message of this size. */
static int make_room(pprof_encoder *encoder, size_t bytes)
{
    bytes += MESSAGE_BYTES;
    if (encoder->chunk && encoder->weight + bytes > CHUNK_BYTES) {
        int status = serialize_chunk(encoder);
        if (status) return status;
    }
    if (!encoder->chunk) {
        encoder->weight = 0;
        encoder->arena = mp_scratch_empty(&encoder->scratch);
        if (!encoder->arena) return MP_ENOMEM;
        encoder->chunk = perftools_profiles_Profile_new(encoder->arena);
        if (!encoder->chunk) return MP_ENOMEM;
    }
    encoder->weight += bytes;
    return MP_OK;
}

static bool no_string(const pprof_encoder *encoder, uint32_t index)
{
    return index >= encoder->in->n_strings;
}

static int put_value_type(pprof_encoder *encoder, perftools_profiles_ValueType *value_type,
                          uint32_t type, uint32_t unit)
{
    if (!value_type) return MP_ENOMEM;
    if (no_string(encoder, type) || no_string(encoder, unit)) return MP_ERANGE;
    perftools_profiles_ValueType_set_type(value_type, type);
    perftools_profiles_ValueType_set_unit(value_type, unit);
    return MP_OK;
}

static int put_types(pprof_encoder *encoder)
{
    const mp_pprof *in = encoder->in;
    if (in->n_types == 0) return MP_ERANGE;
    for (uint32_t i = 0; i < in->n_types; i++) {
        int status = make_room(encoder, 0);
        if (status) return status;
        status = put_value_type(
            encoder, perftools_profiles_Profile_add_sample_type(encoder->chunk, encoder->arena),
            in->sample_types[2 * i], in->sample_types[2 * i + 1]);
        if (status) return status;
    }
    if (no_string(encoder, in->default_sample_type)) return MP_ERANGE;
    perftools_profiles_Profile_set_default_sample_type(encoder->chunk, in->default_sample_type);
    if (in->period_type == 0 && in->period_unit == 0) return MP_OK;
    return put_value_type(
        encoder, perftools_profiles_Profile_mutable_period_type(encoder->chunk, encoder->arena),
        in->period_type, in->period_unit);
}

/* With these flags no reader looks for symbols itself. */
static int put_mapping(pprof_encoder *encoder)
{
    uint32_t file = encoder->in->mapping_file;
    if (no_string(encoder, file)) return MP_ERANGE;
    if (file == 0) return MP_OK;
    perftools_profiles_Mapping *mapping =
        perftools_profiles_Profile_add_mapping(encoder->chunk, encoder->arena);
    if (!mapping) return MP_ENOMEM;
    perftools_profiles_Mapping_set_id(mapping, MAPPING_ID);
    perftools_profiles_Mapping_set_filename(mapping, file);
    perftools_profiles_Mapping_set_has_functions(mapping, true);
    perftools_profiles_Mapping_set_has_filenames(mapping, true);
    perftools_profiles_Mapping_set_has_line_numbers(mapping, true);
    return MP_OK;
}

static int put_head(pprof_encoder *encoder)
{
    const mp_pprof *in = encoder->in;
    if (in->n_strings == 0 || in->strings[0].len != 0) return MP_ERANGE;
    int status = put_types(encoder);
    if (!status) status = put_mapping(encoder);
    if (status) return status;
    perftools_profiles_Profile_set_period(encoder->chunk, in->period);
    perftools_profiles_Profile_set_time_nanos(encoder->chunk, in->time_nanos);
    perftools_profiles_Profile_set_duration_nanos(encoder->chunk, in->duration_nanos);

    for (uint32_t i = 0; i < in->n_comments; i++) {
        if (no_string(encoder, in->comments[i])) return MP_ERANGE;
        status = make_room(encoder, 0);
        if (status) return status;
        if (!perftools_profiles_Profile_add_comment(encoder->chunk, in->comments[i],
                                                    encoder->arena)) {
            return MP_ENOMEM;
        }
    }
    return MP_OK;
}

static int put_labels(pprof_encoder *encoder, perftools_profiles_Sample *sample,
                      const mp_pprof_sample *in)
{
    for (uint32_t i = 0; i < in->n_labels; i++) {
        const mp_pprof_label *from = &in->labels[i];
        if (no_string(encoder, from->key) || no_string(encoder, from->str) ||
            no_string(encoder, from->num_unit)) {
            return MP_ERANGE;
        }
        perftools_profiles_Label *label =
            perftools_profiles_Sample_add_label(sample, encoder->arena);
        if (!label) return MP_ENOMEM;
        perftools_profiles_Label_set_key(label, from->key);
        if (from->str) {
            perftools_profiles_Label_set_str(label, from->str);
        } else {
            perftools_profiles_Label_set_num(label, from->num);
            perftools_profiles_Label_set_num_unit(label, from->num_unit);
        }
    }
    return MP_OK;
}

static int put_sample(pprof_encoder *encoder, const mp_pprof_sample *in)
{
    uint32_t n_types = encoder->in->n_types, n_locations = encoder->in->n_locations;
    int status =
        make_room(encoder, (size_t)in->depth * sizeof(uint64_t) + 2 * n_types * sizeof(int64_t) +
                               in->n_labels * MESSAGE_BYTES);
    if (status) return status;
    perftools_profiles_Sample *sample =
        perftools_profiles_Profile_add_sample(encoder->chunk, encoder->arena);
    if (!sample) return MP_ENOMEM;

    if (in->depth > 0) {
        uint64_t *ids =
            perftools_profiles_Sample_resize_location_id(sample, in->depth, encoder->arena);
        if (!ids) return MP_ENOMEM;
        for (uint32_t i = 0; i < in->depth; i++) {
            if (in->locations[i] >= n_locations) return MP_ERANGE;
            ids[i] = (uint64_t)in->locations[i] + 1;
        }
    }
    int64_t *values = perftools_profiles_Sample_resize_value(sample, n_types, encoder->arena);
    if (!values) return MP_ENOMEM;
    memcpy(values, in->values, n_types * sizeof *values);
    if (in->deviations) {
        values = perftools_profiles_Sample_resize_deviation(sample, n_types, encoder->arena);
        if (!values) return MP_ENOMEM;
        memcpy(values, in->deviations, n_types * sizeof *values);
    }
    return put_labels(encoder, sample, in);
}

static int put_samples(pprof_encoder *encoder)
{
    for (uint32_t i = 0; i < encoder->in->n_samples; i++) {
        int status = put_sample(encoder, &encoder->in->samples[i]);
        if (status) return status;
    }
    return MP_OK;
}

static int put_locations(pprof_encoder *encoder)
{
    for (uint32_t i = 0; i < encoder->in->n_locations; i++) {
        const mp_pprof_location *from = &encoder->in->locations[i];
        if (from->function >= encoder->in->n_functions) return MP_ERANGE;
        int status = make_room(encoder, MESSAGE_BYTES);
        if (status) return status;
        perftools_profiles_Location *location =
            perftools_profiles_Profile_add_location(encoder->chunk, encoder->arena);
        perftools_profiles_Line *line =
            location ? perftools_profiles_Location_add_line(location, encoder->arena) : NULL;
        if (!line) return MP_ENOMEM;
        perftools_profiles_Location_set_id(location, (uint64_t)i + 1);
        perftools_profiles_Location_set_address(location, from->address);
        if (encoder->in->mapping_file) {
            perftools_profiles_Location_set_mapping_id(location, MAPPING_ID);
        }
        perftools_profiles_Line_set_function_id(line, (uint64_t)from->function + 1);
        perftools_profiles_Line_set_line(line, from->line);
    }
    return MP_OK;
}

static bool same_string(const mp_pprof *in, uint32_t a, uint32_t b)
{
    const mp_pprof_str *left = &in->strings[a], *right = &in->strings[b];
    return a == b || (left->len == right->len &&
                      (left->len == 0 || memcmp(left->ptr, right->ptr, left->len) == 0));
}

static int put_functions(pprof_encoder *encoder)
{
    for (uint32_t i = 0; i < encoder->in->n_functions; i++) {
        const mp_pprof_function *from = &encoder->in->functions[i];
        if (no_string(encoder, from->name) || no_string(encoder, from->system_name) ||
            no_string(encoder, from->file)) {
            return MP_ERANGE;
        }
        int status = make_room(encoder, 0);
        if (status) return status;
        perftools_profiles_Function *function =
            perftools_profiles_Profile_add_function(encoder->chunk, encoder->arena);
        if (!function) return MP_ENOMEM;
        perftools_profiles_Function_set_id(function, (uint64_t)i + 1);
        perftools_profiles_Function_set_name(function, from->name);
        if (!same_string(encoder->in, from->name, from->system_name)) {
            perftools_profiles_Function_set_system_name(function, from->system_name);
        }
        perftools_profiles_Function_set_filename(function, from->file);
        perftools_profiles_Function_set_start_line(function, from->start_line);
    }
    return MP_OK;
}

static int put_strings(pprof_encoder *encoder)
{
    for (uint32_t i = 0; i < encoder->in->n_strings; i++) {
        const mp_pprof_str *from = &encoder->in->strings[i];
        int status = make_room(encoder, from->len);
        if (status) return status;
        upb_StringView view = upb_StringView_FromDataAndSize(from->len ? from->ptr : "", from->len);
        if (!mp_utf8_valid(from->ptr, from->len)) {
            size_t len = mp_utf8_repair(from->ptr, from->len, NULL);
            char *repaired = upb_Arena_Malloc(encoder->arena, len);
            if (!repaired) return MP_ENOMEM;
            mp_utf8_repair(from->ptr, from->len, repaired);
            view = upb_StringView_FromDataAndSize(repaired, len);
        }
        if (!perftools_profiles_Profile_add_string_table(encoder->chunk, view, encoder->arena)) {
            return MP_ENOMEM;
        }
    }
    return MP_OK;
}

int mp_pprof_encode(const mp_pprof *profile, mp_buffer *out)
{
    pprof_encoder encoder = {.in = profile};
    int status = mp_scratch_init(&encoder.scratch, SCRATCH_BYTES);
    if (status) return status;
    status = mp_gzip_open(&encoder.gzip, out);
    if (!status) {
        status = put_head(&encoder);
        if (!status) status = put_samples(&encoder);
        if (!status) status = put_locations(&encoder);
        if (!status) status = put_functions(&encoder);
        if (!status) status = put_strings(&encoder);
        if (!status) status = serialize_chunk(&encoder);
        if (!status) status = mp_gzip_finish(&encoder.gzip);
        mp_gzip_close(&encoder.gzip);
    }
    mp_scratch_free(&encoder.scratch);
    return status;
}
