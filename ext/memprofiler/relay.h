/*
 * Memprofiler::Relay: the signals of `memprofiler run`, which stands between a shell and the
 * command. Used in that wrapper only, never in a profiled program; private to lib/memprofiler/run.
 *
 * A signal from the terminal (Ctrl-C) goes to the whole process group, the command included; one
 * sent to the wrapper's own number must be passed on. Ruby's trap can't tell them apart, siginfo
 * can. And Ruby can't give itself the default action of SIGSEGV and its like, which it takes to end
 * as the command did.
 *
 *   watch(fd, numbers)  from now on each of these signals writes a record to fd and does nothing
 *                       else, in forked children too, to the same fd. One that is ignored stays
 *                       so: the command inherits that. There is no way back but the process's end.
 *   die(number)         ends the process by that signal, without a core file; returns only where
 *                       that signal doesn't end a process
 *   FORMAT, SIZE        a record, for String#unpack, and its bytes: the signal's number, the
 *                       process that sent it (0: the kernel, as for Ctrl-C), the one that got it
 *
 * Memory: one descriptor's number, of the whole process. fd is the caller's: it must not block, and
 * must stay open up to the end. Locks: GVL; the handler itself runs at any time, and calls nothing
 * but getpid and write. Failure: SystemCallError, ArgumentError for a number that is no signal's. A
 * record is lost where nobody has read for thousands of them.
 */
#ifndef MEMPROFILER_RELAY_H
#define MEMPROFILER_RELAY_H

#include <ruby.h>

void mp_init_relay(VALUE memprofiler);

#endif
