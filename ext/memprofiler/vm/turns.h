/*
 * Where this thread lets others have the GVL. All of the extension's own waits come through here, since
 * Ruby alone does not keep what its caller needs: a thread that waits is marked by what setjmp has
 * saved of its registers, and glibc's setjmp (which Ruby uses on x86-64, 3.1 to 4.1) saves rbp
 * scrambled. An object that only rbp held was collected meanwhile: on Debian's 3.4.11 half of the
 * programs died that decoded profiles in three threads. (Up to 3.3 a call without the GVL had a
 * second fault of the kind, Bug #20493.) These functions have all registers on the stack first.
 *
 * Memory: none. Locks: GVL on entry and on return. What comes in meanwhile may raise.
 */
#ifndef MEMPROFILER_VM_TURNS_H
#define MEMPROFILER_VM_TURNS_H

#include <stdint.h>

/* Others may run, and interrupts (trap handlers, Thread#kill, Timeout) come in. */
void mp_turns_offer(void);
/* Interrupts that wait come in; others run if this thread's time is up. */
void mp_turns_check(void);
/* What `work` gives; it has no GVL, may touch no object, and can't be interrupted. */
void *mp_turns_without_gvl(void *(*work)(void *), void *argument);

/*
 * Long work keeps the GVL for so many nanoseconds, or items between two looks at the clock: `usual`
 * ones, divided by a number that tests set for others to come in at far more places. Never 0.
 */
uint32_t mp_turns_share(uint32_t usual);
/* 1..2^31-1; 1 unless a test sets it. */
void mp_turns_haste(uint32_t divisor);

#endif
