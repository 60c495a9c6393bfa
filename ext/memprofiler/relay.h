// The signals of `memprofiler run`, which stands between a shell and the
// command. Used in that wrapper only, never in a profiled program.
//
// A signal from the terminal (Ctrl-C) goes to the whole process group, the
// command included; one sent to the wrapper's own number must be passed on. Ruby's
// trap can't tell them apart, siginfo can. And Ruby can't give itself the
// default action of SIGSEGV and its like, as ending in the command's way needs.
//
// All functions need the GVL. The state is process-wide and owned by relay.c.
#ifndef MEMPROFILER_RELAY_H
#define MEMPROFILER_RELAY_H

#include <ruby.h>

// Defines the module Memprofiler::Relay, private to lib/memprofiler/run:
//   watch(fd, numbers)  from now on each of these signals writes a record to fd
//                       and does nothing else. One that is ignored stays so, for
//                       the command inherits that. fd must not block.
//                       A forked child goes on with that, to the same fd.
//                       Raises SystemCallError, or ArgumentError for a bad number.
//   unwatch             default actions again for all that are watched
//   die(number)         ends the process by that signal, without a core file;
//                       returns only where the signal doesn't end a process
//   FORMAT, SIZE        a record, for String#unpack, and its bytes: the signal's
//                       number, the process that sent it (0: the kernel, as for
//                       Ctrl-C), and the one that got it
void mp_init_relay(VALUE mMemprofiler);

#endif
