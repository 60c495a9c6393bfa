/*
 * A program's lines in the list that a report of `memprofiler run` goes by (lib/memprofiler/run/list.rb
 * says what is in there). No Ruby code runs for one, so no method that the program has replaced, no
 * trap handler and no tracer comes by: most are written as the program forks.
 *
 * Memory: the list's path and the program's name, of the whole process. Locks: GVL of the main Ractor.
 * Failure: false; the run may have ended, or this user may not write there any more.
 */
#ifndef MEMPROFILER_RUN_LIST_H
#define MEMPROFILER_RUN_LIST_H

#include <ruby.h>
#include <stddef.h>

/* A line, if there is a list that hears of forks. `text` may be NULL. */
void mp_run_list_fork(const char *what, const char *text);

void mp_init_run_list(VALUE memprofiler);

#endif
