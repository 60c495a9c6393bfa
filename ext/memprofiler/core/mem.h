/*
 * Memory of core/: malloc(3) and nothing else, since xmalloc may run the garbage collector inside
 * a hook (Ruby up to 3.3). Every call can be made to fail on purpose, for the tests.
 *
 * Locks: none needed; the switch is for tests, which have one thread.
 * Failure: NULL, as malloc(3).
 */
#ifndef MEMPROFILER_CORE_MEM_H
#define MEMPROFILER_CORE_MEM_H

#include <stddef.h>

void *mp_malloc(size_t size);
/* Zeroed; a product that does not fit in size_t gives NULL. */
void *mp_calloc(size_t count, size_t size);
/* As realloc(3): the old block stays valid when NULL is returned. */
void *mp_realloc(void *ptr, size_t size);
void mp_free(void *ptr);

/* About what malloc(3) takes for a small block: rounded up, with its own header. */
static inline size_t mp_mem_size(size_t size)
{
    return size <= 24 ? 32 : (size + 23) / 16 * 16;
}

/* Tests: let `n` more allocations succeed, then fail all; -1 (the default) never fails. */
void mp_mem_fail_after(long n);

#endif
