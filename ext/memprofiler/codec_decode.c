/*
 * A decoded profile as Ruby objects, as few as can be: each string once, and one Array of a stack
 * and one Hash of labels for all samples in a row that have the same.
 */
#include <ruby/encoding.h>

#include "codec.h"
#include "collector.h"
#include "vm/turns.h"

/* Others may have the GVL after so long; so many items lie between two looks at the clock. */
#define PIECE_NS 5000000u
#define ITEMS 32u

typedef struct {
    const mp_pprof *profile;
    VALUE strings;       /* Array by string index, filled as needed */
    VALUE label_hashes;  /* Array by string index: the Hash of the one label of that value */
    VALUE stack, labels; /* of the sample before */
    uint64_t since;      /* the GVL is held */
    uint32_t piece_ns, items;
} model_builder;

/* Ruby's own turns of 100 ms would be too long for a program that only wants to be looked at. */
static void offer_gvl(model_builder *builder, uint32_t item)
{
    if (item % builder->items || mp_clock_ns() - builder->since < builder->piece_ns) return;
    mp_turns_offer();
    builder->since = mp_clock_ns();
}

static VALUE frozen(VALUE object)
{
    return rb_obj_freeze(object);
}

static VALUE string_at(model_builder *builder, uint32_t index)
{
    VALUE string = rb_ary_entry(builder->strings, index);
    if (!NIL_P(string)) return string;
    mp_pprof_str str = builder->profile->strings[index];
    string = rb_enc_interned_str(str.len ? str.ptr : "", str.len, rb_utf8_encoding());
    rb_ary_store(builder->strings, index, string);
    return string;
}

static VALUE pair(model_builder *builder, uint32_t first, uint32_t second)
{
    return frozen(rb_ary_new_from_args(2, string_at(builder, first), string_at(builder, second)));
}

static VALUE strings_at(model_builder *builder, const uint32_t *indexes, uint32_t count)
{
    VALUE array = rb_ary_new_capa(count);
    for (uint32_t i = 0; i < count; i++) rb_ary_push(array, string_at(builder, indexes[i]));
    return frozen(array);
}

static VALUE sample_types(model_builder *builder)
{
    VALUE types = rb_ary_new_capa(builder->profile->n_types);
    for (uint32_t i = 0; i < builder->profile->n_types; i++) {
        const uint32_t *type = &builder->profile->sample_types[2 * i];
        rb_ary_push(types, pair(builder, type[0], type[1]));
    }
    return frozen(types);
}

static VALUE functions(model_builder *builder)
{
    VALUE all = rb_ary_new_capa(builder->profile->n_functions);
    for (uint32_t i = 0; i < builder->profile->n_functions; i++) {
        const mp_pprof_function *from = &builder->profile->functions[i];
        offer_gvl(builder, i);
        rb_ary_push(all, frozen(rb_ary_new_from_args(4, string_at(builder, from->name),
                                                     string_at(builder, from->system_name),
                                                     string_at(builder, from->file),
                                                     LL2NUM(from->start_line))));
    }
    return frozen(all);
}

static VALUE locations(model_builder *builder)
{
    VALUE all = rb_ary_new_capa(builder->profile->n_locations);
    for (uint32_t i = 0; i < builder->profile->n_locations; i++) {
        const mp_pprof_location *from = &builder->profile->locations[i];
        offer_gvl(builder, i);
        rb_ary_push(all, frozen(rb_ary_new_from_args(3, UINT2NUM(from->function),
                                                     LL2NUM(from->line), ULL2NUM(from->address))));
    }
    return frozen(all);
}

/* --- samples ---------------------------------------------------------------------------------- */

static bool same_stack(const mp_pprof_sample *a, const mp_pprof_sample *b)
{
    return a->depth == b->depth &&
           (a->depth == 0 || memcmp(a->locations, b->locations, a->depth * sizeof(uint32_t)) == 0);
}

static VALUE stack_of(model_builder *builder, const mp_pprof_sample *sample,
                      const mp_pprof_sample *before)
{
    if (before && same_stack(sample, before)) return builder->stack;
    VALUE stack = rb_ary_new_capa(sample->depth);
    for (uint32_t i = 0; i < sample->depth; i++) rb_ary_push(stack, UINT2NUM(sample->locations[i]));
    return builder->stack = frozen(stack);
}

static VALUE integers(const int64_t *from, uint32_t count)
{
    VALUE array = rb_ary_new_capa(count);
    for (uint32_t i = 0; i < count; i++) rb_ary_push(array, LL2NUM(from[i]));
    return frozen(array);
}

static bool same_labels(const mp_pprof_sample *a, const mp_pprof_sample *b)
{
    if (a->n_labels != b->n_labels) return false;
    for (uint32_t i = 0; i < a->n_labels; i++) {
        const mp_pprof_label *x = &a->labels[i], *y = &b->labels[i];
        if (x->key != y->key || x->str != y->str || x->num != y->num ||
            x->num_unit != y->num_unit) {
            return false;
        }
    }
    return true;
}

static VALUE hash_of_labels(model_builder *builder, const mp_pprof_sample *sample)
{
    VALUE hash = rb_hash_new();
    for (uint32_t i = 0; i < sample->n_labels; i++) {
        const mp_pprof_label *from = &sample->labels[i];
        VALUE key = string_at(builder, from->key);
        /* No str, no num and no unit: a label without a value. */
        if (!from->str && !from->num && !from->num_unit) continue;
        if (rb_hash_lookup2(hash, key, Qundef) != Qundef) continue;
        VALUE value = from->str ? string_at(builder, from->str)
                                : frozen(rb_ary_new_from_args(2, LL2NUM(from->num),
                                                              string_at(builder, from->num_unit)));
        rb_hash_aset(hash, key, value);
    }
    return RHASH_EMPTY_P(hash) ? Qnil : frozen(hash);
}

/* With class labels each sample has this one label, and there are few classes. */
static VALUE hash_of_one_string(model_builder *builder, const mp_pprof_sample *sample)
{
    const mp_pprof_label *label = &sample->labels[0];
    VALUE hash = rb_ary_entry(builder->label_hashes, label->str);
    if (NIL_P(hash) || rb_hash_lookup2(hash, string_at(builder, label->key), Qundef) == Qundef) {
        hash = hash_of_labels(builder, sample);
        rb_ary_store(builder->label_hashes, label->str, hash);
    }
    return hash;
}

static VALUE labels_of(model_builder *builder, const mp_pprof_sample *sample,
                       const mp_pprof_sample *before)
{
    if (sample->n_labels == 0) return Qnil;
    if (before && same_labels(sample, before)) return builder->labels;
    return builder->labels = sample->n_labels == 1 && sample->labels[0].str
                                 ? hash_of_one_string(builder, sample)
                                 : hash_of_labels(builder, sample);
}

static VALUE samples(model_builder *builder)
{
    const mp_pprof_sample *all = builder->profile->samples;
    VALUE array = rb_ary_new_capa(builder->profile->n_samples);
    for (uint32_t i = 0; i < builder->profile->n_samples; i++) {
        const mp_pprof_sample *before = i > 0 ? &all[i - 1] : NULL;
        VALUE stack = stack_of(builder, &all[i], before);
        VALUE labels = labels_of(builder, &all[i], before);
        VALUE values = integers(all[i].values, builder->profile->n_types);
        VALUE sample = rb_ary_new_from_args(3, stack, values, labels);
        if (all[i].deviations) {
            rb_ary_push(sample, integers(all[i].deviations, builder->profile->n_types));
        }
        rb_ary_push(array, frozen(sample));
        offer_gvl(builder, i);
    }
    return frozen(array);
}

/* --- how much it takes ------------------------------------------------------------------------ */

#define SLOT ((size_t)40)

/* Up to three elements stand in the object itself. */
static size_t array_bytes(size_t elements)
{
    return SLOT + (elements > 3 ? 8 * elements : 0);
}

/* An Integer beyond 62 bits is an object of its own. */
static size_t integer_bytes(int64_t value)
{
    return FIXABLE(value) ? 0 : SLOT;
}

static size_t integers_bytes(const int64_t *values, uint32_t count)
{
    size_t bytes = array_bytes(count);
    for (uint32_t i = 0; i < count; i++) bytes += integer_bytes(values[i]);
    return bytes;
}

static size_t label_bytes(const mp_pprof_sample *sample)
{
    if (sample->n_labels == 0) return 0;
    size_t bytes = SLOT + (sample->n_labels <= 8 ? 136 : 96 * (size_t)sample->n_labels);
    for (uint32_t i = 0; i < sample->n_labels; i++) {
        bytes += array_bytes(2) + integer_bytes(sample->labels[i].num);
    }
    return bytes;
}

size_t mp_codec_model_bytes(const mp_pprof *profile)
{
    size_t bytes = 0;
    for (uint32_t i = 0; i < profile->n_samples; i++) {
        const mp_pprof_sample *sample = &profile->samples[i];
        const mp_pprof_sample *before = i > 0 ? sample - 1 : NULL;
        bytes += 8 + array_bytes(3) + integers_bytes(sample->values, profile->n_types);
        if (sample->deviations) {
            bytes += array_bytes(4) + integers_bytes(sample->deviations, profile->n_types);
        }
        if (!before || !same_stack(sample, before)) bytes += array_bytes(sample->depth);
        if (!before || !same_labels(sample, before)) bytes += label_bytes(sample);
    }
    for (uint32_t i = 0; i < profile->n_strings; i++) bytes += 8 + SLOT + profile->strings[i].len;
    for (uint32_t i = 0; i < profile->n_locations; i++) {
        const mp_pprof_location *location = &profile->locations[i];
        bytes += 8 + array_bytes(3) + integer_bytes(location->line);
        bytes += POSFIXABLE(location->address) ? 0 : SLOT;
    }
    for (uint32_t i = 0; i < profile->n_functions; i++) {
        bytes += 8 + array_bytes(4) + integer_bytes(profile->functions[i].start_line);
    }
    return bytes;
}

/* --- the model -------------------------------------------------------------------------------- */

VALUE mp_codec_to_ruby(const mp_pprof *profile)
{
    model_builder builder = {
        .profile = profile,
        .strings = rb_ary_new_capa(profile->n_strings),
        .label_hashes = rb_ary_new(),
        .stack = Qnil,
        .labels = Qnil,
        .since = mp_clock_ns(),
        .piece_ns = mp_turns_share(PIECE_NS),
        .items = mp_turns_share(ITEMS),
    };
    VALUE model = rb_hash_new();
    rb_hash_aset(model, mp_codec_key.sample_types, sample_types(&builder));
    rb_hash_aset(model, mp_codec_key.default_sample_type,
                 profile->default_sample_type ? string_at(&builder, profile->default_sample_type)
                                              : Qnil);
    rb_hash_aset(model, mp_codec_key.period_type,
                 profile->period_type || profile->period_unit
                     ? pair(&builder, profile->period_type, profile->period_unit)
                     : Qnil);
    rb_hash_aset(model, mp_codec_key.period, LL2NUM(profile->period));
    rb_hash_aset(model, mp_codec_key.time_nanos, LL2NUM(profile->time_nanos));
    rb_hash_aset(model, mp_codec_key.duration_nanos, LL2NUM(profile->duration_nanos));
    rb_hash_aset(model, mp_codec_key.comments,
                 strings_at(&builder, profile->comments, profile->n_comments));
    rb_hash_aset(model, mp_codec_key.mapping,
                 strings_at(&builder, &profile->mapping_file, profile->mapping_file ? 1 : 0));
    rb_hash_aset(model, mp_codec_key.functions, functions(&builder));
    rb_hash_aset(model, mp_codec_key.locations, locations(&builder));
    rb_hash_aset(model, mp_codec_key.samples, samples(&builder));
    RB_GC_GUARD(builder.strings);
    RB_GC_GUARD(builder.label_hashes);
    RB_GC_GUARD(builder.stack);
    RB_GC_GUARD(builder.labels);
    return frozen(model);
}
