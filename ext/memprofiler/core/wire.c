#include "wire.h"

#include "error.h"

#define MAX_FIELD_NUMBER ((1u << 29) - 1)

static int read_varint(const char **at, const char *end, uint64_t *value)
{
    *value = 0;
    for (int shift = 0; shift < 70; shift += 7) {
        if (*at == end) return MP_ERANGE;
        uint8_t byte = (uint8_t) * (*at)++;
        *value |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) return shift == 63 && byte > 1 ? MP_EFORMAT : MP_OK;
    }
    return MP_EFORMAT;
}

static int skip_value(const char **at, const char *end, mp_wire_field *field)
{
    uint64_t len;
    int status;
    switch (field->type) {
    case MP_WIRE_VARINT:
        field->value = *at;
        status = read_varint(at, end, &len);
        field->len = (size_t)(*at - field->value);
        return status;
    case MP_WIRE_FIXED64:
        len = 8;
        break;
    case MP_WIRE_FIXED32:
        len = 4;
        break;
    case MP_WIRE_BYTES:
        status = read_varint(at, end, &len);
        if (status) return status;
        break;
    default: /* groups, which no version of the format had */
        return MP_EFORMAT;
    }
    if (len > (uint64_t)(end - *at)) return MP_ERANGE;
    field->value = *at;
    field->len = (size_t)len;
    *at += len;
    return MP_OK;
}

int mp_wire_next(const char **at, const char *end, mp_wire_field *field)
{
    const char *next = *at;
    uint64_t tag;
    int status = read_varint(&next, end, &tag);
    if (status) return status;
    if (tag >> 3 == 0 || tag >> 3 > MAX_FIELD_NUMBER) return MP_EFORMAT;

    field->number = (uint32_t)(tag >> 3);
    field->type = (int)(tag & 7);
    field->start = *at;
    status = skip_value(&next, end, field);
    if (status) return status;
    field->size = (size_t)(next - *at);
    *at = next;
    return MP_OK;
}
