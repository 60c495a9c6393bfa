/*
 * Memprofiler.attempt { }: work of the profiler's that the program's own calls, or its end, come by. No
 * error of it gets into the program, of whatever class: a `rescue` looks that class up and asks it by
 * `===`, and in somebody else's program both may have gone.
 *
 * What is not an error of the work comes after it, or comes through: an exception that another thread
 * sends, or a signal has raised (SystemExit, too: many a handler exits), throw, the thread's end.
 * At the end of the process there is nobody left to hear of it, and the exit status is the program's:
 * Memprofiler.attempt_last { } drops all exceptions.
 *
 * Memory: a hidden Ruby object for as long as it lasts. Locks: GVL. Failure: none of its own: where
 * there's no memory left the work is done with no more than its errors kept.
 */
#ifndef MEMPROFILER_ATTEMPT_H
#define MEMPROFILER_ATTEMPT_H

#include <ruby.h>

/* The error, or nil. */
VALUE mp_attempt(VALUE (*body)(VALUE), VALUE argument);

void mp_init_attempt(VALUE memprofiler);

#endif
