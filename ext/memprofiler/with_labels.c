#include "with_labels.h"

#include <ruby/encoding.h>
#include <string.h>

#include "vm/labels.h"
#include "vm/ractors.h"

typedef struct {
    uint32_t n;
    VALUE names[MP_LABELS_MAX], values[MP_LABELS_MAX]; /* Strings; a value may be nil */
} given_labels;

/* ---- what is given --------------------------------------------------------------------------- */

/* nil for what no label can be. */
static VALUE text_of(VALUE value)
{
    VALUE string = value;
    if (SYMBOL_P(value)) {
        string = rb_sym2str(value);
    } else if (RB_INTEGER_TYPE_P(value) || value == Qtrue || value == Qfalse) {
        string = rb_obj_as_string(value);
    } else if (!RB_TYPE_P(value, T_STRING)) {
        return Qnil;
    }
    rb_encoding *utf8 = rb_utf8_encoding();
    if (rb_enc_get(string) != utf8 && rb_enc_str_coderange(string) != ENC_CODERANGE_7BIT) {
        string = rb_str_conv_enc(string, rb_enc_get(string), utf8);
    }
    return string;
}

static int reserved(VALUE key)
{
    static const char *const ours[] = {"class", "age", "thread", "pid"};
    for (size_t i = 0; i < sizeof ours / sizeof *ours; i++) {
        if ((size_t)RSTRING_LEN(key) == strlen(ours[i]) &&
            memcmp(RSTRING_PTR(key), ours[i], strlen(ours[i])) == 0) {
            return 1;
        }
    }
    return 0;
}

static int take_pair(VALUE key, VALUE value, VALUE argument)
{
    given_labels *given = (given_labels *)argument;
    if (given->n == MP_LABELS_MAX) {
        rb_raise(rb_eArgError, "at most %u labels can be given", MP_LABELS_MAX);
    }
    VALUE name = SYMBOL_P(key) || RB_TYPE_P(key, T_STRING) ? text_of(key) : Qnil;
    if (NIL_P(name) || RSTRING_LEN(name) == 0) {
        rb_raise(rb_eTypeError,
                 "a label's name must be a Symbol or String that isn't empty, not %" PRIsVALUE,
                 rb_inspect(key));
    }
    if (reserved(name)) {
        rb_raise(rb_eArgError,
                 "class, age, thread and pid are memprofiler's own labels: choose "
                 "another name than %" PRIsVALUE,
                 name);
    }
    VALUE text = NIL_P(value) ? Qnil : text_of(value);
    if (NIL_P(text) && !NIL_P(value)) {
        rb_raise(rb_eTypeError,
                 "label %" PRIsVALUE
                 " must be a String, Symbol, Integer, true, false or nil, not %" PRIsVALUE,
                 name, rb_obj_class(value));
    }
    given->names[given->n] = name;
    given->values[given->n++] = text;
    return ST_CONTINUE;
}

/* Once nothing is called any more that could change a String. */
static uint32_t set_with(uint32_t outer, const given_labels *given)
{
    mp_label_text texts[MP_LABELS_MAX];
    for (uint32_t i = 0; i < given->n; i++) {
        VALUE name = given->names[i], value = given->values[i];
        texts[i] =
            (mp_label_text){.key = RSTRING_PTR(name), .key_length = (size_t)RSTRING_LEN(name)};
        if (NIL_P(value)) continue;
        texts[i].value = RSTRING_PTR(value);
        texts[i].value_length = (size_t)RSTRING_LEN(value);
    }
    return mp_labels_with(mp_labels_all(), outer, texts, given->n);
}

/* ---- the methods ----------------------------------------------------------------------------- */

static VALUE run_block(VALUE unused)
{
    (void)unused;
    return rb_yield_values(0);
}

static VALUE back(VALUE set)
{
    /* The block may have frozen the thread, which keeps its labels then. */
    if (!RB_OBJ_FROZEN(rb_thread_current())) mp_labels_set_here((uint32_t)set);
    return Qnil;
}

/*
 * Runs the block; what this thread and fiber allocate in it bears these labels, in every profile.
 * Nests: labels of an outer block hold on, a label given anew has the new value until the block's
 * end, `nil` or "" takes it away. Other threads and fibers, those begun inside too, have their own:
 * pass them `Memprofiler.labels`.
 *
 * A process keeps each set of labels it ever had, up to 32,768, or 4 MB of their text; from then on a value that makes a
 * new one is "(other)". So a label is no place for ids of requests or users. A set has at most 16
 * labels; a further one is left out. Names and values are cut at 256 bytes.
 *
 * @example
 *   Memprofiler.with_labels(endpoint: "posts#index") { render }
 * @overload with_labels(**labels)
 *   @param labels [Hash{Symbol, String => String, Symbol, Integer, true, false, nil}] at most 16;
 *     none of them called class, age, thread or pid
 *   @return what the block returns
 *   @raise [ArgumentError, TypeError] no block, or naming what is allowed; the block has not run then
 */
static VALUE with_labels(int argc, VALUE *argv, VALUE self)
{
    (void)self;
    VALUE keywords;
    rb_scan_args(argc, argv, "0:", &keywords);
    if (!rb_block_given_p()) rb_raise(rb_eArgError, "Memprofiler.with_labels needs a block");
    if (NIL_P(keywords) || !mp_in_main_ractor() || RB_OBJ_FROZEN(rb_thread_current())) {
        return rb_yield_values(0);
    }
    given_labels given = {.n = 0};
    rb_hash_foreach(keywords, take_pair, (VALUE)&given);
    uint32_t outer = mp_labels_here();
    mp_labels_set_here(set_with(outer, &given));
    RB_GC_GUARD(keywords);
    return rb_ensure(run_block, Qundef, back, (VALUE)outer);
}

/*
 * The labels in force, by name: what to give to `with_labels` in a thread or fiber that goes on with
 * this one's work.
 * @return [Hash{Symbol => String}]
 */
static VALUE labels(VALUE self)
{
    (void)self;
    mp_label_pair pairs[MP_LABELS_MAX];
    VALUE hash = rb_hash_new();
    if (!mp_in_main_ractor()) return hash;
    uint32_t n = mp_labels_pairs(mp_labels_all(), mp_labels_here(), pairs);
    while (n-- > 0) {
        const mp_string *key = mp_strings_at(&mp_labels_all()->strings, pairs[n].key);
        const mp_string *value = mp_strings_at(&mp_labels_all()->strings, pairs[n].value);
        rb_hash_aset(hash, rb_to_symbol(rb_utf8_str_new(key->bytes, (long)key->length)),
                     rb_utf8_str_new(value->bytes, (long)value->length));
    }
    return hash;
}

void mp_init_labels(VALUE memprofiler)
{
    rb_define_singleton_method(memprofiler, "with_labels", with_labels, -1);
    rb_define_singleton_method(memprofiler, "labels", labels, 0);
}
