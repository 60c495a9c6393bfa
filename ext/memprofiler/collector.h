/*
 * Memprofiler::Collector: a set of options and the current run, if it was ever started.
 *
 * The Ruby object marks what its run has pending: not write-barrier protected, so that every
 * collection calls its dmark. Locks: the GVL of the main Ractor.
 */
#ifndef MEMPROFILER_COLLECTOR_H
#define MEMPROFILER_COLLECTOR_H

#include "errors.h"
#include "vm/run.h"

typedef struct {
    uint64_t number; /* no other one has it, in this process or one that is forked */
    mp_options options;
    int seeded; /* the seed was given; else each run draws its own */
    mp_liveness liveness;
    mp_run *run; /* NULL before the first start */

    /* The last flush: nanoseconds with the GVL held, and the longest piece of that. */
    uint64_t flush_gvl_ns, flush_piece_ns;
    uint64_t flush_bytes; /* the most it held beside the run */
    uint64_t flushes;
} mp_collector;

/* Raises TypeError for anything else. */
mp_collector *mp_collector_of(VALUE self);
uint64_t mp_clock_ns(void);
/* Raises RactorError: a finalizer, from 4.0, may run in any Ractor. */
void mp_require_main_ractor(void);
/* Stop a run as a flush works, letting others in now and then; may leave by longjmp. (flush.c) */
void mp_stop_in_pieces(mp_run *run);
/* As GC.start, whatever the program has made of that name, and while GC is disabled too. */
void mp_full_gc(void);

void mp_init_collector(VALUE memprofiler);
/* flush.c */
/* Whether before_flush (lib/memprofiler/vm_faults.rb) is asked from now on. */
void mp_look_before_flush(int whether);
/* False for Qundef; raises TypeError, naming the argument. */
int mp_boolean(const char *name, VALUE value);
VALUE mp_collector_flush(int argc, VALUE *argv, VALUE self);
VALUE mp_collector_flush_block(VALUE self, VALUE labels);
VALUE mp_collector_flush_allocs(VALUE self, VALUE collect);
VALUE mp_collector_flush_since(int argc, VALUE *argv, VALUE self);
VALUE mp_collector_baseline(int argc, VALUE *argv, VALUE self);
void mp_init_flush(VALUE memprofiler);
/* stats.c */
VALUE mp_collector_stats(VALUE self);

#endif
