/*
 * How large an object is, and what it is called when its class does not say: by type.
 *
 * Sizes count the slot and what the object owns beside it. Types whose size would run an
 * extension's code or read structures that may be half built (T_DATA, classes, most imemos) count as
 * their slot.
 *
 * Nothing here allocates. Failure: none.
 */
#ifndef MEMPROFILER_VM_MEASURE_H
#define MEMPROFILER_VM_MEASURE_H

#include "compat.h"

/* In any hook, the NEWOBJ hook too. */
size_t mp_slot_size(VALUE obj);
/* On a living, complete object: under the GVL outside hooks, or at GC_END_MARK. 0: not known. */
size_t mp_measure(VALUE obj);
/* At FREEOBJ, where what the object refers to may be gone already. 0: not known. */
size_t mp_measure_dying(VALUE obj);
/* Its size can't change any more. */
int mp_is_frozen(VALUE obj);

/* The class word, or 0 for objects that have none (yet): hidden ones and internal ones. */
VALUE mp_class_of(VALUE obj);
/* It has a class word that is 0, which may be filled in later. */
int mp_class_may_come(VALUE obj);

/* Kinds stand for the class where there is none: 0..MP_KINDS-1, the VM's types, then its imemos. */
#define MP_KINDS 48
#define MP_KIND_IMEMO 32
int mp_kind_of(VALUE obj);
const char *mp_kind_name(int kind);

#endif
