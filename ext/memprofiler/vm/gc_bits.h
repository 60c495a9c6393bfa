/*
 * What the collector thinks of an object, asked at GC_END_MARK, where the mark bits are complete
 * and nothing has been swept.
 *
 * Locks: inside a collection. Failure: none; mp_gc_bits_init comes first, outside any collection,
 * since it interns names (a new name at GC_END_MARK aborts the VM).
 */
#ifndef MEMPROFILER_VM_GC_BITS_H
#define MEMPROFILER_VM_GC_BITS_H

#include "compat.h"

void mp_gc_bits_init(void);
/* The object survives this collection. */
int mp_gc_marked(VALUE obj);
/*
 * No minor collection will free it. Not the same as old: objects without write barriers never grow
 * old, and some that are old lose it; the `uncollectible` bit is right for all of them.
 */
int mp_gc_settled(VALUE obj);
/* The collection going on, or the last one, looks at old objects too. */
int mp_gc_is_major(void);
/* A collection has begun and its marking has not ended. */
int mp_gc_is_marking(void);

#endif
