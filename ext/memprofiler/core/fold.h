/*
 * From raw to named: raw stacks and sites get names that outlive the frames, classes and threads
 * they are made of, what they counted moves there, and the raw ones go when nothing can hit them
 * again. mp_recorder_fold, mp_recorder_tidy and mp_recorder_untidy (recorder.h) live here.
 *
 * Memory, locks: the recorder's. Failure: a stack or site that can't be named is counted as
 * (overflow), which always exists.
 */
#ifndef MEMPROFILER_CORE_FOLD_H
#define MEMPROFILER_CORE_FOLD_H

#include "recorder.h"

/* One reference less on a raw site; the last one takes its hold on stack, class and thread along. */
void mp_raw_site_release(mp_recorder *recorder, uint32_t id);

#endif
