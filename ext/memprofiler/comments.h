/*
 * What a profile says about itself, one "key: value" a line: how it was sampled, and whatever was
 * dropped, thinned or lost. The report's head (lib/memprofiler/metadata.rb) is read from it.
 *
 * Memory: inside the struct. Locks: GVL.
 */
#ifndef MEMPROFILER_COMMENTS_H
#define MEMPROFILER_COMMENTS_H

#include "earlier.h"

#define MP_COMMENTS_MAX 32
#define MP_COMMENT_LENGTH 160

typedef struct {
    const char *lines[MP_COMMENTS_MAX];
    uint32_t count;
    char text[MP_COMMENTS_MAX][MP_COMMENT_LENGTH];
} mp_comments;

void mp_init_comments(void);
/*
 * All allocate nothing. As of now; `heap_bytes`: 0 if they were not measured; `since`: what is
 * counted begins there, or (NULL) with the run.
 */
void mp_comments_write(mp_comments *comments, const mp_run *run, uint64_t heap_bytes,
                       const mp_earlier *since);
/* It's a difference: of what, from which moment to which, and over how long. */
void mp_comments_write_difference(mp_comments *comments, const char *of, const mp_run *run,
                                  const mp_earlier *since, int64_t until, int64_t nanos);
/* From now on profiles say that this Ruby makes objects past all hooks (lib/memprofiler/vm_faults.rb). */
void mp_comments_bypassed(void);
/* What is known when the living have been copied. */
void mp_comments_write_living(mp_comments *comments, uint64_t samples, uint64_t objects);

#endif
