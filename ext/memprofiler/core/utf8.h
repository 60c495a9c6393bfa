/*
 * Repair of strings that are not UTF-8: Ruby names and file names may hold any bytes, and
 * protobuf strings may not.
 *
 * Memory: none taken. Locks: none. Failure: none.
 */
#ifndef MEMPROFILER_CORE_UTF8_H
#define MEMPROFILER_CORE_UTF8_H

#include <stdbool.h>
#include <stddef.h>

bool mp_utf8_valid(const char *bytes, size_t len);

/*
 * Writes `bytes` to `out` with U+FFFD in place of each byte that begins no character, together with
 * the stray continuation bytes after it. Returns the length written, at most 3 * len. With a NULL
 * `out` it only counts.
 */
size_t mp_utf8_repair(const char *bytes, size_t len, char *out);

#endif
