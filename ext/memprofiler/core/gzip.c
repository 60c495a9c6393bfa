#include "gzip.h"

#include <limits.h>
#include <string.h>

#include "error.h"
#include "mem.h"

/* zlib's number for a 32 kB window with gzip's header and trailer. */
#define GZIP_WINDOW (MAX_WBITS + 16)

#define DEFAULT_MEM_LEVEL 8

/* Profiles come out 3 % larger than with the default level, in half the time. */
#define LEVEL Z_BEST_SPEED

/* Room made in `out` at a time. */
#define STEP ((size_t)16 * 1024)

static voidpf zlib_alloc(voidpf opaque, uInt items, uInt size)
{
    (void)opaque;
    return mp_calloc(items, size);
}

static void zlib_free(voidpf opaque, voidpf ptr)
{
    (void)opaque;
    mp_free(ptr);
}

static int from_zlib(int code)
{
    return code == Z_MEM_ERROR ? MP_ENOMEM : MP_EZLIB;
}

/* zlib counts in unsigned int. */
static uInt as_uint(size_t size)
{
    return size < UINT_MAX ? (uInt)size : UINT_MAX;
}

int mp_gzip_open(mp_gzip *gzip, mp_buffer *out)
{
    *gzip = (mp_gzip){.out = out};
    gzip->stream.zalloc = zlib_alloc;
    gzip->stream.zfree = zlib_free;
    int code = deflateInit2(&gzip->stream, LEVEL, Z_DEFLATED, GZIP_WINDOW, DEFAULT_MEM_LEVEL,
                            Z_DEFAULT_STRATEGY);
    return code == Z_OK ? MP_OK : from_zlib(code);
}

static int deflate_step(mp_gzip *gzip, int flush, int *code)
{
    mp_buffer *out = gzip->out;
    int status = mp_buffer_reserve(out, STEP);
    if (status) return status;
    gzip->stream.next_out = out->data + out->len;
    gzip->stream.avail_out = as_uint(out->cap - out->len);
    *code = deflate(&gzip->stream, flush);
    out->len = (size_t)(gzip->stream.next_out - out->data);
    return *code == Z_STREAM_ERROR ? MP_EZLIB : MP_OK;
}

int mp_gzip_write(mp_gzip *gzip, const void *bytes, size_t len)
{
    const uint8_t *at = bytes;
    while (len > 0) {
        uInt part = as_uint(len);
        gzip->stream.next_in = (z_const Bytef *)(uintptr_t)at; /* z_const may be nothing */
        gzip->stream.avail_in = part;
        while (gzip->stream.avail_in > 0) {
            int code;
            int status = deflate_step(gzip, Z_NO_FLUSH, &code);
            if (status) return status;
        }
        at += part;
        len -= part;
    }
    return MP_OK;
}

int mp_gzip_finish(mp_gzip *gzip)
{
    int code = Z_OK;
    while (code != Z_STREAM_END) {
        int status = deflate_step(gzip, Z_FINISH, &code);
        if (status) return status;
    }
    return MP_OK;
}

void mp_gzip_close(mp_gzip *gzip)
{
    deflateEnd(&gzip->stream);
}

int mp_gzip_is(const uint8_t *bytes, size_t len)
{
    return len >= 2 && bytes[0] == 0x1f && bytes[1] == 0x8b;
}

/* Unpacks up to the end of one member. */
static int inflate_member(z_stream *stream, const uint8_t *end, size_t max_bytes, mp_buffer *out,
                          const char **why)
{
    for (;;) {
        /* One byte past the limit, to see whether there is more. */
        size_t left = max_bytes - out->len;
        int status = mp_buffer_reserve(out, left < STEP ? left + 1 : STEP);
        if (status) return status;
        size_t room = out->cap - out->len;
        if (room > left) room = left + 1;

        if (stream->avail_in == 0) stream->avail_in = as_uint((size_t)(end - stream->next_in));
        stream->next_out = out->data + out->len;
        stream->avail_out = as_uint(room);
        int code = inflate(stream, Z_NO_FLUSH);
        out->len = (size_t)(stream->next_out - out->data);

        if (out->len > max_bytes) return MP_ELIMIT;
        if (code == Z_STREAM_END) return MP_OK;
        if (code == Z_MEM_ERROR) return MP_ENOMEM;
        if (code == Z_DATA_ERROR || code == Z_NEED_DICT) {
            *why = "damaged gzip data";
            return MP_EFORMAT;
        }
        if (code != Z_OK && code != Z_BUF_ERROR) return MP_EZLIB;
        if (stream->next_in == end && stream->avail_out > 0) {
            *why = "cut short";
            return MP_EFORMAT;
        }
    }
}

int mp_gunzip(const uint8_t *bytes, size_t len, size_t max_bytes, mp_buffer *out, const char **why)
{
    const uint8_t *end = bytes + len;
    z_stream stream = {.zalloc = zlib_alloc, .zfree = zlib_free};
    stream.next_in = (z_const Bytef *)(uintptr_t)bytes;
    int code = inflateInit2(&stream, GZIP_WINDOW);
    if (code != Z_OK) return from_zlib(code);

    int status;
    for (;;) {
        status = inflate_member(&stream, end, max_bytes, out, why);
        if (status || stream.next_in == end) break;
        size_t left = (size_t)(end - stream.next_in);
        if (!mp_gzip_is(stream.next_in, left)) {
            *why = left == 1 && *stream.next_in == 0x1f ? "cut short" : "garbage after the end";
            status = MP_EFORMAT;
            break;
        }
        code = inflateReset(&stream);
        if (code != Z_OK) {
            status = MP_EZLIB;
            break;
        }
    }
    inflateEnd(&stream);
    return status;
}
