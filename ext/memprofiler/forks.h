/*
 * Memprofiler::ForkHook, which the program's own Process._fork and Process.daemon come by. In C: such
 * a method's frame has its caller's file and line, so no error begins in the profiler's files; and
 * nothing here can be replaced, nor raises but what the method itself raised.
 *
 * Memory: the callbacks, of the whole process. Locks: GVL of the main Ractor. Failure: none.
 */
#ifndef MEMPROFILER_FORKS_H
#define MEMPROFILER_FORKS_H

#include <ruby.h>

void mp_init_forks(VALUE memprofiler);

#endif
