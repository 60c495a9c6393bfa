/*
 * gzip in pieces, and gunzip with a limit. The bytes made depend on nothing but the input: no time
 * and no name go into the header.
 *
 * Memory: zlib's, from mem.h, held from open to close; `out` is the caller's. Locks: the caller's.
 * Failure: MP_ENOMEM, or MP_EZLIB when zlib refuses for any other reason.
 */
#ifndef MEMPROFILER_CORE_GZIP_H
#define MEMPROFILER_CORE_GZIP_H

#include <stddef.h>
#include <stdint.h>
#include <zlib.h>

#include "buffer.h"

/* zlib keeps a pointer to the stream, so a mp_gzip must not be moved or copied. */
typedef struct {
    z_stream stream;
    mp_buffer *out;
} mp_gzip;

/* After a failed open nothing is held. */
int mp_gzip_open(mp_gzip *gzip, mp_buffer *out);
int mp_gzip_write(mp_gzip *gzip, const void *bytes, size_t len);
/* Writes what is pending and the trailer. */
int mp_gzip_finish(mp_gzip *gzip);
/* Gives zlib's memory back; needed after each successful open, whatever happened since. */
void mp_gzip_close(mp_gzip *gzip);

/* Whether the bytes begin as a gzip file does. */
int mp_gzip_is(const uint8_t *bytes, size_t len);

/*
 * Appends the unpacked bytes to `out`, at most max_bytes of them. Several members one after the
 * other are one file, as for gzip(1). MP_ELIMIT: there is more; MP_EFORMAT: `why` says what is
 * wrong, in words that don't need freeing.
 */
int mp_gunzip(const uint8_t *bytes, size_t len, size_t max_bytes, mp_buffer *out, const char **why);

#endif
