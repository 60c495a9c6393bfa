#include "ractors.h"

#include <ruby/ractor.h>
#include <stdatomic.h>

/* Set in the main Ractor only. */
static rb_ractor_local_key_t main_key;
static const struct rb_ractor_local_storage_type main_key_type = {NULL, NULL};

static VALUE ractor_count; /* a Method */

/* Any Ractor may begin another one. */
static atomic_uint coming;
static _Atomic uint64_t begun;

int mp_in_main_ractor(void)
{
    return rb_ractor_local_storage_ptr(main_key) != NULL;
}

int mp_one_ractor(void)
{
    return rb_method_call(0, NULL, ractor_count) == INT2FIX(1);
}

void mp_ractor_begins(void)
{
    atomic_fetch_add(&coming, 1);
    atomic_fetch_add(&begun, 1);
}

void mp_ractor_began(void)
{
    unsigned count = atomic_load(&coming);
    while (count > 0 && !atomic_compare_exchange_weak(&coming, &count, count - 1)) continue;
}

unsigned mp_ractors_coming(void)
{
    return atomic_load(&coming);
}

uint64_t mp_ractors_begun(void)
{
    return atomic_load(&begun);
}

void mp_ractors_forked(void)
{
    atomic_store(&coming, 0);
}

void mp_ractors_init(void)
{
    main_key = rb_ractor_local_storage_ptr_newkey(&main_key_type);
    rb_ractor_local_storage_ptr_set(main_key, &main_key);
    VALUE ractor = rb_const_get(rb_cObject, rb_intern("Ractor"));
    ractor_count = rb_obj_method(ractor, ID2SYM(rb_intern("count")));
    rb_gc_register_mark_object(ractor_count);
}
