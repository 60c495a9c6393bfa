#include "labels.h"

#include "../core/error.h"

static mp_labels all;
static int in_use; /* somebody has set labels; until then a sample pays nothing */
static ID id_set;

mp_labels *mp_labels_all(void)
{
    return &all;
}

/* Looks into the fiber's own table: no call, no allocation (rb_thread_local_aref, 3.1-4.1). */
uint32_t mp_labels_here(void)
{
    if (!in_use) return 0;
    VALUE set = rb_thread_local_aref(rb_thread_current(), id_set);
    if (!FIXNUM_P(set)) return 0;
    long number = FIX2LONG(set); /* the program can get at it */
    return number > 0 && number <= (long)all.sets.slabs.top ? (uint32_t)number : 0;
}

void mp_labels_set_here(uint32_t set)
{
    in_use = 1;
    rb_thread_local_aset(rb_thread_current(), id_set, set ? UINT2NUM(set) : Qnil);
}

void mp_labels_vm_init(void)
{
    id_set = rb_intern("__memprofiler_labels__");
    (void)mp_labels_init(&all); /* without memory all sets are empty */
}
