/*
 * Where the program's own calls come by: Process._fork and Process.daemon, and, where a Ractor must not
 * start under hooks, Ractor.new. Written in C: such a method's frame has its caller's file and line, so
 * neither what a Ractor is named by nor where an error begins is in the profiler's files; and nothing
 * here can be replaced, nor raises but what the method itself raised.
 *
 * Memory: the callbacks, of the whole process. Locks: GVL of the main Ractor. Failure: none.
 */
#ifndef MEMPROFILER_FORKS_H
#define MEMPROFILER_FORKS_H

#include <ruby.h>

void mp_init_forks(VALUE memprofiler);

#endif
