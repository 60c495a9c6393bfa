/*
 * The label set that the program is working under: per thread and fiber, as a fiber-local variable,
 * so that a Fiber scheduler or an Enumerator can't mix them up.
 *
 * Locks: the GVL of the main Ractor; mp_labels_here also in a hook, in any Ractor.
 * Failure: none; without memory there are no labels.
 */
#ifndef MEMPROFILER_VM_LABELS_H
#define MEMPROFILER_VM_LABELS_H

#include "../core/label_sets.h"
#include "compat.h"

void mp_labels_vm_init(void);
/* The process' sets. */
mp_labels *mp_labels_all(void);

/* Its number in mp_labels_all. Legal in every hook. */
uint32_t mp_labels_here(void);
/* May raise: FrozenError, if the thread is frozen. */
void mp_labels_set_here(uint32_t set);

#endif
