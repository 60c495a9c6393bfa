/*
 * An audit of a recorder: every reference that its tables count is looked for, and each table's
 * own figures are counted again. No snapshot may be open, since it holds references of its own.
 */
#ifndef MEMPROFILER_SPEC_AUDIT_H
#define MEMPROFILER_SPEC_AUDIT_H

#include "audit_words.h"
#include "check.h"
#include "recorder.h"

#include <stdlib.h>

/* The flag of a raw stack that has given up its own reference (recorder.c). */
#define AUDIT_STACK_RETIRED 2u

typedef struct {
    uint32_t *sites, *stacks, *frames, *classes, *threads, *functions, *locations, *strings;
} audit_refs;

static inline uint32_t *audit_counters(const mp_slabs *slabs)
{
    return calloc((size_t)slabs->top + 1, sizeof(uint32_t));
}

static inline void audit_live(const mp_recorder *r, audit_refs *found)
{
    uint32_t living = 0;
    for (uint32_t id = 0; (id = mp_live_next(&r->live, id)) != 0; living++) {
        found->sites[mp_live_at(&r->live, id)->site]++;
    }
    CHECK_UINT(mp_live_count(&r->live), living);
}

static inline void audit_raw_sites(const mp_recorder *r, audit_refs *found)
{
    uint32_t in_use = 0;
    for (uint32_t id = 1; id <= r->raw_sites.slabs.top; id++) {
        const mp_site *site = mp_site_at(&r->raw_sites, id);
        if (!site->record.refs) {
            CHECK_UINT(found->sites[id], 0);
            continue;
        }
        in_use++;
        CHECK_UINT(site->record.refs, found->sites[id] + (site->retired ? 0 : 1));
        found->stacks[site->stack]++;
        found->classes[site->klass]++;
        found->threads[site->thread]++;
    }
    CHECK_UINT(r->raw_sites.slabs.in_use, in_use);
    CHECK_UINT(r->raw_sites.index.used, in_use);
}

static inline void audit_raw_stacks(const mp_recorder *r, audit_refs *found)
{
    uint32_t in_use = 0;
    for (uint32_t id = 1; id <= r->raw_stacks.slabs.top; id++) {
        const mp_stack *stack = mp_stacks_at(&r->raw_stacks, id);
        if (!stack->refs) {
            CHECK_UINT(found->stacks[id], 0);
            continue;
        }
        in_use++;
        CHECK_UINT(stack->refs, found->stacks[id] + (stack->flags & AUDIT_STACK_RETIRED ? 0 : 1));
        if (id == r->overflow_stack) continue; /* there for ever, as its frame is */
        mp_words at = stack->words;
        for (uint32_t i = 0; i < stack->depth; i++) found->frames[mp_words_next(&at) >> 32]++;
    }
    CHECK_UINT(r->raw_stacks.slabs.in_use, in_use);
    audit_words(&r->raw_stacks);
}

/* Frames, classes or threads; their names are counted in `names`. Made-up things, which never had
 * an address, have one reference for ever. */
static inline void audit_addressed(const mp_refs *refs, const uint32_t *found, uint32_t *names)
{
    uint32_t in_use = 0, dead = 0, addresses = 0, pending = 0;
    uint64_t dead_refs = 0;
    for (uint32_t id = 1; id <= refs->slabs.top; id++) {
        const mp_ref *ref = mp_refs_at(refs, id);
        if (ref->state == MP_REF_FREE) {
            CHECK_UINT(found[id], 0);
            continue;
        }
        bool made_up = ref->state == MP_REF_NAMED && !ref->address;
        in_use++;
        dead += ref->state == MP_REF_DEAD;
        dead_refs += ref->state == MP_REF_DEAD ? ref->refs : 0;
        pending += ref->state == MP_REF_PENDING;
        addresses += ref->address != 0;
        CHECK_UINT(ref->refs, found[id] + made_up);
        CHECK(ref->state != MP_REF_DEAD || ref->refs > 0);
        if (ref->state != MP_REF_PENDING) names[ref->name]++;
    }
    for (uint32_t id = refs->pending, newer = 0; id; newer = id, id = mp_refs_at(refs, id)->link) {
        CHECK_UINT(mp_refs_at(refs, id)->newer, newer);
        pending--;
    }
    CHECK_UINT(pending, 0);
    CHECK_UINT(refs->slabs.in_use, in_use);
    CHECK_UINT(refs->dead, dead);
    CHECK_UINT(refs->dead_refs, dead_refs);
    CHECK_UINT(refs->index.used, addresses);
}

static inline void audit_named(const mp_recorder *r, audit_refs *found)
{
    found->strings[r->unnamed_thread]++; /* there for ever */
    for (uint32_t id = 1; id <= r->named_stacks.slabs.top; id++) {
        const mp_stack *stack = mp_stacks_at(&r->named_stacks, id);
        CHECK(stack->refs > 0); /* for ever */
        mp_words at = stack->words;
        for (uint32_t i = 0; i < stack->depth; i++) found->locations[mp_words_next(&at)]++;
    }
    audit_words(&r->named_stacks);
    for (uint32_t id = 1; id <= r->named_sites.slabs.top; id++) {
        const mp_site *site = mp_site_at(&r->named_sites, id);
        CHECK(site->record.refs > 0 && site->stack > 0);
        CHECK(site->stack <= r->named_stacks.slabs.top);
        found->strings[site->klass]++;
        found->strings[site->thread]++;
    }
    for (uint32_t id = 1; id <= r->label_sets.slabs.top; id++) {
        const mp_label_set *set = mp_records_at(&r->label_sets, id);
        for (uint32_t i = 0; set->record.refs && i < set->n; i++) {
            found->strings[set->pairs[i].key]++;
            found->strings[set->pairs[i].value]++;
        }
    }
    for (uint32_t id = 1; id <= r->functions.locations.slabs.top; id++) {
        const mp_location *location = mp_locations_at(&r->functions, id);
        CHECK_UINT(location->record.refs, found->locations[id]);
        if (location->record.refs) found->functions[location->function]++;
    }
    for (uint32_t id = 1; id <= r->functions.functions.slabs.top; id++) {
        const mp_function *function = mp_functions_at(&r->functions, id);
        CHECK_UINT(function->record.refs, found->functions[id]);
        if (!function->record.refs) continue;
        found->strings[function->name]++;
        found->strings[function->system_name]++;
        found->strings[function->file]++;
    }
}

static inline void audit_strings(const mp_recorder *r, const audit_refs *found)
{
    uint32_t in_use = 0;
    size_t bytes = 0;
    for (uint32_t id = 1; id <= r->strings.slabs.top; id++) {
        const mp_string *string = mp_strings_at(&r->strings, id);
        CHECK_UINT(string->refs, found->strings[id]);
        in_use += string->refs != 0;
        bytes += string->refs ? string->length : 0;
    }
    CHECK_UINT(r->strings.slabs.in_use, in_use);
    CHECK_UINT(r->strings.bytes, bytes);
}

static inline void audit(const mp_recorder *r)
{
    audit_refs found = {
        audit_counters(&r->raw_sites.slabs),
        audit_counters(&r->raw_stacks.slabs),
        audit_counters(&r->frames.slabs),
        audit_counters(&r->classes.slabs),
        audit_counters(&r->threads.slabs),
        audit_counters(&r->functions.functions.slabs),
        audit_counters(&r->functions.locations.slabs),
        audit_counters(&r->strings.slabs),
    };
    audit_live(r, &found);
    audit_raw_sites(r, &found);
    audit_raw_stacks(r, &found);
    found.threads[0] = 0; /* no thread */
    audit_addressed(&r->frames, found.frames, found.functions);
    audit_addressed(&r->classes, found.classes, found.strings);
    audit_addressed(&r->threads, found.threads, found.strings);
    audit_named(r, &found);
    audit_strings(r, &found);
    uint32_t **all = (uint32_t **)&found;
    for (size_t i = 0; i < sizeof found / sizeof *all; i++) free(all[i]);
}

#endif
