#include "hold_back.h"

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>

#define SIGNALS 32 /* those with a name; what is above are real-time signals */

static struct {
    int holders; /* blocks that run, of several threads */
    struct sigaction before;
} held[SIGNALS];

static void nothing(int number)
{
    (void)number;
}

static bool has_handler(const struct sigaction *action, void (*handler)(int))
{
    return !(action->sa_flags & SA_SIGINFO) && action->sa_handler == handler;
}

/* What stood there is kept before ours stands there: a child may be forked at any moment. */
int mp_hold_signal(int number)
{
    struct sigaction now, action;
    if (sigaction(number, NULL, &now) != 0) return 0;
    if (!has_handler(&now, SIG_IGN) && !has_handler(&now, nothing)) {
        held[number].before = now;
        memset(&action, 0, sizeof action);
        action.sa_handler = nothing;
        action.sa_flags = SA_RESTART | (now.sa_flags & SA_ONSTACK);
        sigemptyset(&action.sa_mask);
        if (sigaction(number, &action, NULL) != 0) return 0;
    }
    held[number].holders++;
    return 1;
}

static void put_back(int number)
{
    struct sigaction now;
    if (sigaction(number, NULL, &now) == 0 && has_handler(&now, nothing))
        sigaction(number, &held[number].before, NULL);
}

void mp_release_signal(int number)
{
    /* (A child that was forked in the block has released all of them.) */
    if (held[number].holders > 0 && --held[number].holders == 0) put_back(number);
}

static void forked(void)
{
    for (int number = 1; number < SIGNALS; number++) {
        held[number].holders = 0;
        put_back(number);
    }
}

/* ---- the method ------------------------------------------------------------------------------ */

typedef struct {
    int count;
    const VALUE *numbers;
    int held; /* so many of them */
} hold_back_call;

static VALUE hold_all(VALUE argument)
{
    hold_back_call *call = (hold_back_call *)argument;
    for (; call->held < call->count; call->held++) {
        if (!mp_hold_signal(FIX2INT(call->numbers[call->held]))) rb_sys_fail("sigaction");
    }
    return rb_yield(Qundef);
}

static VALUE release_all(VALUE argument)
{
    hold_back_call *call = (hold_back_call *)argument;
    while (call->held > 0) mp_release_signal(FIX2INT(call->numbers[--call->held]));
    return Qnil;
}

/*
 * Runs the block; the signals do nothing meanwhile, wherever they come from.
 * @param numbers [Array<Integer>]
 * @return what the block returns
 * @api private
 */
static VALUE hold_back(int argc, VALUE *argv, VALUE self)
{
    (void)self;
    for (int i = 0; i < argc; i++) {
        if (!FIXNUM_P(argv[i]) || FIX2LONG(argv[i]) < 1 || FIX2LONG(argv[i]) >= SIGNALS)
            rb_raise(rb_eArgError, "signal must be 1 to %d", SIGNALS - 1);
    }
    hold_back_call call = {.count = argc, .numbers = argv, .held = 0};
    return rb_ensure(hold_all, (VALUE)&call, release_all, (VALUE)&call);
}

void mp_init_hold_back(VALUE memprofiler)
{
    pthread_atfork(NULL, NULL, forked);
    rb_define_singleton_method(memprofiler, "hold_back", hold_back, -1);
}
