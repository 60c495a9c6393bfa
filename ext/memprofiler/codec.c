#include "codec.h"

#include <stdio.h>

#include "core/error.h"
#include "core/fit.h"
#include "errors.h"
#include "vm/turns.h"

#define DEFAULT_MAX_BYTES ((size_t)512 * 1024 * 1024)
#define DEFAULT_MAX_MODEL_BYTES ((size_t)512 * 1024 * 1024)

/* Below this letting go of the GVL costs more than the work. */
#define SMALL_BYTES ((size_t)16 * 1024)

mp_codec_keys mp_codec_key;
static ID limit_keys[2];

/* --- decode ----------------------------------------------------------------------------------- */

typedef struct {
    const uint8_t *bytes;
    size_t len, max_bytes, max_model_bytes;
    mp_pprof_decoded decoded;
    int status;
    char why[MP_PPROF_WHY_LEN];
} decoding;

static void *decode_bytes(void *argument)
{
    decoding *job = argument;
    job->status = mp_pprof_decode(job->bytes, job->len, job->max_bytes, &job->decoded, job->why,
                                  sizeof job->why);
    if (job->status) return NULL;
    if (mp_codec_model_bytes(&job->decoded.profile) > job->max_model_bytes) {
        job->status = MP_ELIMIT;
        snprintf(job->why, sizeof job->why,
                 "its %u samples, %u locations and %u strings would take more than %zu bytes",
                 job->decoded.profile.n_samples, job->decoded.profile.n_locations,
                 job->decoded.profile.n_strings, job->max_model_bytes);
    }
    return NULL;
}

static VALUE decode_body(VALUE argument)
{
    decoding *job = (decoding *)argument;
    if (job->len <= SMALL_BYTES) {
        decode_bytes(job);
    } else {
        mp_turns_without_gvl(decode_bytes, job);
    }
    if (job->status == MP_ENOMEM) rb_raise(rb_eNoMemError, "no memory to decode the profile");
    if (job->status) rb_raise(mp_eDecode, "%s", job->why);
    return mp_codec_to_ruby(&job->decoded.profile);
}

static VALUE decode_ends(VALUE argument)
{
    mp_pprof_decoded_free(&((decoding *)argument)->decoded);
    return Qnil;
}

static size_t limit(const char *name, VALUE given, size_t most, size_t otherwise)
{
    if (given == Qundef) return otherwise;
    if (!RB_INTEGER_TYPE_P(given)) {
        rb_raise(rb_eTypeError, "%s must be an Integer within 1..%zu, not %" PRIsVALUE, name, most,
                 rb_obj_class(given));
    }
    if (!FIXNUM_P(given) || FIX2LONG(given) < 1 || (unsigned long)FIX2LONG(given) > most) {
        rb_raise(rb_eArgError, "%s must be within 1..%zu, not %" PRIsVALUE, name, most, given);
    }
    return (size_t)FIX2LONG(given);
}

/*
 * Reads a pprof profile, gzipped or not.
 *
 * The model it gives, frozen throughout:
 *
 *   sample_types: [["alloc_objects", "count"], ...]
 *   default_sample_type: "inuse_space" or nil
 *   period_type: ["objects", "count"] or nil
 *   period:, time_nanos:, duration_nanos: Integers, 0 where the file has none
 *   comments: ["key: value", ...]
 *   mapping: [file name of the first mapping], or empty
 *   functions: [[name, system_name, file, start_line], ...]
 *   locations: [[index of the function, line, address], ...]
 *   samples: [[[index of a location, ...], [value, ...], labels], ...]   leaf first
 *
 * labels is nil or a Hash from key to String or [Integer, unit]; of several values for a key the
 * first is kept. A sample may have a fourth element, [deviation, ...], one for each value: see
 * proto/profile.proto. Samples may share their Arrays and labels.
 *
 * @overload decode(bytes, max_bytes: 512 MiB, max_model_bytes: 512 MiB)
 *   @param bytes [String]
 *   @param max_bytes [Integer] how much it may be uncompressed: 1..2**31-1 bytes
 *   @param max_model_bytes [Integer] how much the model may take, by an estimate: 1..2**62-1 bytes
 *   @return [Hash]
 *   @raise [DecodeError] saying why the bytes are no profile
 *   @raise [ArgumentError, TypeError] naming what is allowed
 *   @raise [NoMemoryError]
 * @api private
 */
static VALUE decode(int argc, VALUE *argv, VALUE self)
{
    (void)self;
    VALUE bytes, keywords;
    rb_scan_args(argc, argv, "1:", &bytes, &keywords);
    if (!RB_TYPE_P(bytes, T_STRING)) {
        rb_raise(rb_eTypeError, "bytes must be a String, not %" PRIsVALUE, rb_obj_class(bytes));
    }
    VALUE given[2];
    rb_get_kwargs(keywords, limit_keys, 0, 2, given);
    size_t max_bytes = limit("max_bytes", given[0], MP_PPROF_MAX_BYTES, DEFAULT_MAX_BYTES);
    size_t max_model_bytes =
        limit("max_model_bytes", given[1], FIXNUM_MAX, DEFAULT_MAX_MODEL_BYTES);
    bytes = rb_str_new_frozen(bytes); /* other threads may change theirs meanwhile */
    decoding job = {
        .bytes = (const uint8_t *)RSTRING_PTR(bytes),
        .len = (size_t)RSTRING_LEN(bytes),
        .max_bytes = max_bytes,
        .max_model_bytes = max_model_bytes,
    };
    VALUE model = rb_ensure(decode_body, (VALUE)&job, decode_ends, (VALUE)&job);
    RB_GC_GUARD(bytes);
    return model;
}

/* --- encode ----------------------------------------------------------------------------------- */

typedef struct {
    VALUE model;
    mp_codec_copy copy;
    mp_buffer out;
    int status;
} encoding;

static void *encode_copy(void *argument)
{
    encoding *job = argument;
    job->status = mp_pprof_encode(&job->copy.profile, &job->out);
    return NULL;
}

static VALUE encode_body(VALUE argument)
{
    encoding *job = (encoding *)argument;
    mp_codec_from_ruby(job->model, &job->copy);
    mp_turns_without_gvl(encode_copy, job);
    if (job->status == MP_ENOMEM) rb_raise(rb_eNoMemError, "no memory to encode the profile");
    if (job->status) rb_raise(mp_eEncode, "zlib failed, or a string is too long");
    if (job->out.len > LONG_MAX) rb_raise(mp_eEncode, "the profile is too large");
    return rb_obj_freeze(rb_str_new((const char *)job->out.data, (long)job->out.len));
}

static VALUE encode_ends(VALUE argument)
{
    encoding *job = (encoding *)argument;
    mp_codec_copy_free(&job->copy);
    mp_buffer_free(&job->out);
    return Qnil;
}

/*
 * Writes a model as a gzipped pprof profile; the same model gives the same bytes. Strings in other
 * encodings are converted to UTF-8 and repaired, a label that is an empty String is left out, and
 * of several mappings the first is written.
 *
 * @param model [Hash] what decode gives; comments, mapping, default_sample_type, period_type and
 *   the three Integers may be left out or nil
 * @return [String] binary, frozen
 * @raise [TypeError, EncodeError] naming what in the model is wrong
 * @api private
 */
static VALUE encode(VALUE self, VALUE model)
{
    (void)self;
    encoding job = {.model = model};
    VALUE bytes = rb_ensure(encode_body, (VALUE)&job, encode_ends, (VALUE)&job);
    RB_GC_GUARD(model);
    return bytes;
}

/* --- fit -------------------------------------------------------------------------------------- */

typedef struct {
    decoding of; /* the profile as it is */
    mp_fit_limits limits;
    mp_fitted fitted;
    uint32_t n_samples;
    mp_buffer out;
    int status;
} refitting;

static void *decode_and_fit(void *argument)
{
    refitting *job = argument;
    decode_bytes(&job->of);
    if (job->of.status) return NULL;
    job->n_samples = job->of.decoded.profile.n_samples;
    job->status = mp_fit(&job->of.decoded.profile, job->of.bytes, job->of.len, &job->limits,
                         &job->out, &job->fitted);
    return NULL;
}

static VALUE fit_body(VALUE argument)
{
    refitting *job = (refitting *)argument;
    mp_turns_without_gvl(decode_and_fit, job);
    if (job->of.status == MP_ENOMEM || job->status == MP_ENOMEM)
        rb_raise(rb_eNoMemError, "no memory to fit the profile");
    if (job->of.status) rb_raise(mp_eDecode, "%s", job->of.why);
    if (job->status) rb_raise(mp_eEncode, "zlib failed, or a string is too long");
    if (job->out.len == 0) return Qnil;
    return rb_obj_freeze(rb_str_new((const char *)job->out.data, (long)job->out.len));
}

static VALUE fit_ends(VALUE argument)
{
    refitting *job = (refitting *)argument;
    mp_pprof_decoded_free(&job->of.decoded);
    mp_buffer_free(&job->out);
    return Qnil;
}

/*
 * Brings a profile below a server's limits, as core/fit.h has it, and makes no Ruby objects of it.
 *
 * @param bytes [String] a gzipped profile
 * @param samples [Integer] it may have, 1..2**31-1
 * @param depth [Integer] frames of a stack, 2..2**31-1
 * @param size [Integer] bytes before gzip, 1..2**31-1
 * @return [Array(String, Integer, Integer, Integer)] a gzipped profile, which is `bytes` if that fits; how
 *   many samples it had, how many of these became one, and how many stacks lost frames
 * @raise [DecodeError] the bytes are no profile
 * @raise [EncodeError]
 * @raise [ArgumentError, TypeError] naming what is allowed
 * @api private
 */
static VALUE fit(VALUE self, VALUE bytes, VALUE samples, VALUE depth, VALUE size)
{
    (void)self;
    if (!RB_TYPE_P(bytes, T_STRING)) {
        rb_raise(rb_eTypeError, "bytes must be a String, not %" PRIsVALUE, rb_obj_class(bytes));
    }
    refitting job = {.of = {.max_bytes = DEFAULT_MAX_BYTES, .max_model_bytes = SIZE_MAX}};
    job.limits.samples = (uint32_t)limit("samples", samples, INT32_MAX, 0);
    job.limits.depth = (uint32_t)limit("depth", depth, INT32_MAX, 0);
    job.limits.bytes = limit("size", size, INT32_MAX, 0);
    if (job.limits.depth < 2)
        rb_raise(rb_eArgError, "depth must be within 2..%d, not 1", INT32_MAX);
    bytes = rb_str_new_frozen(bytes);
    job.of.bytes = (const uint8_t *)RSTRING_PTR(bytes);
    job.of.len = (size_t)RSTRING_LEN(bytes);
    VALUE fitted = rb_ensure(fit_body, (VALUE)&job, fit_ends, (VALUE)&job);
    return rb_ary_new_from_args(4, NIL_P(fitted) ? bytes : fitted, UINT2NUM(job.n_samples),
                                UINT2NUM(job.fitted.merged), UINT2NUM(job.fitted.cut));
}

/* --- the module ------------------------------------------------------------------------------- */

static VALUE symbol(const char *name)
{
    return ID2SYM(rb_intern(name));
}

void mp_init_codec(VALUE memprofiler)
{
    limit_keys[0] = rb_intern("max_bytes");
    limit_keys[1] = rb_intern("max_model_bytes");
    mp_codec_key = (mp_codec_keys){
        .sample_types = symbol("sample_types"),
        .default_sample_type = symbol("default_sample_type"),
        .period_type = symbol("period_type"),
        .period = symbol("period"),
        .time_nanos = symbol("time_nanos"),
        .duration_nanos = symbol("duration_nanos"),
        .comments = symbol("comments"),
        .mapping = symbol("mapping"),
        .functions = symbol("functions"),
        .locations = symbol("locations"),
        .samples = symbol("samples"),
    };
    VALUE codec = rb_define_module_under(memprofiler, "Codec");
    rb_define_singleton_method(codec, "decode", decode, -1);
    rb_define_singleton_method(codec, "encode", encode, 1);
    rb_define_singleton_method(codec, "fit", fit, 4);
}
