/*
 * Memprofiler::Codec: pprof bytes to the model, a Hash, and back. The model's keys are in codec.c;
 * codec_decode.c makes one from a decoded profile, codec_encode.c reads one.
 *
 * Locks: the GVL, which codec.c lets go of while the core works on C data alone.
 */
#ifndef MEMPROFILER_CODEC_H
#define MEMPROFILER_CODEC_H

#include <ruby.h>

#include "core/buffer.h"
#include "core/pprof.h"

void mp_init_codec(VALUE memprofiler);

/* The keys of the model, as Symbols. */
typedef struct {
    VALUE sample_types, default_sample_type, period_type, period, time_nanos, duration_nanos;
    VALUE comments, mapping, functions, locations, samples;
} mp_codec_keys;
extern mp_codec_keys mp_codec_key;

/* codec_decode.c: the model of a profile, frozen throughout. May raise (NoMemoryError). */
VALUE mp_codec_to_ruby(const mp_pprof *profile);
/* What its objects will take, in bytes, within some 20 %. */
size_t mp_codec_model_bytes(const mp_pprof *profile);

/*
 * codec_encode.c: a profile with a copy of all that is in the model, so that it is good without the
 * GVL. Zeroed memory is an empty one. Reading raises TypeError or EncodeError; the copy must be
 * freed then as well.
 */
typedef struct {
    mp_pprof profile;
    mp_buffer strings; /* of mp_pprof_str */
    void *arena;
} mp_codec_copy;
void mp_codec_from_ruby(VALUE model, mp_codec_copy *copy);
void mp_codec_copy_free(mp_codec_copy *copy);

#endif
