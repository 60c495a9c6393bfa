/*
 * The least that a hook on allocations can cost: raw hooks that do nothing. What a profiler adds
 * is measured against this, since no sampling rate goes below it.
 */
#include <ruby.h>
#include <ruby/debug.h>

void Init_empty_hook(void);

/* Ruby declares hooks by the type without, and calls raw ones with, the second argument below. */
static void on_event(VALUE data, const rb_trace_arg_t *arg)
{
    (void)data;
    (void)arg;
}

#define HOOK ((rb_event_hook_func_t)(void (*)(void))on_event)

/* EmptyHook.start(free): hooks allocations, and with a true argument deaths as well. */
static VALUE start(VALUE self, VALUE with_free)
{
    rb_event_flag_t events = RUBY_INTERNAL_EVENT_NEWOBJ;
    if (RTEST(with_free)) events |= RUBY_INTERNAL_EVENT_FREEOBJ;
    rb_add_event_hook2(
        HOOK, events, Qnil,
        (rb_event_hook_flag_t)(RUBY_EVENT_HOOK_FLAG_SAFE | RUBY_EVENT_HOOK_FLAG_RAW_ARG));
    return self;
}

static VALUE stop(VALUE self)
{
    rb_remove_event_hook(HOOK);
    return self;
}

void Init_empty_hook(void)
{
    VALUE module = rb_define_module("EmptyHook");
    rb_define_singleton_method(module, "start", start, 1);
    rb_define_singleton_method(module, "stop", stop, 0);
}
