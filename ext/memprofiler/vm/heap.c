#include "heap.h"

#include "measure.h"

#ifdef HAVE_RB_OBJSPACE_EACH_OBJECTS

static int measure_slots(void *start, void *end, size_t stride, void *sum)
{
    uint64_t *bytes = sum;
    for (char *slot = start; slot != (char *)end; slot += stride) {
        VALUE obj = (VALUE)slot;
        switch (RB_BUILTIN_TYPE(obj)) {
        case T_NONE:
        case T_MOVED:
        case T_ZOMBIE:
            break;
        default: {
            size_t size = mp_measure(obj);
            *bytes += size ? size : mp_slot_size(obj);
        }
        }
    }
    return 0;
}

uint64_t mp_heap_bytes(void)
{
    uint64_t bytes = 0;
    rb_objspace_each_objects(measure_slots, &bytes);
    return bytes;
}

#else

uint64_t mp_heap_bytes(void)
{
    return 0;
}

#endif
