#include "mem.h"

#include <stdlib.h>

static long allocations_left = -1;

static int refused(void)
{
    if (allocations_left < 0) return 0;
    if (allocations_left == 0) return 1;
    allocations_left--;
    return 0;
}

void *mp_malloc(size_t size)
{
    return refused() ? NULL : malloc(size);
}

void *mp_calloc(size_t count, size_t size)
{
    return refused() ? NULL : calloc(count, size);
}

void *mp_realloc(void *ptr, size_t size)
{
    return refused() ? NULL : realloc(ptr, size);
}

void mp_free(void *ptr)
{
    free(ptr);
}

void mp_mem_fail_after(long n)
{
    allocations_left = n;
}
