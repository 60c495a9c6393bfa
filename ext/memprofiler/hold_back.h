/*
 * Memprofiler.hold_back(*numbers) { }: while the block runs these signals do nothing, in the whole
 * process. For lib/memprofiler/run, inside of profiled programs.
 *
 * Ruby's trap can't do this unseen: it can't put back a handler that another library has installed
 * in C, what one thread saves may be what another one has just set, and IGNORE goes on to every
 * program that is started meanwhile. Here a handler that does nothing stands in, which exec resets
 * as it does with any other; the child of a fork gets back what was there; and what is ignored
 * already isn't touched, nor is what the program itself has set meanwhile.
 *
 * Memory: what stood there before, for each signal, of the whole process. Locks: GVL of the main
 * Ractor; the child of a fork has but one thread. Failure: SystemCallError, ArgumentError for a
 * number that is no signal's; then nothing is held back.
 */
#ifndef MEMPROFILER_HOLD_BACK_H
#define MEMPROFILER_HOLD_BACK_H

#include <ruby.h>

/* The same for C, for one signal: false if it can't be held back. Whoever could releases it. */
int mp_hold_signal(int number);
void mp_release_signal(int number);

void mp_init_hold_back(VALUE memprofiler);

#endif
