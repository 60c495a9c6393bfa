#include "gc_bits.h"

static ID id_marked, id_uncollectible;
static VALUE sym_major_by, sym_state, sym_marking;

#if defined(HAVE_RB_GC_OBJECT_METADATA)

static int has(VALUE obj, ID name)
{
    for (struct rb_gc_object_metadata_entry *e = rb_gc_object_metadata(obj); e->name; e++) {
        if (e->name == name) return RTEST(e->val);
    }
    return 0;
}

#elif defined(HAVE_RB_OBJ_GC_FLAGS)

static int has(VALUE obj, ID name)
{
    ID flags[16];
    size_t count = rb_obj_gc_flags(obj, flags, 16);
    for (size_t i = 0; i < count; i++) {
        if (flags[i] == name) return 1;
    }
    return 0;
}

#else

/* Without the flags nothing is known to be settled, and every sample is looked at every time. */
static int has(VALUE obj, ID name)
{
    (void)obj;
    (void)name;
    return 0;
}

#endif

int mp_gc_marked(VALUE obj)
{
#ifdef HAVE_RB_OBJSPACE_MARKED_OBJECT_P
    return rb_objspace_marked_object_p(obj);
#else
    return has(obj, id_marked);
#endif
}

int mp_gc_settled(VALUE obj)
{
    return has(obj, id_uncollectible);
}

int mp_gc_is_major(void)
{
    return !NIL_P(rb_gc_latest_gc_info(sym_major_by));
}

int mp_gc_is_marking(void)
{
    return rb_gc_latest_gc_info(sym_state) == sym_marking;
}

void mp_gc_bits_init(void)
{
    id_marked = rb_intern("marked");
    id_uncollectible = rb_intern("uncollectible");
    sym_major_by = ID2SYM(rb_intern("major_by"));
    sym_state = ID2SYM(rb_intern("state"));
    sym_marking = ID2SYM(rb_intern("marking"));
    /* The first call of each interns the names it will answer with. */
    has(rb_cObject, id_marked);
    mp_gc_is_major();
    mp_gc_is_marking();
}
