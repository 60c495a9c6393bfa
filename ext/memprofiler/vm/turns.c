#include "turns.h"

#include <ruby.h>
#include <ruby/thread.h>

/*
 * A frame of its own, in which all registers that outlive a call are saved, and which stays for as
 * long as the call: with a jump out of it, what it saved would be gone.
 */
#define KEEPS_REGISTERS __attribute__((noinline))
#define SAVE_REGISTERS() __builtin_unwind_init()
#define STILL_HERE() __asm__ volatile("" ::: "memory")

KEEPS_REGISTERS void mp_turns_offer(void)
{
    SAVE_REGISTERS();
    rb_thread_schedule();
    STILL_HERE();
}

KEEPS_REGISTERS void mp_turns_check(void)
{
    SAVE_REGISTERS();
    rb_thread_check_ints();
    STILL_HERE();
}

KEEPS_REGISTERS void *mp_turns_without_gvl(void *(*work)(void *), void *argument)
{
    SAVE_REGISTERS();
    void *result = rb_thread_call_without_gvl(work, argument, NULL, NULL);
    STILL_HERE();
    return result;
}

static uint32_t haste = 1;

uint32_t mp_turns_share(uint32_t usual)
{
    return usual > haste ? usual / haste : 1;
}

void mp_turns_haste(uint32_t divisor)
{
    haste = divisor;
}
