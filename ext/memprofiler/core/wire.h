/*
 * The outermost layer of a protobuf message, field by field, so that a large message need not be
 * parsed whole. What is in a field is for the generated code.
 *
 * Memory: none taken; a field points into the input. Locks: none.
 */
#ifndef MEMPROFILER_CORE_WIRE_H
#define MEMPROFILER_CORE_WIRE_H

#include <stddef.h>
#include <stdint.h>

enum { MP_WIRE_VARINT = 0, MP_WIRE_FIXED64 = 1, MP_WIRE_BYTES = 2, MP_WIRE_FIXED32 = 5 };

typedef struct {
    uint32_t number;
    int type;          /* one of MP_WIRE_* */
    const char *start; /* the field with its tag... */
    size_t size;
    const char *value; /* ...and what is in it */
    size_t len;
} mp_wire_field;

/*
 * Reads the field at *at, which must be before `end`, and moves *at past it. MP_ERANGE: the input
 * ends within the field; MP_EFORMAT: no field that this format could have. *at stays then.
 */
int mp_wire_next(const char **at, const char *end, mp_wire_field *field);

#endif
