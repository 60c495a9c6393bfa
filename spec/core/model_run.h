/* A model's whole life (model.h): which act comes next, and what holds after each. */
#ifndef MEMPROFILER_SPEC_MODEL_RUN_H
#define MEMPROFILER_SPEC_MODEL_RUN_H

#include "audit.h"
#include "model_snapshots.h"

/* What holds after every act, whatever it was. */
static inline void model_check(const model *m)
{
    const mp_recorder *r = m->recorder;
    uint32_t tracked = 0;
    for (uint32_t at = 0; at < M_OBJECTS; at++) {
        const model_object *o = &m->objects[at];
        tracked += o->tracked;
        if (m->frozen) continue;
        uint32_t live = mp_live_find(&r->live, model_address(m, M_OBJECT, at));
        if (!CHECK_INT(live != 0, o->tracked) || !live) continue;
        const mp_live_entry *entry = mp_live_at(&r->live, live);
        CHECK(entry->size == o->size && entry->largest == o->largest && entry->born == o->born);
        CHECK_UINT(mp_recorder_live_weight(r, entry->doublings), o->weight);
        CHECK_INT((entry->flags & MP_LIVE_CLASS_LATER) != 0, o->waits);
    }
    CHECK_UINT(mp_live_count(&r->live), tracked);
    CHECK_UINT(r->counts.samples, m->samples);
    CHECK_UINT(r->counts.reused, m->reused);
    CHECK_UINT(r->counts.lost_samples, m->lost);
    CHECK_UINT(r->counts.thinned, m->thinned);
    CHECK_UINT(mp_recorder_allocations(r), m->allocations);
    if (m->exact) CHECK(!r->counts.untracked && !r->counts.overflow);
    CHECK_UINT(r->counts.dropped, 0);
}

static inline void model_fill_a_table(model *m)
{
    mp_recorder *r = m->recorder;
    mp_slabs *tables[] = {&r->frames.slabs,
                          &r->classes.slabs,
                          &r->threads.slabs,
                          &r->raw_stacks.slabs,
                          &r->raw_sites.slabs,
                          &r->live.slabs,
                          &r->strings.slabs,
                          &r->functions.functions.slabs,
                          &r->functions.locations.slabs,
                          &r->named_stacks.slabs,
                          &r->named_sites.slabs,
                          &r->label_sets.slabs};
    mp_slabs *slabs = tables[model_roll(&m->source, sizeof tables / sizeof *tables)];
    slabs->cap = slabs->in_use + model_roll(&m->source, 5);
    m->exact = false;
}

/* What a stopped recorder may still be told. */
static inline void model_act_after_stop(model_run *run, uint32_t which)
{
    if (which < 80)
        model_flush_step(run);
    else if (which < 90)
        mp_recorder_tidy_some(run->m->recorder, 1 + model_roll(&run->m->source, 50));
    else
        mp_recorder_fold(run->m->recorder);
}

static inline void model_act(model_run *run)
{
    model *m = run->m;
    mp_recorder *r = m->recorder;
    model_source *source = &m->source;
    uint32_t which = model_roll(source, 128), at = model_roll(source, M_OBJECTS);
    for (uint32_t i = 0; i < M_OBJECTS && !m->objects[at].tracked; i++) at = (at + 1) % M_OBJECTS;
    bool copying = model_copying(run);
    if (m->frozen) {
        model_act_after_stop(run, which);
    } else if (which < 50) {
        model_allocate(m);
    } else if (which < 62) {
        /* The copy has sizes as of when it comes by: what they were is another test's. */
        if (!copying) model_measure(m, at, 40 + model_roll(source, 4) * model_roll(source, 2000));
    } else if (which < 66) {
        model_class_known(m, at, model_roll(source, 2));
    } else if (which < 72) {
        model_die(m, at);
    } else if (which < 76) {
        model_collect(m, copying);
    } else if (which < 82) {
        model_name_some(m, 1 + model_roll(source, 20));
    } else if (which < 84) {
        uint32_t most = model_roll(source, 40);
        if (model_roll(source, 2))
            mp_recorder_name_stacks(r, most);
        else
            mp_recorder_name_sites(r, most);
    } else if (which < 86) {
        mp_recorder_fold(r);
    } else if (which < 90) {
        model_name_all(m);
        mp_recorder_tidy_some(r, 1 + model_roll(source, 200));
    } else if (which < 92) {
        model_compact(m);
    } else if (which < 94) {
        if (!copying) mp_live_pack(&r->live);
    } else if (which == 94) {
        model_lose(m);
    } else if (which == 95) {
        mp_recorder_reseed(r, model_roll(source, 256));
    } else if (which < 122) {
        model_flush_step(run);
    } else if (which == 122) {
        model_keep(run);
    } else if (which == 123) {
        if (model_roll(source, 40) == 0) model_freeze(m);
    } else if (which < 126) {
        if (model_roll(source, 20) == 0) model_fill_a_table(m);
    } else if (!model_flushing(run)) {
        model_name_all(m);
        audit(r);
    }
}

/* `faults`: memory may fail. `acts`: how many. */
static inline void model_live_through(model_source source, bool faults, uint32_t acts)
{
    model_run run = {.m = model_new(source)};
    model *m = run.m;
    unsigned long failed = checks_failed;
    for (uint32_t i = 0; i < acts && checks_failed == failed; i++) {
        if (faults && model_roll(&m->source, 60) == 0) {
            mp_mem_fail_after(model_roll(&m->source, 30));
            m->exact = false;
        }
        if (faults && model_roll(&m->source, 20) == 0) mp_mem_fail_after(-1);
        model_act(&run);
        model_check(m);
    }
    mp_mem_fail_after(-1);
    for (uint32_t i = 0; i < M_SNAPSHOTS; i++) model_flush_end(&run.flushes[i]);
    for (unsigned labels = 0; labels < 16 && checks_failed == failed; labels += 5) {
        model_flush_whole(&run, labels);
    }
    model_name_all(m);
    audit(m->recorder);
    model_earlier_free(&run.earlier);
    model_free(m);
}

#endif
