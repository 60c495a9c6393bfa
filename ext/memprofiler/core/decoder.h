/*
 * What the parts of the decoder share: the walk over the fields of the file, the parsing of one
 * message, and the memory that the result is made of.
 *
 * Memory: a decoder belongs to one call of mp_pprof_decode. Failure: a code, with the reason in
 * `why` unless it is MP_ENOMEM or MP_EZLIB.
 */
#ifndef MEMPROFILER_CORE_DECODER_H
#define MEMPROFILER_CORE_DECODER_H

#include "arena.h"
#include "idmap.h"
#include "platform.h"
#include "pprof.h"
#include "wire.h"

/* Field numbers of Profile; see proto/profile.proto. */
enum {
    MP_FIELD_SAMPLE_TYPE = 1,
    MP_FIELD_SAMPLE = 2,
    MP_FIELD_MAPPING = 3,
    MP_FIELD_LOCATION = 4,
    MP_FIELD_FUNCTION = 5,
    MP_FIELD_STRING_TABLE = 6,
    MP_FIELD_PERIOD_TYPE = 11,
    MP_FIELD_COMMENT = 13,
    MP_FIELD_LAST = 15,
};

typedef struct {
    const mp_buffer *bytes;
    mp_pprof *profile;
    uint32_t counts[MP_FIELD_LAST + 1]; /* fields of each number in the file */
    size_t head_bytes;
    uint32_t n_lines, n_nameless; /* locations and functions that will be made of the file's */
    /* What `profile` points to, being filled in; it counts how much of it is there. */
    mp_pprof_str *strings;
    mp_pprof_function *functions;
    mp_pprof_location *locations;
    mp_pprof_sample *samples;
    uint32_t *lines; /* the first location made of each location in the file, and where they end */
    mp_idmap function_ids, location_ids;
    upb_Arena *arena; /* of the result */
    size_t budget;    /* bytes it may still take */
    bool capped;      /* the file is so large that it began with MP_PPROF_MAX_ARRAYS */
    mp_scratch scratch;
    bool gzipped;
    char *why;
    size_t why_len;
} mp_decoder;

typedef int mp_field_visitor(mp_decoder *decoder, const mp_wire_field *field);

/* Writes the reason and returns the code. */
MP_PRINTF(3, 4) int mp_decoder_fail(mp_decoder *decoder, int code, const char *format, ...);

/* Memory of the result, within what the size of the file allows; never zeroed. */
int mp_decoder_take(mp_decoder *decoder, size_t count, size_t size, void **taken);

/* First of all: is the whole file made of a profile's fields, how many of each, none too large? */
int mp_decoder_survey(mp_decoder *decoder);

/* Only after the survey. */
int mp_decoder_each_field(mp_decoder *decoder, uint32_t number, mp_field_visitor *visit);

/* Adds what is in the bytes to the message, whose strings then point into them. */
int mp_decoder_merge(mp_decoder *decoder, const char *bytes, size_t len, upb_Message *message,
                     const upb_MiniTable *table, upb_Arena *arena);

/* The message in the field, good until the next call. */
int mp_decoder_parse(mp_decoder *decoder, const mp_wire_field *field, const upb_MiniTable *table,
                     upb_Message **message);

/* MP_EFORMAT unless the file has a string of this index. */
int mp_decoder_string(mp_decoder *decoder, int64_t index, uint32_t *out);

/*
 * decode_stacks.c: first how much the locations will take (the string table must have room for the
 * names of nameless functions), then all functions, all locations and all samples of the file.
 */
int mp_decoder_measure_locations(mp_decoder *decoder);
int mp_decoder_read_functions(mp_decoder *decoder);
int mp_decoder_read_locations(mp_decoder *decoder);
int mp_decoder_read_samples(mp_decoder *decoder);

#endif
