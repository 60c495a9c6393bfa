#include "forks.h"

#include <stdbool.h>
#include <stdio.h>
#include <unistd.h>

#include "attempt.h"
#include "own_block.h"
#include "run_list.h"
#include "vm/ractors.h"

static VALUE callbacks; /* a frozen Array */
static ID after_fork;

/* ---- in the child ---------------------------------------------------------------------------- */

typedef struct {
    VALUE callback;
    VALUE daemon;
} child_call;

static VALUE call_one(VALUE argument)
{
    child_call *call = (child_call *)argument;
    return rb_funcallv(call->callback, after_fork, 1, &call->daemon);
}

static VALUE attempt_one(VALUE argument)
{
    return mp_attempt(call_one, argument);
}

static void in_child(VALUE daemon)
{
    VALUE those = callbacks; /* one may go while it's called */
    for (long i = 0; i < RARRAY_LEN(those); i++) {
        child_call call = {.callback = RARRAY_AREF(those, i), .daemon = daemon};
        mp_own_block(attempt_one, (VALUE)&call);
    }
    RB_GC_GUARD(those);
}

/* ---- the methods ----------------------------------------------------------------------------- */

typedef struct {
    int argc;
    VALUE *argv;
    bool main; /* it's the main Ractor: a child that another one forks isn't profiled */
    pid_t pid;
    bool done;
} super_call;

static VALUE call_super(VALUE argument)
{
    super_call *call = (super_call *)argument;
    VALUE result = rb_call_super_kw(call->argc, call->argv, RB_PASS_CALLED_KEYWORDS);
    call->done = true;
    return result;
}

/* (Another library's part of it may have raised in the child.) */
static VALUE forked(VALUE argument)
{
    super_call *call = (super_call *)argument;
    if (!call->main) return Qnil;
    if (getpid() != call->pid)
        in_child(Qfalse);
    else if (!call->done)
        mp_run_list_fork("no fork", NULL);
    return Qnil;
}

/*
 * What is about to happen is said before: the old process may end in here, and the report come before
 * the new one's first word.
 */
static VALUE hook_fork(int argc, VALUE *argv, VALUE self)
{
    (void)self;
    super_call call = {.argc = argc, .argv = argv, .main = mp_in_main_ractor(), .pid = getpid()};
    if (call.main) mp_run_list_fork("fork", NULL);
    return rb_ensure(call_super, (VALUE)&call, forked, (VALUE)&call);
}

/* It doesn't come by _fork. What goes on there is the same program, and so is its profile. */
static VALUE daemon_or_not(VALUE argument)
{
    super_call *call = (super_call *)argument;
    if (!call->main) return Qnil;
    char pid[24];
    snprintf(pid, sizeof pid, "%ld", (long)getpid());
    mp_run_list_fork("daemon", pid);
    if (getpid() != call->pid) in_child(Qtrue);
    return Qnil;
}

static VALUE hook_daemon(int argc, VALUE *argv, VALUE self)
{
    (void)self;
    super_call call = {.argc = argc, .argv = argv, .main = mp_in_main_ractor(), .pid = getpid()};
    if (call.main) mp_run_list_fork("daemon", NULL);
    return rb_ensure(call_super, (VALUE)&call, daemon_or_not, (VALUE)&call);
}

/* ---- Ruby's side ----------------------------------------------------------------------------- */

/*
 * @param those [Array<#after_fork>] called in each child, one after the other, with whether it is one of
 *   Process.daemon; frozen
 * @api private
 */
static VALUE set_callbacks(VALUE self, VALUE those)
{
    (void)self;
    Check_Type(those, T_ARRAY);
    return callbacks = those;
}

void mp_init_forks(VALUE memprofiler)
{
    after_fork = rb_intern("after_fork");
    callbacks = rb_obj_freeze(rb_ary_new());
    rb_gc_register_address(&callbacks);
    VALUE hook = rb_define_module_under(memprofiler, "ForkHook");
    rb_define_method(hook, "_fork", hook_fork, -1);
    rb_define_method(hook, "daemon", hook_daemon, -1);
    rb_define_singleton_method(memprofiler, "fork_callbacks=", set_callbacks, 1);
}
