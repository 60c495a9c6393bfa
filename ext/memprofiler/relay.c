#include "relay.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/types.h>
#include <unistd.h>

#include "core/platform.h"

#define MAX_SIGNAL 127 /* real-time signals included, on all systems */

/* Smaller than PIPE_BUF, so it's written whole or not at all. */
typedef struct {
    int32_t number;
    int32_t sender;
    int32_t receiver;
} signal_record;

static volatile sig_atomic_t relay_fd = -1;

/* ---- in the handler -------------------------------------------------------------------------- */

static bool sent_by_process(const siginfo_t *info)
{
    /* Not `si_code <= 0`: macOS has a positive SI_USER. */
    return info->si_code == SI_USER || info->si_code == SI_QUEUE ||
           MP_SENT_TO_THREAD(info->si_code);
}

static void on_signal(int number, siginfo_t *info, void *context)
{
    (void)context;
    int saved = errno;
    signal_record record = {.number = number, .sender = 0, .receiver = (int32_t)getpid()};
    if (sent_by_process(info)) record.sender = (int32_t)info->si_pid;
    ssize_t written = write((int)relay_fd, &record, sizeof record);
    (void)written; /* there is nobody to tell */
    errno = saved;
}

/* ---- the module ------------------------------------------------------------------------------ */

static int signal_number(VALUE value)
{
    int number = NUM2INT(value);
    if (number < 1 || number > MAX_SIGNAL)
        rb_raise(rb_eArgError, "signal must be 1 to %d, not %d", MAX_SIGNAL, number);
    return number;
}

static VALUE relay_watch(VALUE self, VALUE fd, VALUE numbers)
{
    (void)self;
    Check_Type(numbers, T_ARRAY);
    relay_fd = NUM2INT(fd);
    for (long i = 0; i < RARRAY_LEN(numbers); i++) {
        int number = signal_number(rb_ary_entry(numbers, i));
        struct sigaction now, action;
        if (sigaction(number, NULL, &now) != 0) rb_sys_fail("sigaction");
        if (!(now.sa_flags & SA_SIGINFO) && now.sa_handler == SIG_IGN) continue;
        memset(&action, 0, sizeof action);
        action.sa_sigaction = on_signal;
        action.sa_flags = SA_SIGINFO | SA_RESTART;
        sigemptyset(&action.sa_mask);
        if (sigaction(number, &action, NULL) != 0) rb_sys_fail("sigaction");
    }
    return Qnil;
}

static VALUE relay_die(VALUE self, VALUE value)
{
    (void)self;
    int number = signal_number(value);
    const struct rlimit none = {0, 0};
    sigset_t set;
    setrlimit(RLIMIT_CORE, &none); /* the command has left its own core file */
    signal(number, SIG_DFL);
    sigemptyset(&set);
    sigaddset(&set, number);
    pthread_sigmask(SIG_UNBLOCK, &set, NULL);
    kill(getpid(), number);
    return Qnil;
}

void mp_init_relay(VALUE memprofiler)
{
    VALUE relay = rb_define_module_under(memprofiler, "Relay");
    rb_define_module_function(relay, "watch", relay_watch, 2);
    rb_define_module_function(relay, "die", relay_die, 1);
    rb_define_const(relay, "FORMAT", rb_obj_freeze(rb_usascii_str_new_cstr("l3")));
    rb_define_const(relay, "SIZE", INT2FIX(sizeof(signal_record)));
    rb_funcall(memprofiler, rb_intern("private_constant"), 1, ID2SYM(rb_intern("Relay")));
}
