#include "turns.h"

#include <ruby.h>
#include <ruby/thread.h>

#include "../core/platform.h"

/*
 * A frame of its own, in which all registers that outlive a call are saved, and which stays for as
 * long as the call: with a jump out of it, what it saved would be gone.
 */
MP_NOINLINE void mp_turns_offer(void)
{
    MP_SAVE_REGISTERS();
    rb_thread_schedule();
    MP_STILL_HERE();
}

MP_NOINLINE void mp_turns_check(void)
{
    MP_SAVE_REGISTERS();
    rb_thread_check_ints();
    MP_STILL_HERE();
}

MP_NOINLINE void *mp_turns_without_gvl(void *(*work)(void *), void *argument)
{
    MP_SAVE_REGISTERS();
    void *result = rb_thread_call_without_gvl(work, argument, NULL, NULL);
    MP_STILL_HERE();
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
