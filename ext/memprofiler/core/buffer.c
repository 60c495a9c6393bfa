#include "buffer.h"

#include <string.h>

#include "error.h"
#include "mem.h"

#define FIRST_CAP 4096

int mp_buffer_reserve(mp_buffer *buffer, size_t more)
{
    if (more <= buffer->cap - buffer->len) return MP_OK;
    if (more > SIZE_MAX - buffer->len) return MP_ENOMEM;

    size_t need = buffer->len + more;
    size_t cap = buffer->cap > SIZE_MAX / 2 ? need : buffer->cap * 2;
    if (cap < need) cap = need;
    if (cap < FIRST_CAP) cap = FIRST_CAP;
    uint8_t *data = mp_realloc(buffer->data, cap);
    if (!data) return MP_ENOMEM;
    buffer->data = data;
    buffer->cap = cap;
    return MP_OK;
}

int mp_buffer_append(mp_buffer *buffer, const void *bytes, size_t len)
{
    if (len == 0) return MP_OK;
    int status = mp_buffer_reserve(buffer, len);
    if (status) return status;
    memcpy(buffer->data + buffer->len, bytes, len);
    buffer->len += len;
    return MP_OK;
}

void mp_buffer_free(mp_buffer *buffer)
{
    mp_free(buffer->data);
    *buffer = (mp_buffer){0};
}
