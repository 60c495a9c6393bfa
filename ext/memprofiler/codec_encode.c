/*
 * The model, checked and copied into a profile of its own. No method of the model's objects is
 * called; conversion of strings may let other threads run all the same, so every Array is read with
 * its bounds checked, and what it shrank by is found to be nil.
 */
#include <ruby/encoding.h>

#include "codec.h"
#include "core/arena.h"
#include "core/error.h"
#include "errors.h"

typedef struct {
    mp_codec_copy *copy;
    upb_Arena *arena;
    VALUE indexes; /* Hash: String to its index in copy->strings */
} model_reader;

/* --- what is in the model --------------------------------------------------------------------- */

/* A description such as "sample 3: a value"; `number` is left out when negative. */
typedef struct {
    const char *kind;
    long number;
    const char *part;
} place;

static VALUE text_of(place at)
{
    if (at.number < 0) return rb_sprintf("%s", at.kind);
    return rb_sprintf("%s %ld: %s", at.kind, at.number, at.part);
}

static place in(place at, const char *part)
{
    return (place){at.kind, at.number, part};
}

NORETURN(static void wrong_type(place at, const char *allowed, VALUE value));
static void wrong_type(place at, const char *allowed, VALUE value)
{
    rb_raise(rb_eTypeError, "%" PRIsVALUE " must be %s, not %" PRIsVALUE, text_of(at), allowed,
             rb_obj_class(value));
}

static VALUE array(place at, VALUE value, const char *allowed)
{
    if (!RB_TYPE_P(value, T_ARRAY)) wrong_type(at, allowed, value);
    return value;
}

/* An Array of exactly this many. */
static VALUE tuple(place at, VALUE value, long len, const char *allowed)
{
    if (RARRAY_LEN(array(at, value, allowed)) != len) {
        rb_raise(mp_eEncode, "%" PRIsVALUE " must be %s, not %ld elements", text_of(at), allowed,
                 RARRAY_LEN(value));
    }
    return value;
}

static uint32_t length(place at, VALUE value)
{
    long len = RARRAY_LEN(value);
    if (len >= INT32_MAX) {
        rb_raise(mp_eEncode, "%" PRIsVALUE " has too many elements", text_of(at));
    }
    return (uint32_t)len;
}

static void *take(model_reader *reader, size_t count, size_t size)
{
    void *taken = upb_Arena_Malloc(reader->arena, count ? count * size : size);
    if (!taken) rb_raise(rb_eNoMemError, "no memory to copy the profile");
    return taken;
}

static int64_t integer(place at, VALUE value)
{
    if (FIXNUM_P(value)) return FIX2LONG(value);
    if (!RB_TYPE_P(value, T_BIGNUM)) wrong_type(at, "an Integer", value);
    int64_t number;
    int sign = rb_integer_pack(value, &number, 1, sizeof number, 0,
                               INTEGER_PACK_NATIVE_BYTE_ORDER | INTEGER_PACK_2COMP);
    /* Two's complement of 64 bits and no more, the sign being the uppermost. */
    if (sign == 2 || sign == -2 || (sign < 0) != (number < 0)) {
        rb_raise(mp_eEncode, "%" PRIsVALUE " is outside 64 bits: %" PRIsVALUE, text_of(at), value);
    }
    return number;
}

static int64_t integer_or_zero(place at, VALUE value)
{
    return NIL_P(value) ? 0 : integer(at, value);
}

static uint64_t unsigned_integer(place at, VALUE value)
{
    if (!RB_INTEGER_TYPE_P(value)) wrong_type(at, "an Integer", value);
    uint64_t number;
    int sign = rb_integer_pack(value, &number, 1, sizeof number, 0, INTEGER_PACK_NATIVE_BYTE_ORDER);
    if (sign < 0 || sign == 2) {
        rb_raise(mp_eEncode, "%" PRIsVALUE " is not within 0...2**64: %" PRIsVALUE, text_of(at),
                 value);
    }
    return number;
}

static uint32_t index_below(place at, VALUE value, uint32_t count)
{
    int64_t number = integer(at, value);
    if (number < 0 || number >= count) {
        rb_raise(mp_eEncode, "%" PRIsVALUE " %lld is not in the model, which has %u", text_of(at),
                 (long long)number, count);
    }
    return (uint32_t)number;
}

/* --- strings ---------------------------------------------------------------------------------- */

static uint32_t add_string(model_reader *reader, place at, VALUE value)
{
    VALUE utf8 = rb_str_export_to_enc(value, rb_utf8_encoding());
    long len = RSTRING_LEN(utf8);
    if (len >= INT32_MAX) rb_raise(mp_eEncode, "%" PRIsVALUE " is too long", text_of(at));
    mp_pprof_str str = {take(reader, (size_t)len, 1), (uint32_t)len};
    memcpy((char *)(uintptr_t)str.ptr, RSTRING_PTR(utf8), str.len);
    RB_GC_GUARD(utf8);

    mp_pprof *profile = &reader->copy->profile;
    if (mp_buffer_append(&reader->copy->strings, &str, sizeof str)) {
        rb_raise(rb_eNoMemError, "no memory to copy the profile");
    }
    rb_hash_aset(reader->indexes, value, UINT2NUM(profile->n_strings));
    return profile->n_strings++;
}

static uint32_t string(model_reader *reader, place at, VALUE value)
{
    if (!RB_TYPE_P(value, T_STRING)) wrong_type(at, "a String", value);
    VALUE index = rb_hash_lookup2(reader->indexes, value, Qundef);
    return index == Qundef ? add_string(reader, at, value) : NUM2UINT(index);
}

static uint32_t string_or_none(model_reader *reader, place at, VALUE value)
{
    return NIL_P(value) ? 0 : string(reader, at, value);
}

/* --- the head --------------------------------------------------------------------------------- */

static place top(VALUE key)
{
    return (place){rb_id2name(SYM2ID(key)), -1, NULL};
}

static VALUE fetch(VALUE model, VALUE key)
{
    return rb_hash_lookup2(model, key, Qnil);
}

static void read_types(model_reader *reader, VALUE model)
{
    mp_pprof *profile = &reader->copy->profile;
    place at = top(mp_codec_key.sample_types);
    VALUE all = array(at, fetch(model, mp_codec_key.sample_types), "an Array of [type, unit]");
    uint32_t count = length(at, all);
    if (count == 0) rb_raise(mp_eEncode, "sample_types must not be empty");
    uint32_t *types = take(reader, count, 2 * sizeof *types);
    for (uint32_t i = 0; i < count; i++) {
        at = (place){"sample type", i, "it"};
        VALUE type = tuple(at, rb_ary_entry(all, i), 2, "[type, unit]");
        types[2 * i] = string(reader, in(at, "the type"), rb_ary_entry(type, 0));
        types[2 * i + 1] = string(reader, in(at, "the unit"), rb_ary_entry(type, 1));
    }
    profile->sample_types = types;
    profile->n_types = count;

    VALUE period_type = fetch(model, mp_codec_key.period_type);
    if (NIL_P(period_type)) return;
    at = top(mp_codec_key.period_type);
    tuple(at, period_type, 2, "[type, unit]");
    profile->period_type = string(reader, at, rb_ary_entry(period_type, 0));
    profile->period_unit = string(reader, at, rb_ary_entry(period_type, 1));
}

static void read_comments(model_reader *reader, VALUE model)
{
    VALUE all = fetch(model, mp_codec_key.comments);
    if (NIL_P(all)) return;
    place at = top(mp_codec_key.comments);
    uint32_t count = length(at, array(at, all, "an Array of Strings"));
    uint32_t *comments = take(reader, count, sizeof *comments);
    for (uint32_t i = 0; i < count; i++) {
        comments[i] = string(reader, (place){"comment", i, "it"}, rb_ary_entry(all, i));
    }
    reader->copy->profile.comments = comments;
    reader->copy->profile.n_comments = count;
}

static void read_head(model_reader *reader, VALUE model)
{
    mp_pprof *profile = &reader->copy->profile;
    read_types(reader, model);
    read_comments(reader, model);
    profile->default_sample_type = string_or_none(reader, top(mp_codec_key.default_sample_type),
                                                  fetch(model, mp_codec_key.default_sample_type));
    profile->period = integer_or_zero(top(mp_codec_key.period), fetch(model, mp_codec_key.period));
    profile->time_nanos =
        integer_or_zero(top(mp_codec_key.time_nanos), fetch(model, mp_codec_key.time_nanos));
    profile->duration_nanos = integer_or_zero(top(mp_codec_key.duration_nanos),
                                              fetch(model, mp_codec_key.duration_nanos));
    VALUE mapping = fetch(model, mp_codec_key.mapping);
    if (NIL_P(mapping)) return;
    array(top(mp_codec_key.mapping), mapping, "an Array of file names");
    profile->mapping_file =
        string_or_none(reader, top(mp_codec_key.mapping), rb_ary_entry(mapping, 0));
}

/* --- functions, locations, samples ------------------------------------------------------------ */

static void read_functions(model_reader *reader, VALUE model)
{
    place at = top(mp_codec_key.functions);
    VALUE all = array(at, fetch(model, mp_codec_key.functions), "an Array");
    uint32_t count = length(at, all);
    mp_pprof_function *functions = take(reader, count, sizeof *functions);
    for (uint32_t i = 0; i < count; i++) {
        at = (place){"function", i, "it"};
        VALUE from = tuple(at, rb_ary_entry(all, i), 4, "[name, system_name, file, start_line]");
        /* One by one: the strings are numbered in this order. */
        functions[i].name = string(reader, in(at, "the name"), rb_ary_entry(from, 0));
        functions[i].system_name =
            string_or_none(reader, in(at, "the system name"), rb_ary_entry(from, 1));
        functions[i].file = string_or_none(reader, in(at, "the file"), rb_ary_entry(from, 2));
        functions[i].start_line = integer(in(at, "the start line"), rb_ary_entry(from, 3));
    }
    reader->copy->profile.functions = functions;
    reader->copy->profile.n_functions = count;
}

static void read_locations(model_reader *reader, VALUE model)
{
    mp_pprof *profile = &reader->copy->profile;
    place at = top(mp_codec_key.locations);
    VALUE all = array(at, fetch(model, mp_codec_key.locations), "an Array");
    uint32_t count = length(at, all);
    mp_pprof_location *locations = take(reader, count, sizeof *locations);
    for (uint32_t i = 0; i < count; i++) {
        at = (place){"location", i, "it"};
        VALUE from = tuple(at, rb_ary_entry(all, i), 3, "[function, line, address]");
        locations[i] = (mp_pprof_location){
            .function =
                index_below(in(at, "function"), rb_ary_entry(from, 0), profile->n_functions),
            .line = integer(in(at, "the line"), rb_ary_entry(from, 1)),
            .address = unsigned_integer(in(at, "the address"), rb_ary_entry(from, 2)),
        };
    }
    profile->locations = locations;
    profile->n_locations = count;
}

typedef struct {
    model_reader *reader;
    place at;
    mp_pprof_label *labels;
    size_t room;
    uint32_t count;
} label_reader;

static int read_label(VALUE key, VALUE value, VALUE argument)
{
    label_reader *labels = (label_reader *)argument;
    if (labels->count == labels->room) return ST_STOP; /* it grew meanwhile */
    mp_pprof_label label = {.key = string(labels->reader, in(labels->at, "a label's key"), key)};
    place at = in(labels->at, "a label");
    if (RB_TYPE_P(value, T_ARRAY)) {
        tuple(at, value, 2, "a String or [Integer, unit]");
        label.num = integer(in(labels->at, "a label's number"), rb_ary_entry(value, 0));
        label.num_unit = string_or_none(labels->reader, in(labels->at, "a label's unit"),
                                        rb_ary_entry(value, 1));
    } else {
        if (!RB_TYPE_P(value, T_STRING)) wrong_type(at, "a String or [Integer, unit]", value);
        label.str = string(labels->reader, at, value);
        if (label.str == 0) return ST_CONTINUE; /* pprof has no empty label */
    }
    labels->labels[labels->count++] = label;
    return ST_CONTINUE;
}

static void read_labels(model_reader *reader, place at, VALUE from, mp_pprof_sample *sample)
{
    if (NIL_P(from)) return;
    if (!RB_TYPE_P(from, T_HASH)) wrong_type(in(at, "the labels"), "a Hash or nil", from);
    label_reader labels = {.reader = reader, .at = at, .room = RHASH_SIZE(from)};
    labels.labels = take(reader, labels.room, sizeof *labels.labels);
    rb_hash_foreach(from, read_label, (VALUE)&labels);
    sample->labels = labels.labels;
    sample->n_labels = labels.count;
}

static void read_stack(model_reader *reader, place at, VALUE from, mp_pprof_sample *sample)
{
    array(in(at, "the stack"), from, "an Array of locations");
    sample->depth = length(in(at, "the stack"), from);
    uint32_t *stack = take(reader, sample->depth, sizeof *stack);
    for (uint32_t i = 0; i < sample->depth; i++) {
        stack[i] = index_below(in(at, "location"), rb_ary_entry(from, i),
                               reader->copy->profile.n_locations);
    }
    sample->locations = stack;
}

/* One for each sample type. */
static int64_t *read_integers(model_reader *reader, place all, place each, VALUE from)
{
    uint32_t count = reader->copy->profile.n_types;
    tuple(all, from, count, "one for each sample type");
    int64_t *values = take(reader, count, sizeof *values);
    for (uint32_t i = 0; i < count; i++) values[i] = integer(each, rb_ary_entry(from, i));
    return values;
}

static VALUE sample_tuple(place at, VALUE from)
{
    const char *allowed = "[stack, values, labels] or [stack, values, labels, deviations]";
    return tuple(at, from, RARRAY_LEN(array(at, from, allowed)) == 4 ? 4 : 3, allowed);
}

static void read_deviations(model_reader *reader, place at, VALUE from, mp_pprof_sample *sample)
{
    if (RARRAY_LEN(from) < 4) return;
    sample->deviations = read_integers(reader, in(at, "the deviations"), in(at, "a deviation"),
                                       rb_ary_entry(from, 3));
}

static void read_samples(model_reader *reader, VALUE model)
{
    place at = top(mp_codec_key.samples);
    VALUE all = array(at, fetch(model, mp_codec_key.samples), "an Array");
    uint32_t count = length(at, all);
    mp_pprof_sample *samples = take(reader, count, sizeof *samples);
    for (uint32_t i = 0; i < count; i++) {
        at = (place){"sample", i, "it"};
        VALUE from = sample_tuple(at, rb_ary_entry(all, i));
        samples[i] = (mp_pprof_sample){0};
        read_stack(reader, at, rb_ary_entry(from, 0), &samples[i]);
        samples[i].values =
            read_integers(reader, in(at, "the values"), in(at, "a value"), rb_ary_entry(from, 1));
        read_labels(reader, at, rb_ary_entry(from, 2), &samples[i]);
        read_deviations(reader, at, from, &samples[i]);
    }
    reader->copy->profile.samples = samples;
    reader->copy->profile.n_samples = count;
}

/* --- the model -------------------------------------------------------------------------------- */

void mp_codec_from_ruby(VALUE model, mp_codec_copy *copy)
{
    if (!RB_TYPE_P(model, T_HASH)) wrong_type((place){"the model", -1, NULL}, "a Hash", model);
    copy->arena = mp_arena_new();
    if (!copy->arena) rb_raise(rb_eNoMemError, "no memory to copy the profile");
    model_reader reader = {.copy = copy, .arena = copy->arena, .indexes = rb_hash_new()};
    string(&reader, (place){"the model", -1, NULL}, rb_str_new(NULL, 0));
    read_head(&reader, model);
    read_functions(&reader, model);
    read_locations(&reader, model);
    read_samples(&reader, model);
    copy->profile.strings = (const mp_pprof_str *)(const void *)copy->strings.data;
    RB_GC_GUARD(reader.indexes);
}

void mp_codec_copy_free(mp_codec_copy *copy)
{
    if (copy->arena) upb_Arena_Free(copy->arena);
    mp_buffer_free(&copy->strings);
    *copy = (mp_codec_copy){0};
}
