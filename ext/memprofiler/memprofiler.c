/*
 * The extension's way in. Reading order: core/recorder.h (what is gathered), vm/run.h (how the VM
 * is watched), collector.h (what Ruby sees), core/snapshot.h (how it gets out), codec.h (reading).
 */
#include <limits.h>
#include <ruby.h>
#include <unistd.h>

#include "codec.h"
#include "collector.h"
#include "comments.h"
#include "core/snapshot.h"
#include "hold_back.h"
#include "relay.h"
#include "vm/hooks.h"
#include "vm/naming.h"
#include "vm/own.h"
#include "vm/ractors.h"
#include "vm/turns.h"
#include "with_labels.h"

/* A hidden object on the stack of the Fiber: one that is dropped in the block runs no ensure. */
typedef struct {
    VALUE thread; /* marked, or 0 */
    pid_t pid;
} own_block;

static void own_block_dropped(void *ptr)
{
    own_block *block = ptr;
    if (block->thread && block->pid == getpid()) mp_own_end_of(block->thread);
    xfree(block);
}

static const rb_data_type_t own_block_type = {
    .wrap_struct_name = "Memprofiler own",
    .function = {.dfree = own_block_dropped},
    .flags = RUBY_TYPED_FREE_IMMEDIATELY,
};

static VALUE end_own(VALUE keeper)
{
    own_block *block = DATA_PTR(keeper);
    block->thread = 0;
    mp_own_end();
    return Qnil;
}

static VALUE new_own_block(VALUE unused)
{
    (void)unused;
    VALUE keeper = rb_data_typed_object_zalloc(0, sizeof(own_block), &own_block_type);
    own_block *block = DATA_PTR(keeper);
    block->thread = rb_thread_current();
    block->pid = getpid();
    return keeper;
}

/*
 * Runs the block; what this thread allocates in it is the profiler's own, and stays out of every
 * profile. (In another Ractor it does no more than run it: the marks are the main one's.)
 * @return what the block returns
 * @api private
 */
static VALUE own(VALUE self)
{
    (void)self;
    if (!mp_in_main_ractor()) return rb_yield(Qundef);
    mp_own_begin();
    int error;
    VALUE keeper = rb_protect(new_own_block, Qnil, &error);
    if (error) {
        mp_own_end();
        rb_jump_tag(error);
    }
    VALUE result = rb_ensure(rb_yield, Qundef, end_own, keeper);
    RB_GC_GUARD(keeper);
    return result;
}

/*
 * Frames of `FOLDER/...` and `FOLDER.rb` are left out of stacks.
 * @api private
 */
static VALUE own_folder(VALUE self, VALUE folder)
{
    (void)self;
    StringValue(folder);
    mp_naming_own_folder(folder);
    return folder;
}

/*
 * What profiles of this process are of, for their readers. (Servers change $0 as time goes by.)
 * @api private
 */
static VALUE program(VALUE self, VALUE name)
{
    (void)self;
    mp_snapshot_program(StringValueCStr(name));
    return name;
}

/*
 * A Ractor is about to start, which this Ruby doesn't survive under a hook: no collector can be
 * started until `ractor_began`.
 * @return [true]
 * @api private
 */
static VALUE ractor_begins(VALUE self)
{
    (void)self;
    mp_ractor_begins();
    return Qtrue;
}

/*
 * Stops every collector; each one's profile says why.
 * @return [Boolean] whether one was running
 * @api private
 */
static VALUE stop_all(VALUE self, VALUE reason)
{
    (void)self;
    return RBOOL(mp_in_main_ractor() && mp_hooks_stop_all(rb_id2name(rb_to_id(reason))));
}

/* @api private */
static VALUE ractor_began(VALUE self)
{
    (void)self;
    mp_ractor_began();
    return Qnil;
}

/* @api private */
static VALUE ractor_coming_p(VALUE self)
{
    (void)self;
    return RBOOL(mp_ractors_coming() > 0);
}

/*
 * @return [Boolean] whatever the program makes of Ractor
 * @api private
 */
static VALUE one_ractor_p(VALUE self)
{
    (void)self;
    return RBOOL(mp_one_ractor());
}

/*
 * @return [Boolean] whether this is the main Ractor
 * @api private
 */
static VALUE main_ractor_p(VALUE self)
{
    (void)self;
    return RBOOL(mp_in_main_ractor());
}

/*
 * Work that takes turns with other threads takes more of them: for tests.
 *
 * @param divisor [Integer] of the pieces' lengths, 1..2**31-1; 1 at first
 * @api private
 */
static VALUE haste(VALUE self, VALUE divisor)
{
    (void)self;
    int number = NUM2INT(divisor);
    if (number < 1) rb_raise(rb_eArgError, "haste must be within 1..%d, not %d", INT_MAX, number);
    mp_turns_haste((uint32_t)number);
    return divisor;
}

/*
 * Profiles say from now on that objects are made past all hooks.
 * @api private
 */
static VALUE hooks_bypassed(VALUE self)
{
    (void)self;
    mp_comments_bypassed();
    return Qnil;
}

RUBY_FUNC_EXPORTED void Init_memprofiler(void);

void Init_memprofiler(void)
{
#ifdef HAVE_RB_EXT_RACTOR_SAFE
    rb_ext_ractor_safe(true);
#endif
    VALUE memprofiler = rb_define_module("Memprofiler");
    mp_init_errors(memprofiler);
    mp_run_init();
    mp_init_codec(memprofiler);
    mp_init_flush(memprofiler);
    mp_init_collector(memprofiler);
    mp_init_labels(memprofiler);
    mp_init_relay(memprofiler);
    mp_init_hold_back(memprofiler);
    rb_define_singleton_method(memprofiler, "own", own, 0);
    rb_define_singleton_method(memprofiler, "own_folder=", own_folder, 1);
    rb_define_singleton_method(memprofiler, "program=", program, 1);
    rb_define_singleton_method(memprofiler, "ractor_begins", ractor_begins, 0);
    rb_define_singleton_method(memprofiler, "hooks_bypassed", hooks_bypassed, 0);
    rb_define_singleton_method(memprofiler, "stop_all", stop_all, 1);
    rb_define_singleton_method(memprofiler, "ractor_began", ractor_began, 0);
    rb_define_singleton_method(memprofiler, "ractor_coming?", ractor_coming_p, 0);
    rb_define_singleton_method(memprofiler, "main_ractor?", main_ractor_p, 0);
    rb_define_singleton_method(memprofiler, "one_ractor?", one_ractor_p, 0);
    rb_define_singleton_method(memprofiler, "haste=", haste, 1);
}
