#include "decoder.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "error.h"

/* Caps that no honest profile comes near: half a million frames, a hundred thousand comments. */
#define MAX_MESSAGE_BYTES ((size_t)1024 * 1024)
#define MAX_HEAD_BYTES ((size_t)1024 * 1024)

int mp_decoder_fail(mp_decoder *decoder, int code, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(decoder->why, decoder->why_len, format, arguments);
    va_end(arguments);
    return code;
}

static int not_a_profile(mp_decoder *decoder)
{
    return mp_decoder_fail(decoder, MP_EFORMAT, "%s",
                           decoder->gzipped ? "gzip, but no pprof profile in it"
                                            : "not gzip and not a pprof profile");
}

int mp_decoder_take(mp_decoder *decoder, size_t count, size_t size, void **taken)
{
    if (count > decoder->budget / size && decoder->capped) {
        return mp_decoder_fail(
            decoder, MP_ELIMIT,
            "its %u samples, %u locations and %u strings would take more than %zu bytes",
            decoder->counts[MP_FIELD_SAMPLE], decoder->counts[MP_FIELD_LOCATION],
            decoder->counts[MP_FIELD_STRING_TABLE], MP_PPROF_MAX_ARRAYS);
    }
    if (count > decoder->budget / size) {
        return mp_decoder_fail(decoder, MP_ELIMIT,
                               "its stacks are out of proportion to its %zu bytes",
                               decoder->bytes->len);
    }
    decoder->budget -= count * size;
    *taken = upb_Arena_Malloc(decoder->arena, count ? count * size : size);
    return *taken ? MP_OK : MP_ENOMEM;
}

int mp_decoder_each_field(mp_decoder *decoder, uint32_t number, mp_field_visitor *visit)
{
    const char *at = (const char *)decoder->bytes->data, *end = at + decoder->bytes->len;
    while (at < end) {
        mp_wire_field field;
        int status = mp_wire_next(&at, end, &field);
        if (status) return status; /* never after the survey */
        if (field.number != number) continue;
        status = visit(decoder, &field);
        if (status) return status;
    }
    return MP_OK;
}

static int wire_type_of(uint32_t number)
{
    return number <= MP_FIELD_STRING_TABLE || number == MP_FIELD_PERIOD_TYPE ? MP_WIRE_BYTES
                                                                             : MP_WIRE_VARINT;
}

static int survey_field(mp_decoder *decoder, const mp_wire_field *field)
{
    if (field->number > MP_FIELD_LAST) return MP_OK;
    if (field->type != wire_type_of(field->number) &&
        !(field->number == MP_FIELD_COMMENT && field->type == MP_WIRE_BYTES)) {
        return not_a_profile(decoder);
    }
    decoder->counts[field->number]++;
    if (field->number == MP_FIELD_STRING_TABLE) return MP_OK;
    if (field->number >= MP_FIELD_SAMPLE && field->number <= MP_FIELD_FUNCTION) {
        if (field->len <= MAX_MESSAGE_BYTES) return MP_OK;
        return mp_decoder_fail(decoder, MP_ELIMIT,
                               "a message of %zu bytes in it; at most %zu are read", field->len,
                               MAX_MESSAGE_BYTES);
    }
    decoder->head_bytes += field->size;
    if (decoder->head_bytes <= MAX_HEAD_BYTES) return MP_OK;
    return mp_decoder_fail(decoder, MP_ELIMIT, "more than %zu bytes of sample types and comments",
                           MAX_HEAD_BYTES);
}

int mp_decoder_survey(mp_decoder *decoder)
{
    const char *at = (const char *)decoder->bytes->data, *end = at + decoder->bytes->len;
    while (at < end) {
        mp_wire_field field;
        int status = mp_wire_next(&at, end, &field);
        /* All writers put the sample types first. */
        if (status == MP_ERANGE && decoder->counts[MP_FIELD_SAMPLE_TYPE] > 0) {
            return mp_decoder_fail(decoder, MP_EFORMAT, "cut short");
        }
        if (status) return not_a_profile(decoder);
        status = survey_field(decoder, &field);
        if (status) return status;
    }
    if (decoder->counts[MP_FIELD_SAMPLE_TYPE] == 0) return not_a_profile(decoder);
    if (decoder->counts[MP_FIELD_STRING_TABLE] == 0) {
        return mp_decoder_fail(decoder, MP_EFORMAT, "cut short: it has no strings");
    }
    return MP_OK;
}

int mp_decoder_merge(mp_decoder *decoder, const char *bytes, size_t len, upb_Message *message,
                     const upb_MiniTable *table, upb_Arena *arena)
{
    if (!message) return MP_ENOMEM;
    upb_DecodeStatus code =
        upb_Decode(bytes, len, message, table, NULL, kUpb_DecodeOption_AliasString, arena);
    if (code == kUpb_DecodeStatus_OutOfMemory) return MP_ENOMEM;
    if (code != kUpb_DecodeStatus_Ok)
        return mp_decoder_fail(decoder, MP_EFORMAT, "damaged pprof profile");
    return MP_OK;
}

int mp_decoder_parse(mp_decoder *decoder, const mp_wire_field *field, const upb_MiniTable *table,
                     upb_Message **message)
{
    upb_Arena *arena = mp_scratch_empty(&decoder->scratch);
    *message = arena ? upb_Message_New(table, arena) : NULL;
    return mp_decoder_merge(decoder, field->value, field->len, *message, table, arena);
}

int mp_decoder_string(mp_decoder *decoder, int64_t index, uint32_t *out)
{
    uint32_t n = decoder->counts[MP_FIELD_STRING_TABLE];
    if (index < 0 || index >= n) {
        return mp_decoder_fail(decoder, MP_EFORMAT,
                               "string index %" PRId64 " is out of range: the profile has %" PRIu32
                               " strings",
                               index, n);
    }
    *out = (uint32_t)index;
    return MP_OK;
}
