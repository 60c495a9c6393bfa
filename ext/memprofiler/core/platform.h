/*
 * All that is not in every C11 compiler, system and machine: what is needed of them, said where it
 * is missing, and what stands in for what only some have. How each is known to work is in
 * docs/platforms.md. (What differs between Rubies is in vm/compat.h; what the build asks of the
 * system, in platform.rb.)
 *
 * Nothing else here depends on a system, on the order of bytes or on alignment: words are read by
 * memcpy, from bytes.
 */
#ifndef MEMPROFILER_CORE_PLATFORM_H
#define MEMPROFILER_CORE_PLATFORM_H

#include <stdint.h>

#ifndef __GNUC__
#error "memprofiler needs gcc or clang"
#endif
/* Addresses of objects are 64 bits in all tables, and hashes are made by 128-bit products. */
#if UINTPTR_MAX < UINT64_MAX || !defined(__SIZEOF_INT128__)
#error "memprofiler needs a 64-bit system"
#endif

#include <limits.h>
#include <signal.h>

/* ---- the compiler ---------------------------------------------------------------------------- */

#define MP_LIKELY(condition) __builtin_expect(!!(condition), 1)
#define MP_RARELY(condition) __builtin_expect(!!(condition), 0)
#define MP_NOINLINE __attribute__((noinline))
#define MP_PRINTF(text, arguments) __attribute__((format(printf, text, arguments)))

__extension__ typedef unsigned __int128 mp_wide;

/* The number of the lowest bit that is set; one has to be. */
static inline unsigned mp_lowest_bit(uint64_t bits)
{
    return (unsigned)__builtin_ctzll(bits);
}

/* All registers that outlive a call are on the stack of the function that this stands in. */
#define MP_SAVE_REGISTERS() __builtin_unwind_init()
/* No call before this is the function's last step, which would take its frame away. */
#define MP_STILL_HERE() __asm__ volatile("" ::: "memory")

/* ---- the system ------------------------------------------------------------------------------ */

/* POSIX lets a system have none. */
#ifdef PATH_MAX
#define MP_PATH_MAX PATH_MAX
#else
#define MP_PATH_MAX 4096
#endif

/* Linux' for tgkill(2): raise(3) and pthread_kill(3) send by that. */
#ifdef SI_TKILL
#define MP_SENT_TO_THREAD(code) ((code) == SI_TKILL)
#else
#define MP_SENT_TO_THREAD(code) 0
#endif

#endif
