/*
 * The fields of the Profile are walked by hand and the messages in them parsed one by one by the
 * generated code, each in the same scratch arena: however large the file, only one sample or
 * location at a time stands in upb's own form, which takes many times the bytes of the file. The
 * walk is done once for each kind of field, since writers order them as they like.
 */
#include "decoder.h"
#include "error.h"
#include "gzip.h"
#include "utf8.h"

/*
 * The arrays may take this many bytes for each byte of the file. Honest profiles need 2 to 9; what
 * runs away is a location with many inlined lines, named again and again by one-byte ids.
 */
#define GROWTH ((size_t)10)
#define GROWTH_SLACK ((size_t)1024 * 1024)

#define SCRATCH_BYTES ((size_t)64 * 1024)

/* --- strings ---------------------------------------------------------------------------------- */

static int read_string(mp_decoder *decoder, const mp_wire_field *field)
{
    mp_pprof_str *str = &decoder->strings[decoder->profile->n_strings++];
    *str = (mp_pprof_str){field->value, (uint32_t)field->len};
    if (mp_utf8_valid(field->value, field->len)) return MP_OK;

    size_t len = mp_utf8_repair(field->value, field->len, NULL);
    void *repaired;
    int status = mp_decoder_take(decoder, len, 1, &repaired);
    if (status) return status;
    mp_utf8_repair(field->value, field->len, repaired);
    *str = (mp_pprof_str){repaired, (uint32_t)len};
    return MP_OK;
}

static int read_strings(mp_decoder *decoder)
{
    void *strings;
    int status = mp_decoder_take(
        decoder, (size_t)decoder->counts[MP_FIELD_STRING_TABLE] + decoder->n_nameless,
        sizeof *decoder->strings, &strings);
    if (status) return status;
    decoder->profile->strings = decoder->strings = strings;
    status = mp_decoder_each_field(decoder, MP_FIELD_STRING_TABLE, read_string);
    if (status) return status;
    if (decoder->strings[0].len > 0) {
        return mp_decoder_fail(decoder, MP_EFORMAT, "the first string is not the empty one");
    }
    return MP_OK;
}

/* --- the head --------------------------------------------------------------------------------- */

static int merge_head(mp_decoder *decoder, upb_Message *head, upb_Arena *arena)
{
    const char *at = (const char *)decoder->bytes->data, *end = at + decoder->bytes->len;
    while (at < end) {
        mp_wire_field field;
        int status = mp_wire_next(&at, end, &field);
        if (status) return status;
        bool in_head = field.number < MP_FIELD_SAMPLE || field.number > MP_FIELD_STRING_TABLE;
        if (!in_head || field.number > MP_FIELD_LAST) continue;
        status = mp_decoder_merge(decoder, field.start, field.size, head,
                                  &perftools__profiles__Profile_msg_init, arena);
        if (status) return status;
    }
    return MP_OK;
}

static int value_type(mp_decoder *decoder, const perftools_profiles_ValueType *from, uint32_t *type,
                      uint32_t *unit)
{
    int status = mp_decoder_string(decoder, perftools_profiles_ValueType_type(from), type);
    if (status) return status;
    return mp_decoder_string(decoder, perftools_profiles_ValueType_unit(from), unit);
}

static int copy_types(mp_decoder *decoder, const perftools_profiles_Profile *head)
{
    size_t count;
    const perftools_profiles_ValueType *const *from =
        perftools_profiles_Profile_sample_type(head, &count);
    void *taken;
    int status = mp_decoder_take(decoder, count, 2 * sizeof(uint32_t), &taken);
    if (status) return status;
    uint32_t *types = taken;
    for (size_t i = 0; i < count; i++) {
        status = value_type(decoder, from[i], &types[2 * i], &types[2 * i + 1]);
        if (status) return status;
    }
    decoder->profile->sample_types = types;
    decoder->profile->n_types = (uint32_t)count;
    return MP_OK;
}

static int copy_comments(mp_decoder *decoder, const perftools_profiles_Profile *head)
{
    size_t count;
    const int64_t *from = perftools_profiles_Profile_comment(head, &count);
    void *taken;
    int status = mp_decoder_take(decoder, count, sizeof(uint32_t), &taken);
    if (status) return status;
    uint32_t *comments = taken;
    for (size_t i = 0; i < count; i++) {
        status = mp_decoder_string(decoder, from[i], &comments[i]);
        if (status) return status;
    }
    decoder->profile->comments = comments;
    decoder->profile->n_comments = (uint32_t)count;
    return MP_OK;
}

static int copy_head(mp_decoder *decoder, const perftools_profiles_Profile *head)
{
    mp_pprof *profile = decoder->profile;
    int status = copy_types(decoder, head);
    if (!status) status = copy_comments(decoder, head);
    if (!status) {
        status = mp_decoder_string(decoder, perftools_profiles_Profile_default_sample_type(head),
                                   &profile->default_sample_type);
    }
    const perftools_profiles_ValueType *period_type = perftools_profiles_Profile_period_type(head);
    if (!status && period_type) {
        status = value_type(decoder, period_type, &profile->period_type, &profile->period_unit);
    }
    profile->period = perftools_profiles_Profile_period(head);
    profile->time_nanos = perftools_profiles_Profile_time_nanos(head);
    profile->duration_nanos = perftools_profiles_Profile_duration_nanos(head);
    return status;
}

/* All but samples, mappings, locations, functions and strings. */
static int read_head(mp_decoder *decoder)
{
    upb_Arena *arena = mp_arena_new();
    if (!arena) return MP_ENOMEM;
    perftools_profiles_Profile *head = perftools_profiles_Profile_new(arena);
    int status = head ? merge_head(decoder, UPB_UPCAST(head), arena) : MP_ENOMEM;
    if (!status) status = copy_head(decoder, head);
    upb_Arena_Free(arena);
    return status;
}

static int read_mapping(mp_decoder *decoder, const mp_wire_field *field)
{
    if (decoder->profile->mapping_file) return MP_OK;
    upb_Message *message;
    int status = mp_decoder_parse(decoder, field, &perftools__profiles__Mapping_msg_init, &message);
    if (status) return status;
    return mp_decoder_string(
        decoder, perftools_profiles_Mapping_filename((perftools_profiles_Mapping *)message),
        &decoder->profile->mapping_file);
}

/* --- the whole -------------------------------------------------------------------------------- */

static int unpack(mp_decoder *decoder, const uint8_t *bytes, size_t len, size_t max_bytes,
                  mp_buffer *out)
{
    if (max_bytes > MP_PPROF_MAX_BYTES) max_bytes = MP_PPROF_MAX_BYTES;
    const char *why = NULL;
    int status = MP_ELIMIT;
    decoder->gzipped = mp_gzip_is(bytes, len);
    if (decoder->gzipped) {
        status = mp_gunzip(bytes, len, max_bytes, out, &why);
    } else if (len <= max_bytes) {
        status = mp_buffer_append(out, bytes, len);
    }
    if (status == MP_ELIMIT) {
        return mp_decoder_fail(decoder, status, "larger than %zu bytes uncompressed", max_bytes);
    }
    if (why) return mp_decoder_fail(decoder, status, "%s", why);
    if (!status && out->len == 0) return mp_decoder_fail(decoder, MP_EFORMAT, "empty");
    return status;
}

static int decode(mp_decoder *decoder)
{
    decoder->budget = decoder->bytes->len * GROWTH + GROWTH_SLACK;
    decoder->capped = decoder->budget > MP_PPROF_MAX_ARRAYS;
    if (decoder->capped) decoder->budget = MP_PPROF_MAX_ARRAYS;
    int status = mp_scratch_init(&decoder->scratch, SCRATCH_BYTES);
    if (!status) status = mp_decoder_survey(decoder);
    if (!status) status = mp_decoder_measure_locations(decoder);
    if (!status) status = read_strings(decoder);
    if (!status) status = read_head(decoder);
    if (!status) status = mp_decoder_each_field(decoder, MP_FIELD_MAPPING, read_mapping);
    if (!status) status = mp_decoder_read_functions(decoder);
    if (!status) status = mp_decoder_read_locations(decoder);
    if (!status) status = mp_decoder_read_samples(decoder);
    mp_scratch_free(&decoder->scratch);
    mp_idmap_free(&decoder->function_ids);
    mp_idmap_free(&decoder->location_ids);
    return status;
}

int mp_pprof_decode(const uint8_t *bytes, size_t len, size_t max_bytes, mp_pprof_decoded *out,
                    char *why, size_t why_len)
{
    *out = (mp_pprof_decoded){0};
    mp_decoder decoder = {
        .bytes = &out->bytes, .profile = &out->profile, .why = why, .why_len = why_len};
    mp_decoder_fail(&decoder, MP_OK, "%s", "");
    int status = unpack(&decoder, bytes, len, max_bytes, &out->bytes);
    if (!status) {
        out->arena = decoder.arena = mp_arena_new();
        status = out->arena ? decode(&decoder) : MP_ENOMEM;
    }
    if (status == MP_ENOMEM) mp_decoder_fail(&decoder, status, "out of memory");
    if (status == MP_EZLIB) mp_decoder_fail(&decoder, status, "zlib failed");
    if (status) mp_pprof_decoded_free(out);
    return status;
}

void mp_pprof_decoded_free(mp_pprof_decoded *decoded)
{
    if (decoded->arena) upb_Arena_Free(decoded->arena);
    mp_buffer_free(&decoded->bytes);
    *decoded = (mp_pprof_decoded){0};
}
