/*
 * A tool that hooks into the VM as extensions do, for spec/other_tools/: it counts the objects of one
 * class that come and go, and can be asked to misbehave in its hook as others do, unknowingly.
 */
#include <ruby.h>
#include <ruby/debug.h>

static VALUE watched; /* a class that has a constant, so it stays */
static size_t born, gone;
static VALUE points[2];
static int raw;            /* hooks of ours, or TracePoints */
static ID manner;          /* what else the hook does */
static size_t every, turn; /* ... at each so-manieth object */

static void misbehave(void)
{
    if (!manner || ++turn % every) return;
    if (manner == rb_intern("collect")) {
        rb_gc_start();
    } else if (manner == rb_intern("malloc")) {
        void *held[50]; /* 50 MB: past any limit, so that it collects */
        for (int i = 0; i < 50; i++) held[i] = xmalloc(1000000);
        for (int i = 0; i < 50; i++) xfree(held[i]);
    } else if (manner == rb_intern("allocate")) {
        rb_str_new("x", 1); /* continues a sweep */
    } else if (manner == rb_intern("finish")) {
        if (!RTEST(rb_gc_disable())) rb_gc_enable(); /* finishes a sweep */
    }
}

static void came(VALUE obj)
{
    if (RB_BUILTIN_TYPE(obj) != T_OBJECT || RBASIC_CLASS(obj) != watched) return;
    born++;
    misbehave();
}

static void went(VALUE obj)
{
    gone += RB_BUILTIN_TYPE(obj) == T_OBJECT && RBASIC_CLASS(obj) == watched;
}

static void on_event(VALUE data, rb_trace_arg_t *arg)
{
    (void)data;
    VALUE obj = rb_tracearg_object(arg);
    if (rb_tracearg_event_flag(arg) == RUBY_INTERNAL_EVENT_NEWOBJ) {
        came(obj);
    } else {
        went(obj);
    }
}

static void on_point(VALUE point, void *data)
{
    (void)data;
    on_event(Qnil, rb_tracearg_from_tracepoint(point));
}

static const rb_event_flag_t events[] = {RUBY_INTERNAL_EVENT_NEWOBJ, RUBY_INTERNAL_EVENT_FREEOBJ};

/* RawTool.start(Class, :hook | :point, manner = nil, every = 1) */
static VALUE start(int argc, VALUE *argv, VALUE self)
{
    VALUE klass, kind, how, number;
    rb_scan_args(argc, argv, "22", &klass, &kind, &how, &number);
    watched = klass;
    born = gone = turn = 0;
    manner = NIL_P(how) ? 0 : SYM2ID(how);
    every = NIL_P(number) ? 1 : NUM2SIZET(number);
    raw = SYM2ID(kind) == rb_intern("hook");
    for (int i = 0; i < 2; i++) {
        if (raw) {
            rb_add_event_hook2((rb_event_hook_func_t)(void (*)(void))on_event, events[i], Qnil,
                               RUBY_EVENT_HOOK_FLAG_SAFE | RUBY_EVENT_HOOK_FLAG_RAW_ARG);
        } else {
            points[i] = rb_tracepoint_new(Qnil, events[i], on_point, NULL);
            rb_tracepoint_enable(points[i]);
        }
    }
    return self;
}

/* [objects of the class that came, that went] */
static VALUE stop(VALUE self)
{
    (void)self;
    for (int i = 0; i < 2; i++) {
        if (raw) {
            rb_remove_event_hook((rb_event_hook_func_t)(void (*)(void))on_event);
        } else {
            rb_tracepoint_disable(points[i]);
        }
    }
    return rb_ary_new_from_args(2, SIZET2NUM(born), SIZET2NUM(gone));
}

static VALUE disable_gc(VALUE self)
{
    (void)self;
    return rb_gc_disable();
}

void Init_raw_tool(void)
{
    VALUE tool = rb_define_module("RawTool");
    rb_gc_register_address(&points[0]);
    rb_gc_register_address(&points[1]);
    rb_intern("collect");
    rb_intern("malloc");
    rb_intern("allocate");
    rb_intern("finish");
    rb_define_singleton_method(tool, "start", start, -1);
    rb_define_singleton_method(tool, "stop", stop, 0);
    rb_define_singleton_method(tool, "disable_gc", disable_gc, 0);
}
