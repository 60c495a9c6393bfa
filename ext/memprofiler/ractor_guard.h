/*
 * Memprofiler::RactorGuard, which stands before Ractor.new where a Ractor must not start under hooks
 * (lib/memprofiler/vm_faults.rb). In C for the reason that forks.h gives: a Ractor is named by the
 * file and line of who called Ractor.new.
 *
 * Memory: none. Locks: none; Ractors call it, too. Failure: what Ractor.new itself raises.
 */
#ifndef MEMPROFILER_RACTOR_GUARD_H
#define MEMPROFILER_RACTOR_GUARD_H

#include <ruby.h>

void mp_init_ractor_guard(VALUE memprofiler);

#endif
