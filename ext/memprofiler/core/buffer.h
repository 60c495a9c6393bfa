/*
 * A growing run of bytes.
 *
 * Memory: one block from mem.h, owned by the buffer; zeroed memory is an empty buffer.
 * Locks: the caller's. Failure: MP_ENOMEM, and the buffer stays as it was.
 */
#ifndef MEMPROFILER_CORE_BUFFER_H
#define MEMPROFILER_CORE_BUFFER_H

#include <stddef.h>
#include <stdint.h>

typedef struct {
    uint8_t *data; /* NULL while cap is 0 */
    size_t len;
    size_t cap;
} mp_buffer;

/* Makes room for `more` bytes beyond len. */
int mp_buffer_reserve(mp_buffer *buffer, size_t more);
int mp_buffer_append(mp_buffer *buffer, const void *bytes, size_t len);
/* Gives the memory back and leaves an empty buffer. */
void mp_buffer_free(mp_buffer *buffer);

#endif
