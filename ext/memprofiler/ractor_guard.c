#include "ractor_guard.h"

#include "attempt.h"
#include "vm/ractors.h"

static VALUE memprofiler;

typedef struct {
    int argc;
    VALUE *argv;
} new_call;

static VALUE stop_for_ractor(VALUE unused)
{
    (void)unused;
    return rb_funcall(memprofiler, rb_intern("stop_for_ractor"), 0);
}

static VALUE new_ractor(VALUE argument)
{
    new_call *call = (new_call *)argument;
    if (mp_in_main_ractor()) mp_attempt(stop_for_ractor, Qnil); /* collectors are the main one's */
    return rb_call_super_kw(call->argc, call->argv, RB_PASS_CALLED_KEYWORDS);
}

static VALUE began(VALUE unused)
{
    (void)unused;
    mp_ractor_began();
    return Qnil;
}

/* No collector can be started until it is there. */
static VALUE guarded_new(int argc, VALUE *argv, VALUE self)
{
    (void)self;
    new_call call = {.argc = argc, .argv = argv};
    mp_ractor_begins();
    return rb_ensure(new_ractor, (VALUE)&call, began, Qnil);
}

void mp_init_ractor_guard(VALUE module)
{
    memprofiler = module;
    rb_define_method(rb_define_module_under(module, "RactorGuard"), "new", guarded_new, -1);
}
