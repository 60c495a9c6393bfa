/*
 * To be preloaded: lets the calls of malloc(3) that come from one range of code fail, be it the n-th
 * or all from the n-th on. glibc only, whose own names for the functions are used.
 */
#include <errno.h>
#include <stddef.h>
#include <stdint.h>

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *ptr, size_t size);
void refuse_from(uintptr_t from, uintptr_t to);
void refuse_after(long n, int all);
long refuse_count(void);

static uintptr_t begin, end;
static long left = -1, count;
static int all_of_them;

/* The range of code, an address in it and one behind it. */
void refuse_from(uintptr_t from, uintptr_t to)
{
    begin = from;
    end = to;
}

/* Let n more succeed; -1: all. Counting begins anew. */
void refuse_after(long n, int all)
{
    left = n;
    all_of_them = all;
    count = 0;
}

/* Calls since then. */
long refuse_count(void)
{
    return count;
}

static int refused(void *caller)
{
    uintptr_t at = (uintptr_t)caller;
    if (at < begin || at >= end) return 0;
    count++;
    if (left < 0 || left-- > 0) return 0;
    left = all_of_them ? 0 : -1;
    errno = ENOMEM;
    return 1;
}

void *malloc(size_t size)
{
    return refused(__builtin_return_address(0)) ? NULL : __libc_malloc(size);
}

void *calloc(size_t n, size_t size)
{
    return refused(__builtin_return_address(0)) ? NULL : __libc_calloc(n, size);
}

void *realloc(void *ptr, size_t size)
{
    return refused(__builtin_return_address(0)) ? NULL : __libc_realloc(ptr, size);
}
