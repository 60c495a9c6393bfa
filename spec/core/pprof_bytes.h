/*
 * Profile messages written by hand, by the rules of the wire format alone, for the codec's tests:
 * what the encoder must make, and what the decoder must read or refuse.
 */
#ifndef MEMPROFILER_SPEC_PPROF_BYTES_H
#define MEMPROFILER_SPEC_PPROF_BYTES_H

#include <assert.h>
#include <stdint.h>
#include <string.h>

typedef struct {
    uint8_t data[16384];
    size_t len;
} bytes;

static inline void put_raw(bytes *to, const void *from, size_t len)
{
    assert(to->len + len <= sizeof to->data);
    memcpy(to->data + to->len, from, len);
    to->len += len;
}

static inline void put_varint(bytes *to, uint64_t value)
{
    uint8_t byte;
    for (; value >= 0x80; value >>= 7) {
        byte = (uint8_t)(value | 0x80);
        put_raw(to, &byte, 1);
    }
    byte = (uint8_t)value;
    put_raw(to, &byte, 1);
}

static inline void put_int(bytes *to, uint32_t field, int64_t value)
{
    put_varint(to, field << 3);
    put_varint(to, (uint64_t)value);
}

static inline void put_bytes(bytes *to, uint32_t field, const void *from, size_t len)
{
    put_varint(to, field << 3 | 2);
    put_varint(to, len);
    put_raw(to, from, len);
}

static inline void put_str(bytes *to, uint32_t field, const char *text)
{
    put_bytes(to, field, text, strlen(text));
}

static inline void put_message(bytes *to, uint32_t field, const bytes *message)
{
    put_bytes(to, field, message->data, message->len);
}

static inline void put_packed(bytes *to, uint32_t field, const uint64_t *values, size_t count)
{
    bytes packed = {.len = 0};
    for (size_t i = 0; i < count; i++) put_varint(&packed, values[i]);
    put_message(to, field, &packed);
}

/* A message of numbers, of which zeros are left out: its fields 1, 2, 3... in order. */
static inline void put_numbers(bytes *to, uint32_t field, const int64_t *values, size_t count)
{
    bytes message = {.len = 0};
    for (uint32_t i = 0; i < count; i++) {
        if (values[i] != 0) put_int(&message, i + 1, values[i]);
    }
    put_message(to, field, &message);
}

#define PUT_NUMBERS(to, field, ...)                                                                \
    put_numbers((to), (field), (const int64_t[]){__VA_ARGS__},                                     \
                sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t))
#define PUT_PACKED(to, field, ...)                                                                 \
    put_packed((to), (field), (const uint64_t[]){__VA_ARGS__},                                     \
               sizeof((const uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t))

#endif
