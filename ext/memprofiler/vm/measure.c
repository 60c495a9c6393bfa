#include "measure.h"

#define IMEMO_SHIFT FL_USHIFT
#define IMEMO_MASK 0x0f

static const char *const imemo_names[16] = {MP_IMEMO_NAMES};

size_t mp_slot_size(VALUE obj)
{
#ifdef HAVE_RB_GC_OBJ_SLOT_SIZE
    return rb_gc_obj_slot_size(obj);
#else
    (void)obj;
    return 5 * sizeof(VALUE); /* sizeof(RVALUE), the only slot size of Ruby 3.1 */
#endif
}

size_t mp_measure(VALUE obj)
{
    switch (RB_BUILTIN_TYPE(obj)) {
    case T_STRING:
    case T_ARRAY:
    case T_HASH:
    case T_OBJECT:
    case T_STRUCT:
    case T_MATCH:
    case T_BIGNUM:
    case T_FILE:
    case T_REGEXP:
    case T_SYMBOL:
        return rb_obj_memsize_of(obj);
    case T_IMEMO:
        /* Where instance variables live from 4.0 on. */
        return mp_kind_of(obj) == MP_KIND_FIELDS ? rb_obj_memsize_of(obj) : 0;
    default:
        return 0;
    }
}

size_t mp_measure_dying(VALUE obj)
{
#if MP_RUBY < 400
    /* Up to 3.4 the size takes in instance variables, which are in a table of the VM's. */
    if (RB_FL_ANY_RAW(obj, FL_EXIVAR)) return 0;
#endif
    switch (RB_BUILTIN_TYPE(obj)) {
    case T_STRING:
    case T_ARRAY:
    case T_BIGNUM:
        return rb_obj_memsize_of(obj);
    default:
        return 0;
    }
}

int mp_is_frozen(VALUE obj)
{
    return RB_OBJ_FROZEN_RAW(obj) != 0;
}

/* Whether the second word of the object is a class: it is not, in the VM's own objects. */
static int has_class_word(VALUE obj)
{
    switch (RB_BUILTIN_TYPE(obj)) {
    case T_NONE:
    case T_IMEMO:
    case T_NODE:
    case T_ICLASS:
    case T_MOVED:
    case T_ZOMBIE:
        return 0;
    default:
        return 1;
    }
}

VALUE mp_class_of(VALUE obj)
{
    return has_class_word(obj) ? RBASIC(obj)->klass : 0;
}

int mp_class_may_come(VALUE obj)
{
    return has_class_word(obj) && RBASIC(obj)->klass == 0;
}

int mp_kind_of(VALUE obj)
{
    int type = (int)RB_BUILTIN_TYPE(obj);
    if (type != T_IMEMO) return type;
    return MP_KIND_IMEMO + (int)((RBASIC(obj)->flags >> IMEMO_SHIFT) & IMEMO_MASK);
}

const char *mp_kind_name(int kind)
{
    if (kind >= MP_KIND_IMEMO) return imemo_names[kind - MP_KIND_IMEMO];
    switch (kind) {
    case T_NONE:
        return "none";
    case T_OBJECT:
        return "Object";
    case T_CLASS:
        return "Class";
    case T_MODULE:
        return "Module";
    case T_FLOAT:
        return "Float";
    case T_STRING:
        return "String";
    case T_REGEXP:
        return "Regexp";
    case T_ARRAY:
        return "Array";
    case T_HASH:
        return "Hash";
    case T_STRUCT:
        return "Struct";
    case T_BIGNUM:
        return "Integer";
    case T_FILE:
        return "File";
    case T_DATA:
        return "data";
    case T_MATCH:
        return "MatchData";
    case T_COMPLEX:
        return "Complex";
    case T_RATIONAL:
        return "Rational";
    case T_SYMBOL:
        return "Symbol";
    case T_NODE:
        return "node";
    case T_ICLASS:
        return "iclass";
    default:
        return "type";
    }
}
