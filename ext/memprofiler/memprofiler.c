/*
 * The extension's way in. Reading order: core/recorder.h (what is gathered), vm/run.h (how the VM
 * is watched), collector.h (what Ruby sees), core/snapshot.h (how it gets out), codec.h (reading).
 */
#include <limits.h>
#include <ruby.h>

#include "attempt.h"
#include "codec.h"
#include "collector.h"
#include "comments.h"
#include "core/snapshot.h"
#include "forks.h"
#include "hold_back.h"
#include "own_block.h"
#include "ractor_guard.h"
#include "relay.h"
#include "run_list.h"
#include "vm/hooks.h"
#include "vm/naming.h"
#include "vm/ractors.h"
#include "vm/turns.h"
#include "with_labels.h"

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
    mp_init_own_block(memprofiler);
    mp_init_attempt(memprofiler);
    mp_init_run_list(memprofiler);
    mp_init_forks(memprofiler);
    mp_init_ractor_guard(memprofiler);
    rb_define_singleton_method(memprofiler, "own_folder=", own_folder, 1);
    rb_define_singleton_method(memprofiler, "program=", program, 1);
    rb_define_singleton_method(memprofiler, "hooks_bypassed", hooks_bypassed, 0);
    rb_define_singleton_method(memprofiler, "stop_all", stop_all, 1);
    rb_define_singleton_method(memprofiler, "ractor_coming?", ractor_coming_p, 0);
    rb_define_singleton_method(memprofiler, "main_ractor?", main_ractor_p, 0);
    rb_define_singleton_method(memprofiler, "one_ractor?", one_ractor_p, 0);
    rb_define_singleton_method(memprofiler, "haste=", haste, 1);
}
