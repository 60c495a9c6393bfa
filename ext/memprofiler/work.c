#include "work.h"

#include <unistd.h>

#include "collector.h"
#include "vm/own.h"
#include "vm/turns.h"

/*
 * The GVL is offered to others after so long; a piece ends at the next look at the clock. Where they
 * take it for long, some 100 ms each, pieces are longer, or a flush would take minutes.
 */
#define PIECE_NS 5000000u
#define LONG_PIECE_NS 12000000u
#define LONG_WAIT_NS 50000000u

/* ---- its memory ------------------------------------------------------------------------------ */

static void let_go(mp_work *work)
{
    if (!work->run) return;
    if (work->let_go) work->let_go(work);
    mp_hold_end(work->hold, work->run);
    work->run = NULL;
}

static void dropped(void *ptr)
{
    mp_work *work = ptr;
    /* In a forked child the work of other threads has been let go of. */
    if (work->run && (work->pid == getpid() || mp_hold_is_known(work->hold, work->hold_number))) {
        let_go(work);
        if (work->paused) mp_own_resume_of(work->thread);
        if (work->own) mp_own_end_of(work->thread);
    }
    xfree(work);
}

static const rb_data_type_t work_type = {
    .wrap_struct_name = "Memprofiler work",
    .function = {.dfree = dropped},
    .flags = RUBY_TYPED_FREE_IMMEDIATELY,
};

static VALUE make_keeper(VALUE size)
{
    return rb_data_typed_object_zalloc(0, (size_t)size, &work_type);
}

mp_work *mp_work_new(size_t size, VALUE *keeper)
{
    int error;
    mp_own_begin();
    *keeper = rb_protect(make_keeper, (VALUE)size, &error);
    mp_own_end();
    if (error) rb_jump_tag(error);
    return DATA_PTR(*keeper);
}

/* ---- from its beginning to its end ----------------------------------------------------------- */

static void resume(mp_work *work)
{
    if (work->paused) mp_own_resume_of(work->thread);
    work->paused = 0;
}

static VALUE ends(VALUE arg)
{
    mp_work *work = (mp_work *)arg;
    let_go(work);
    mp_work_own_ends(work);
    resume(work);
    return Qnil;
}

VALUE mp_work_do(mp_work *work, mp_run *run, VALUE (*body)(VALUE))
{
    work->run = run;
    work->thread = rb_thread_current();
    work->pid = getpid();
    work->hold = mp_hold_begin(run);
    work->hold_number = mp_hold_number(work->hold);
    mp_work_own_begins(work);
    mp_work_piece_begins(work);
    return rb_ensure(body, (VALUE)work, ends, (VALUE)work);
}

void mp_work_through(mp_run *run, VALUE (*body)(VALUE))
{
    VALUE keeper;
    mp_work_do(mp_work_new(sizeof(mp_work), &keeper), run, body);
    RB_GC_GUARD(keeper);
}

/* ---- pieces ---------------------------------------------------------------------------------- */

void mp_work_own_begins(mp_work *work)
{
    resume(work);
    mp_own_begin();
    work->own = 1;
}

void mp_work_own_ends(mp_work *work)
{
    if (work->own) mp_own_end();
    work->own = 0;
    if (!work->paused) work->paused = mp_own_pause();
}

void mp_work_piece_begins(mp_work *work)
{
    work->since = mp_clock_ns();
}

void mp_work_piece_ends(mp_work *work)
{
    uint64_t held = mp_clock_ns() - work->since;
    work->held_ns += held;
    if (held > work->longest_ns) work->longest_ns = held;
}

/* What runs in this very thread meanwhile (trap handlers, finalizers) is the program's. */
int mp_work_offer_gvl(mp_work *work)
{
    uint32_t piece_ns = mp_turns_share(work->waited ? LONG_PIECE_NS : PIECE_NS);
    if (mp_clock_ns() - work->since < piece_ns) return 0;
    mp_work_piece_ends(work);
    mp_work_own_ends(work);
    uint64_t offered = mp_clock_ns();
    mp_turns_offer();
    mp_work_own_begins(work);
    mp_work_piece_begins(work);
    work->waited = work->since - offered > LONG_WAIT_NS;
    return 1;
}
