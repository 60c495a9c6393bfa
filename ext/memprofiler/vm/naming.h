/*
 * What frames, classes and threads are called. Run outside hooks and collections, since Ruby's own
 * functions for this allocate. No method of the program's is called; naming threads in a
 * flush may let others in, and a TracePoint on C calls run: up to 8 objects of theirs count as the
 * profiler's.
 *
 * Locks: GVL. Failure: a name that can't be had becomes "(unnamed)".
 */
#ifndef MEMPROFILER_VM_NAMING_H
#define MEMPROFILER_VM_NAMING_H

#include "compat.h"

void mp_naming_init(void);
/* `FOLDER/...` and `FOLDER.rb` are the profiler's own files. */
void mp_naming_own_folder(VALUE folder);

#endif
