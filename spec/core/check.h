/*
 * Checks for the C tests: each prints what went wrong and goes on. A test file has one main, which
 * ends with `return check_report();`.
 */
#ifndef MEMPROFILER_SPEC_CHECK_H
#define MEMPROFILER_SPEC_CHECK_H

#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

static unsigned long checks_passed, checks_failed;

/* The condition holds. */
#define CHECK(condition) check_true((condition) ? true : false, #condition, __FILE__, __LINE__)
/* Two signed, or two unsigned, numbers are equal. */
#define CHECK_INT(actual, expected)                                                                \
    check_int((int64_t)(actual), (int64_t)(expected), #actual, __FILE__, __LINE__)
#define CHECK_UINT(actual, expected)                                                               \
    check_uint((uint64_t)(actual), (uint64_t)(expected), #actual, __FILE__, __LINE__)
/* Two NUL-terminated strings are equal; neither may be NULL. */
#define CHECK_STR(actual, expected) check_str((actual), (expected), #actual, __FILE__, __LINE__)
/* Two runs of bytes are equal. */
#define CHECK_BYTES(actual, actual_len, expected, expected_len)                                    \
    check_bytes((actual), (actual_len), (expected), (expected_len), #actual, __FILE__, __LINE__)

static inline bool check_true(bool holds, const char *what, const char *file, int line)
{
    if (holds) {
        checks_passed++;
    } else {
        checks_failed++;
        fprintf(stderr, "%s:%d: failed: %s\n", file, line, what);
    }
    return holds;
}

static inline bool check_int(int64_t actual, int64_t expected, const char *what, const char *file,
                             int line)
{
    if (check_true(actual == expected, what, file, line)) return true;
    fprintf(stderr, "  is %" PRId64 ", not %" PRId64 "\n", actual, expected);
    return false;
}

static inline bool check_uint(uint64_t actual, uint64_t expected, const char *what,
                              const char *file, int line)
{
    if (check_true(actual == expected, what, file, line)) return true;
    fprintf(stderr, "  is %" PRIu64 ", not %" PRIu64 "\n", actual, expected);
    return false;
}

static inline bool check_str(const char *actual, const char *expected, const char *what,
                             const char *file, int line)
{
    if (check_true(strcmp(actual, expected) == 0, what, file, line)) return true;
    fprintf(stderr, "  is \"%s\", not \"%s\"\n", actual, expected);
    return false;
}

static inline bool check_bytes(const void *actual, size_t actual_len, const void *expected,
                               size_t expected_len, const char *what, const char *file, int line)
{
    bool same = actual_len == expected_len &&
                (actual_len == 0 || memcmp(actual, expected, actual_len) == 0);
    if (check_true(same, what, file, line)) return true;
    const unsigned char *at = actual;
    fprintf(stderr, "  is %zu bytes, not %zu:", actual_len, expected_len);
    for (size_t i = 0; i < actual_len && i < 64; i++) fprintf(stderr, " %02x", at[i]);
    fprintf(stderr, "%s\n", actual_len > 64 ? " ..." : "");
    return false;
}

static inline int check_report(void)
{
    printf("%lu passed, %lu failed\n", checks_passed, checks_failed);
    return checks_failed == 0 ? 0 : 1;
}

#endif
