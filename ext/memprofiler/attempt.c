#include "attempt.h"

#include <stdbool.h>

#include "collector.h"
#include "vm/turns.h"

/* Whoever sends without a pause must not hold up the end; the VM takes long for each of many. */
#define PATIENCE_NS 1000000000u

static VALUE handle_interrupt; /* a Method: the program may have put another one in its place */
static VALUE never;            /* its argument */

typedef struct {
    VALUE (*body)(VALUE);
    VALUE argument;
    VALUE error;
    int state; /* of what goes through */
    bool begun;
    bool last;
} attempt;

/* What Ruby keeps of a throw or a kill is no exception, and no object either. */
static bool is_exception(VALUE error)
{
    return !RB_SPECIAL_CONST_P(error) && !RB_TYPE_P(error, T_IMEMO) &&
           RTEST(rb_obj_is_kind_of(error, rb_eException));
}

static bool goes_through(const attempt *it, VALUE error)
{
    if (!is_exception(error)) return true;
    return !it->last && (RTEST(rb_obj_is_kind_of(error, rb_eSignal)) ||
                         RTEST(rb_obj_is_kind_of(error, rb_eSystemExit)));
}

static VALUE work(VALUE argument)
{
    attempt *it = (attempt *)argument;
    it->begun = true;
    return it->body(it->argument);
}

static void keep_error(attempt *it, VALUE (*body)(VALUE))
{
    VALUE before = rb_errinfo();
    rb_protect(body, (VALUE)it, &it->state);
    if (it->state == 0 || goes_through(it, rb_errinfo())) return;
    it->error = rb_errinfo();
    it->state = 0;
    rb_set_errinfo(is_exception(before) ? before : Qnil);
}

/* ---- other threads' exceptions wait ---------------------------------------------------------- */

/* The block that Thread.handle_interrupt is given may be found, and called, when all is over. */
typedef struct {
    attempt *it;
} masked_block;

static const rb_data_type_t masked_block_type = {
    .wrap_struct_name = "Memprofiler attempt",
    .function = {.dfree = RUBY_TYPED_DEFAULT_FREE},
    .flags = RUBY_TYPED_FREE_IMMEDIATELY,
};

static VALUE masked(RB_BLOCK_CALL_FUNC_ARGLIST(yielded, keeper))
{
    (void)yielded, (void)argc, (void)argv, (void)blockarg;
    masked_block *block = DATA_PTR(keeper);
    if (!block->it) return Qnil;
    attempt *it = block->it;
    block->it = NULL;
    keep_error(it, work);
    if (it->state) rb_jump_tag(it->state);
    return Qnil;
}

static VALUE mask(VALUE argument)
{
    attempt *it = (attempt *)argument;
    VALUE keeper = rb_data_typed_object_zalloc(0, sizeof(masked_block), &masked_block_type);
    ((masked_block *)DATA_PTR(keeper))->it = it;
    VALUE result =
        rb_method_call_with_block(1, &never, handle_interrupt, rb_proc_new(masked, keeper));
    RB_GC_GUARD(keeper);
    return result;
}

/* What is raised here, before the work or after it, is another thread's, or a signal's. */
static VALUE do_attempt(attempt *it)
{
    int state;
    VALUE before = rb_errinfo();
    rb_protect(mask, (VALUE)it, &state);
    VALUE raised = state ? rb_errinfo() : Qnil;
    if (state && !is_exception(raised)) rb_jump_tag(state);
    if (!it->begun) keep_error(it, work);
    if (it->state) rb_jump_tag(it->state);
    bool ours = state && (it->last || RTEST(rb_obj_is_kind_of(raised, rb_eNoMemError)));
    if (state && !ours) rb_jump_tag(state);
    if (ours) rb_set_errinfo(is_exception(before) ? before : Qnil);
    RB_GC_GUARD(before);
    return it->error;
}

VALUE mp_attempt(VALUE (*body)(VALUE), VALUE argument)
{
    attempt it = {.body = body, .argument = argument, .error = Qnil};
    VALUE error = do_attempt(&it);
    RB_GC_GUARD(it.error);
    return error;
}

/* ---- the methods ----------------------------------------------------------------------------- */

static VALUE let_in(VALUE unused)
{
    (void)unused;
    mp_turns_check();
    return Qnil;
}

/* Each look lets one in. */
static void drop_what_was_sent(void)
{
    VALUE before = rb_errinfo();
    for (uint64_t since = mp_clock_ns(); mp_clock_ns() - since < PATIENCE_NS;) {
        int state;
        rb_protect(let_in, Qnil, &state);
        if (state == 0) return;
        if (!is_exception(rb_errinfo())) rb_jump_tag(state);
        rb_set_errinfo(is_exception(before) ? before : Qnil);
    }
}

/*
 * @return [Exception, nil] what the block raised
 * @api private
 */
static VALUE attempt_method(VALUE self)
{
    (void)self;
    return mp_attempt(rb_yield, Qundef);
}

/*
 * @return [Exception, nil] what the block raised
 * @api private
 */
static VALUE attempt_last(VALUE self)
{
    (void)self;
    attempt it = {.body = rb_yield, .argument = Qundef, .error = Qnil, .last = true};
    VALUE error = do_attempt(&it);
    drop_what_was_sent();
    RB_GC_GUARD(it.error);
    return error;
}

void mp_init_attempt(VALUE memprofiler)
{
    handle_interrupt = rb_obj_method(rb_cThread, ID2SYM(rb_intern("handle_interrupt")));
    rb_gc_register_mark_object(handle_interrupt);
    never = rb_hash_new();
    rb_hash_aset(never, rb_cObject, ID2SYM(rb_intern("never")));
    rb_gc_register_mark_object(rb_obj_freeze(never));
    rb_define_singleton_method(memprofiler, "attempt", attempt_method, 0);
    rb_define_singleton_method(memprofiler, "attempt_last", attempt_last, 0);
}
