/* What the VM side may tell a recorder, done to the recorder and to the model (model.h). */
#ifndef MEMPROFILER_SPEC_MODEL_ACTS_H
#define MEMPROFILER_SPEC_MODEL_ACTS_H

#include "model.h"

/* ---- names, as naming.c gives them ----------------------------------------------------------- */

static inline void model_name_frame(model *m, uint32_t id)
{
    mp_recorder *r = m->recorder;
    uint32_t number = model_number(m, M_FRAME, mp_refs_at(&r->frames, id)->address);
    uint32_t f = m->things[M_FRAME][number].what;
    char text[32];
    snprintf(text, sizeof text, "f%u", f / 2);
    uint32_t name = model_intern(m, text);
    snprintf(text, sizeof text, "app/%u.rb", f % 3);
    uint32_t file = model_intern(m, text);
    uint32_t flags = f >= M_OURS ? MP_FUNCTION_OURS : 0;
    uint32_t function = mp_recorder_function(r, name, file, f, flags);
    mp_refs_name(&r->frames, id, function, 0);
}

static inline void model_name(model *m, mp_refs *refs, uint32_t kind, const char *format,
                              uint32_t otherwise)
{
    uint32_t id = refs->pending, number = model_number(m, kind, mp_refs_at(refs, id)->address);
    char text[32];
    snprintf(text, sizeof text, "%s%u", format, m->things[kind][number].what);
    uint32_t name = model_intern(m, text);
    if (name == MP_STRING_NONE) {
        name = otherwise;
        mp_strings_retain(&m->recorder->strings, name);
    }
    mp_refs_name(refs, id, name, 0);
}

static inline void model_name_some(model *m, uint32_t most)
{
    mp_recorder *r = m->recorder;
    uint32_t other = mp_refs_at(&r->classes, r->overflow_class)->name;
    for (; most && r->frames.pending; most--) model_name_frame(m, r->frames.pending);
    for (; most && r->classes.pending; most--) model_name(m, &r->classes, M_KLASS, "Class", other);
    for (; most && r->threads.pending; most--) model_name(m, &r->threads, M_THREAD, "thread", 0);
}

static inline void model_name_all(model *m)
{
    model_name_some(m, UINT32_MAX);
}

/* ---- allocations ----------------------------------------------------------------------------- */

/* Something of this number and kind: what lives there, or a new one at an address that is free. */
static inline uint32_t model_thing_at(model *m, uint32_t kind, uint32_t kinds)
{
    uint32_t number = model_roll(&m->source, model_count[kind]);
    model_thing *thing = &m->things[kind][number];
    if (!thing->alive) *thing = (model_thing){true, model_roll(&m->source, kinds)};
    return number;
}

static inline uint32_t model_stack(model *m, char *text)
{
    uintptr_t frames[M_DEPTH];
    int lines[M_DEPTH];
    uint32_t depth = model_roll(&m->source, M_DEPTH + 1);
    int truncated = depth == M_DEPTH && model_roll(&m->source, 3) == 0;
    for (uint32_t i = 0; i < depth; i++) {
        /* Few of the frames are met often: else no stack would be met again. */
        uint32_t number = i < 2 ? model_thing_at(m, M_FRAME, M_FUNCTIONS) : i;
        if (i >= 2 && !m->things[M_FRAME][i].alive) m->things[M_FRAME][i] = (model_thing){true, i};
        frames[i] = model_address(m, M_FRAME, number);
        lines[i] = (int)model_roll(&m->source, 3) - 1; /* -1: none is known */
        uint32_t f = m->things[M_FRAME][number].what;
        if (f < M_OURS) model_function_text(f, lines[i] > 0 ? (uint32_t)lines[i] : 0, text);
    }
    if (truncated) strcat(text, "(truncated)  0:0;");
    if (!*text) strcat(text, "(no stack)  0:0;");
    return mp_recorder_stack(m->recorder, frames, lines, depth, truncated);
}

static inline void model_count_slot(model *m, const model_object *o, uint64_t size)
{
    uint64_t weight = m->recorder->options.interval;
    m->places[o->place].objects += weight;
    m->places[o->place].bytes += weight * size;
}

/* The object leaves the recorder's table. */
static inline void model_gone(model *m, model_object *o)
{
    if (o->waits) model_count_slot(m, o, o->largest);
    *o = (model_object){.alive = o->alive};
}

/* The address may be one whose object's death nobody saw. */
static inline void model_allocate(model *m)
{
    mp_recorder *r = m->recorder;
    model_source *source = &m->source;
    uint32_t at = model_roll(source, M_OBJECTS);
    m->allocations++;
    model_object *o = &m->objects[at];
    if (o->alive && model_roll(source, 4)) { /* mostly a place that is free */
        for (uint32_t i = 0; i < M_OBJECTS && m->objects[at].alive; i++) at = (at + 1) % M_OBJECTS;
        o = &m->objects[at];
    }
    if (--r->countdown > 0) { /* not met: whatever was there before is still thought to be */
        o->alive = true;
        return;
    }
    model_place place = {0};
    bool later = model_roll(source, 6) == 0;
    uint32_t stack = model_stack(m, place.stack), klass = m->hidden, thread = 0;
    if (later) {
        strcpy(place.klass, "(hidden)");
    } else {
        uint32_t number = model_thing_at(m, M_KLASS, 5);
        klass = mp_recorder_class(r, model_address(m, M_KLASS, number));
        sprintf(place.klass, "Class%u", m->things[M_KLASS][number].what);
    }
    if (model_roll(source, 4)) {
        uint32_t number = model_thing_at(m, M_THREAD, 4);
        thread = mp_recorder_thread(r, model_address(m, M_THREAD, number));
        sprintf(place.thread, "thread%u", m->things[M_THREAD][number].what);
    }
    uint32_t set = model_roll(source, M_SETS);
    strcpy(place.labels, m->sets[set].text);
    uint32_t slot = 40u << model_roll(source, 5);
    if (o->tracked) {
        m->reused++;
        model_gone(m, o);
    }
    uint64_t address = model_address(m, M_OBJECT, at);
    uint64_t untracked = r->counts.untracked, dropped = r->counts.dropped;
    mp_recorder_sample(r, &(mp_allocation){.stack = stack,
                                           .klass = klass,
                                           .thread = thread,
                                           .labels = m->sets[set].set,
                                           .address = address,
                                           .size = slot,
                                           .class_later = later,
                                           .foreign = (int)model_roll(source, 2)});
    mp_recorder_next_gap(r);
    CHECK_UINT(r->counts.dropped, dropped);
    m->samples++;
    *o = (model_object){.alive = true,
                        .place = model_place_of(m, &place),
                        .slot = slot,
                        .size = slot,
                        .largest = slot,
                        .born = m->collections};
    uint32_t live = mp_live_find(&r->live, address);
    o->tracked = live != 0;
    o->passing = live && mp_live_at(&r->live, live)->flags & MP_LIVE_PASSING;
    o->waits = live && later;
    o->weight = mp_recorder_live_weight(r, r->doublings);
    bool sure = r->options.track_one_in == 1 && !r->doublings;
    if (sure) CHECK_UINT(o->tracked && !o->passing, r->counts.untracked == untracked);
    if (sure && m->exact) CHECK(o->tracked);
    if (!o->waits) model_count_slot(m, o, slot);
}

/* ---- what becomes of them -------------------------------------------------------------------- */

static inline uint32_t model_live(const model *m, uint32_t at)
{
    return mp_live_find(&m->recorder->live, model_address(m, M_OBJECT, at));
}

/* Whether it's still there. */
static inline bool model_class_known(model *m, uint32_t at, bool known)
{
    mp_recorder *r = m->recorder;
    model_object *o = &m->objects[at];
    if (!o->waits) return true;
    uint32_t id = 0;
    model_place place = m->places[o->place];
    if (known) {
        uint32_t number = model_thing_at(m, M_KLASS, 5);
        id = mp_recorder_class(r, model_address(m, M_KLASS, number));
        sprintf(place.klass, "Class%u", m->things[M_KLASS][number].what);
    }
    o->place = model_place_of(m, &place);
    model_count_slot(m, o, o->largest);
    o->waits = false;
    CHECK_INT(mp_recorder_class_known(r, model_live(m, at), id), !o->passing);
    if (!o->passing) return true;
    model_gone(m, o);
    return false;
}

/* Sizes fall, too; what was allocated does not. */
static inline void model_measure(model *m, uint32_t at, uint32_t size)
{
    model_object *o = &m->objects[at];
    if (!o->tracked || !model_class_known(m, at, model_roll(&m->source, 3) > 0)) return;
    o->size = size;
    if (size > o->largest) {
        m->places[o->place].bytes += o->weight * (size - o->largest);
        o->largest = size;
    }
    mp_recorder_measured(m->recorder, model_live(m, at), size);
}

static inline void model_die(model *m, uint32_t at)
{
    model_object *o = &m->objects[at];
    if (o->tracked) {
        uint32_t live = model_live(m, at);
        if (CHECK(live != 0)) mp_recorder_died(m->recorder, live);
        model_gone(m, o);
    }
    o->alive = false;
}

static inline void model_things_die(model *m, mp_refs *refs, uint32_t kind, uint32_t percent)
{
    for (uint32_t i = 0; i < model_count[kind]; i++) {
        if (!m->things[kind][i].alive || model_roll(&m->source, 100) >= percent) continue;
        uint32_t id = mp_refs_find(refs, model_address(m, kind, i));
        if (id && mp_refs_at(refs, id)->state == MP_REF_PENDING) continue; /* pinned */
        if (id) mp_refs_die(refs, id);
        m->things[kind][i].alive = false;
    }
}

static inline void model_thin(model *m)
{
    mp_recorder *r = m->recorder;
    mp_recorder_thin(r);
    for (uint32_t at = 0; at < M_OBJECTS; at++) {
        model_object *o = &m->objects[at];
        if (!o->tracked) continue;
        uint64_t weight = mp_recorder_live_weight(r, r->doublings);
        if (model_live(m, at)) {
            if (o->weight < weight) o->weight = weight;
            continue;
        }
        CHECK(o->weight < weight);
        m->thinned++;
        model_gone(m, o);
    }
}

/* A collection that is seen. `copying`: a cursor is open. */
static inline void model_collect(model *m, bool copying)
{
    mp_recorder *r = m->recorder;
    model_source *source = &m->source;
    bool major = model_roll(source, 2);
    uint32_t percent = model_roll(source, 60), unsettled = 0;
    mp_recorder_marked(r);
    m->collections++;
    for (uint32_t id = 0; (id = mp_live_next_unsettled(&r->live, id)) != 0;) unsettled++;
    for (uint32_t at = 0; at < M_OBJECTS; at++) {
        model_object *o = &m->objects[at];
        unsettled -= o->tracked && !o->settled;
        if (!o->alive || (o->settled && !major)) continue;
        if (!model_class_known(m, at, model_roll(source, 3) > 0)) continue;
        if (model_roll(source, 100) < percent) {
            model_die(m, at);
        } else if (o->tracked) {
            o->settled = model_roll(source, 2);
            mp_live_settle(&r->live, model_live(m, at), o->settled);
        }
    }
    CHECK_UINT(unsettled, 0);
    if (model_roll(source, 3) == 0) {
        uint32_t odds = model_roll(source, 50);
        model_things_die(m, &r->frames, M_FRAME, odds);
        model_things_die(m, &r->classes, M_KLASS, odds);
        model_things_die(m, &r->threads, M_THREAD, odds);
    }
    r->completed = r->collections;
    m->completed = m->collections;
    if (r->wants_thinning && !copying) model_thin(m);
    mp_recorder_relax(r);
}

/* One that is not. */
static inline void model_lose(model *m)
{
    for (uint32_t at = 0; at < M_OBJECTS; at++) {
        model_object *o = &m->objects[at];
        m->lost += o->tracked;
        model_gone(m, o);
        o->alive = false;
    }
    mp_recorder_lost(m->recorder);
    /* What has no name yet is pinned, and keeps its address. */
    mp_refs *refs[M_KINDS] = {NULL, &m->recorder->frames, &m->recorder->classes,
                              &m->recorder->threads};
    for (uint32_t kind = M_FRAME; kind < M_KINDS; kind++) {
        for (uint32_t i = 0; i < model_count[kind]; i++) {
            if (!mp_refs_find(refs[kind], model_address(m, kind, i)))
                m->things[kind][i].alive = false;
        }
    }
}

static uint32_t model_delta[M_KINDS];

static inline uint64_t model_moved_to(uint64_t address)
{
    uint32_t kind = M_OBJECT;
    for (uint32_t k = M_FRAME; k < M_KINDS; k++) {
        if (address >= model_base[k] && address < model_base[k] + (M_OBJECTS << 6)) kind = k;
    }
    uint64_t number = (address - model_base[kind]) >> 6;
    return model_base[kind] + ((number ^ model_delta[kind]) << 6);
}

/* As run.c does it. Pending things would be pinned: there are none. */
static inline void model_compact(model *m)
{
    mp_recorder *r = m->recorder;
    model_name_all(m);
    for (uint32_t k = 0; k < M_KINDS; k++) {
        model_delta[k] = model_roll(&m->source, model_count[k]);
        m->mask[k] ^= model_delta[k];
    }
    mp_live_rekey(&r->live, model_moved_to);
    mp_refs_rekey(&r->frames, model_moved_to);
    mp_refs_rekey(&r->classes, model_moved_to);
    mp_refs_rekey(&r->threads, model_moved_to);
    mp_recorder_forget_stacks(r);
}

static inline void model_freeze(model *m)
{
    model_name_all(m);
    mp_recorder_fold(m->recorder);
    mp_recorder_freeze(m->recorder);
    m->frozen = true;
    for (uint32_t at = 0; at < M_OBJECTS; at++) {
        model_object *o = &m->objects[at];
        if (!o->waits) continue;
        model_count_slot(m, o, o->largest);
        o->waits = false;
        if (o->passing) model_gone(m, o);
    }
}

#endif
