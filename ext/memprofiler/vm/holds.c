#include "holds.h"

#include "../core/mem.h"
#include "../core/snapshot.h"

struct mp_hold {
    mp_run *run;
    VALUE thread;
    uint64_t number;
    mp_hold *next;
};

static uint64_t holds_begun;

static mp_hold *holds;
static mp_run *buried;

static void free_run(mp_run *run)
{
    if (run->recorder) mp_recorder_release(run->recorder);
    mp_free(run->frames);
    mp_free(run->lines);
    mp_free(run->sieve);
    mp_run_lock_destroy(run);
    mp_free(run);
}

static void bury(mp_run *run)
{
    run->buried_at = rb_gc_count();
    run->next_buried = buried;
    buried = run;
    /* Never taken back: it is the growth since the last collection that counts. */
    rb_gc_adjust_memory_usage((ssize_t)mp_run_memsize(run));
}

void mp_runs_free_buried(void)
{
    if (!buried) return;
    size_t now = rb_gc_count();
    for (mp_run **link = &buried, *run; (run = *link) != NULL;) {
        if (run->buried_at == now) {
            link = &run->next_buried;
        } else {
            *link = run->next_buried;
            free_run(run);
        }
    }
}

void mp_run_release(mp_run *run)
{
    if (--run->holders) return;
    if (!run->met || rb_during_gc()) {
        free_run(run);
    } else {
        bury(run);
    }
}

mp_hold *mp_hold_begin(mp_run *run)
{
    run->holders++;
    mp_hold *hold = mp_malloc(sizeof *hold);
    if (!hold) return NULL;
    *hold = (mp_hold){run, rb_thread_current(), ++holds_begun, holds};
    holds = hold;
    return hold;
}

uint64_t mp_hold_number(const mp_hold *hold)
{
    return hold ? hold->number : 0;
}

int mp_hold_is_known(const mp_hold *hold, uint64_t number)
{
    for (const mp_hold *known = holds; known; known = known->next) {
        if (known == hold) return known->number == number;
    }
    return 0;
}

void mp_hold_end(mp_hold *hold, mp_run *run)
{
    if (hold) {
        mp_hold **link = &holds;
        while (*link != hold) link = &(*link)->next;
        *link = hold->next;
        mp_free(hold);
    }
    mp_run_release(run);
}

void mp_holds_forked(VALUE here)
{
    for (mp_hold **link = &holds, *hold; (hold = *link) != NULL;) {
        if (hold->thread == here) {
            link = &hold->next;
            continue;
        }
        *link = hold->next;
        mp_run *run = hold->run;
        mp_free(hold);
        mp_run_lock_init(run);
        run->met = 0; /* there is nobody left */
        mp_snapshots_keep(run->recorder, here);
        mp_run_release(run);
    }
}
