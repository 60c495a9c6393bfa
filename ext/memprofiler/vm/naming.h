/*
 * What frames, classes and threads are called. Run outside hooks and collections, since Ruby's own
 * functions for this allocate; nothing here runs Ruby code or lets another thread in.
 *
 * Locks: GVL. Failure: a name that can't be had becomes "(unnamed)".
 */
#ifndef MEMPROFILER_VM_NAMING_H
#define MEMPROFILER_VM_NAMING_H

#include "compat.h"

void mp_naming_init(void);
/* Frames of Ruby files under this folder (with a slash at its end) are the profiler's own. */
void mp_naming_own_folder(VALUE folder);

#endif
