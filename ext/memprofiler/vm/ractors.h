/*
 * Ractors: which one this is, how many there are, and whether one is about to start.
 *
 * Ruby 3.1.0-3.1.3 and 3.2.0-3.2.2 crash when one starts under any hook (bug 18464, see
 * lib/memprofiler/vm_faults.rb): there Ractor.new tells before and after, and whoever puts hooks on
 * has looked, without letting interrupts in since, that none came meanwhile.
 *
 * Locks: none. Failure: none, but mp_one_ractor may leave by longjmp.
 */
#ifndef MEMPROFILER_VM_RACTORS_H
#define MEMPROFILER_VM_RACTORS_H

#include <stdint.h>

#include "compat.h"

/* Once, at load, in the main one. */
void mp_ractors_init(void);

/*
 * From 4.0 a hook or finalizer, from 3.3 a job, may run in any Ractor. Legal in every hook. False in a
 * child that another Ractor forked: Ruby takes that one for the main one, but crashes under hooks (3.1).
 */
int mp_in_main_ractor(void);
/*
 * There is none but the main one, whatever the program makes of `Ractor.count`. Lets interrupts in,
 * even after it has counted: hooks.h has one that is sure.
 */
int mp_one_ractor(void);

void mp_ractor_begins(void);
/* It is there, or will never be. */
void mp_ractor_began(void);
/* How many are between the two. */
unsigned mp_ractors_coming(void);
/* How often one began. */
uint64_t mp_ractors_begun(void);
/* In a forked child: those that other threads began will never be. */
void mp_ractors_forked(void);

#endif
