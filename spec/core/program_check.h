/*
 * What a recorder says about a simulated program (program.h), read from its tables, and held
 * against the truth.
 */
#ifndef MEMPROFILER_SPEC_PROGRAM_CHECK_H
#define MEMPROFILER_SPEC_PROGRAM_CHECK_H

#include "program.h"
#include "snapshot.h"

#include <math.h>

#define OTHER UINT32_MAX

static inline uint32_t number_in(const mp_recorder *r, uint32_t string, const char *prefix)
{
    const mp_string *at = mp_strings_at(&r->strings, string);
    char text[32] = {0};
    size_t length = strlen(prefix);
    if (at->length >= sizeof text || at->length <= length) return OTHER;
    memcpy(text, at->bytes, at->length);
    return strncmp(text, prefix, length) ? OTHER : (uint32_t)strtoul(text + length, NULL, 10);
}

/* The shape of a named stack, by the names, first lines and lines of its functions. */
static inline uint32_t shape_of(const program *p, uint32_t named_stack)
{
    const mp_recorder *r = p->recorder;
    const mp_stack *stack = mp_stacks_at(&r->named_stacks, named_stack);
    for (uint32_t s = 0; s < SHAPES; s++) {
        if (p->shape[s].depth != stack->depth) continue;
        uint32_t i = 0;
        mp_words at = stack->words;
        for (; i < stack->depth; i++) {
            const mp_location *location =
                mp_locations_at(&r->functions, (uint32_t)mp_words_next(&at));
            const mp_function *function = mp_functions_at(&r->functions, location->function);
            uint32_t f = p->shape[s].function[i];
            if (number_in(r, function->name, "f") != f / 2 || function->start_line != f) break;
            if (location->line != (uint32_t)p->shape[s].line[i]) break;
        }
        if (i == stack->depth) return s;
    }
    return OTHER;
}

/* Where the counters of a named site belong; NULL for a made-up stack. */
static inline values *cell_of(const program *p, uint32_t named, cells into)
{
    const mp_recorder *r = p->recorder;
    const mp_site *site = mp_site_at(&r->named_sites, named);
    uint32_t shape = shape_of(p, site->stack), klass = number_in(r, site->klass, "Class");
    uint32_t thread = number_in(r, site->thread, "thread");
    if (shape == OTHER || thread >= THREADS) return NULL;
    return &into[shape][klass < CLASSES ? klass : HIDDEN][thread];
}

/* All that was recorded; what has gone to made-up stacks is added to `other`. Names and folds. */
static inline void read_recorder(program *p, cells into, values *other)
{
    mp_recorder *r = p->recorder;
    name_all(p);
    mp_recorder_fold(r);
    memset(into, 0, sizeof(values) * SHAPES * (CLASSES + 1) * THREADS);
    memset(other, 0, sizeof *other);
    values **at = calloc((size_t)r->named_sites.slabs.top + 1, sizeof *at);
    for (uint32_t id = 1; id <= r->named_sites.slabs.top; id++) {
        at[id] = cell_of(p, id, into);
        if (!at[id]) at[id] = other;
        at[id]->alloc_objects += mp_site_at(&r->named_sites, id)->objects;
        at[id]->alloc_space += mp_site_at(&r->named_sites, id)->bytes;
    }
    for (uint32_t id = 0; (id = mp_live_next(&r->live, id)) != 0;) {
        const mp_live_entry *entry = mp_live_at(&r->live, id);
        if (entry->born >= r->completed) continue;
        values *v = at[mp_site_at(&r->raw_sites, entry->site)->named];
        uint64_t weight = mp_recorder_live_weight(r, entry->doublings);
        v->inuse_objects += weight;
        v->inuse_space += weight * entry->size;
    }
    free(at);
}

/* The truth, with what is in use counted from the objects. */
static inline void read_truth(const program *p, cells into)
{
    memcpy(into, p->truth, sizeof p->truth);
    for (uint32_t at = 0; at < OBJECTS; at++) {
        const object *o = &p->objects[at];
        if (!o->alive || o->lost || o->born >= p->collections) continue;
        values *v = &into[o->shape][o->klass][o->thread];
        v->inuse_objects++;
        v->inuse_space += o->measured;
    }
}

static inline values total(cells of)
{
    values sum = {0};
    values *v = &of[0][0][0];
    for (uint32_t i = 0; i < SHAPES * (CLASSES + 1) * THREADS; i++, v++) {
        sum.alloc_objects += v->alloc_objects;
        sum.alloc_space += v->alloc_space;
        sum.inuse_objects += v->inuse_objects;
        sum.inuse_space += v->inuse_space;
    }
    return sum;
}

static inline void check_same(cells actual, cells expected)
{
    const values *a = &actual[0][0][0], *e = &expected[0][0][0];
    uint32_t wrong = 0;
    for (uint32_t i = 0; i < SHAPES * (CLASSES + 1) * THREADS; i++, a++, e++) {
        if (memcmp(a, e, sizeof *a) == 0) continue;
        if (wrong++ > 3) continue;
        fprintf(stderr,
                "  shape %u class %u thread %u: %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64
                ", not %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 "\n",
                i / THREADS / (CLASSES + 1), i / THREADS % (CLASSES + 1), i % THREADS,
                a->alloc_objects, a->alloc_space, a->inuse_objects, a->inuse_space,
                e->alloc_objects, e->alloc_space, e->inuse_objects, e->inuse_space);
    }
    CHECK_UINT(wrong, 0);
}

/* At interval 1, every figure is the true one. */
static inline void check_exact(program *p)
{
    static cells recorded, truth;
    values other;
    read_recorder(p, recorded, &other);
    read_truth(p, truth);
    check_same(recorded, truth);
    CHECK(!other.alloc_objects && !other.alloc_space && !other.inuse_objects);
}

/* Cumulative values of a named site never fall, and a site never goes. Names and folds. */
static inline void check_cumulative(program *p)
{
    const mp_recorder *r = p->recorder;
    name_all(p);
    mp_recorder_fold(p->recorder);
    uint32_t sites = r->named_sites.slabs.top, fallen = 0;
    p->last_objects = realloc(p->last_objects, (sites + 1) * sizeof *p->last_objects);
    p->last_bytes = realloc(p->last_bytes, (sites + 1) * sizeof *p->last_bytes);
    CHECK(sites >= p->last_sites);
    for (uint32_t id = 1; id <= sites; id++) {
        const mp_site *site = mp_site_at(&r->named_sites, id);
        if (id <= p->last_sites) {
            fallen += site->objects < p->last_objects[id] || site->bytes < p->last_bytes[id];
        }
        p->last_objects[id] = site->objects;
        p->last_bytes[id] = site->bytes;
    }
    p->last_sites = sites;
    CHECK_UINT(fallen, 0);
}

/* From new to begun, prepared in pieces; NULL and the error when memory ran out. */
static inline int snapshot_begun(mp_snapshot **out, mp_recorder *recorder, unsigned labels,
                                 uintptr_t owner)
{
    int error = mp_snapshot_new(out, recorder, labels, owner);
    for (int done = 0; !error && !done;) error = mp_snapshot_prepare(*out, 30, &done);
    if (!error) error = mp_snapshot_begin(*out);
    if (error && *out) mp_snapshot_free(*out);
    if (error) *out = NULL;
    return error;
}

#endif
