#include "snapshot.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "error.h"
#include "mem.h"
#include "snapshot_parts.h"

static char program[64] = "ruby";

static const char *const literals[N_LITERALS] = {
    "alloc_objects", "alloc_space", "inuse_objects", "inuse_space", "count",
    "bytes",         "objects",     program,         "class",       "thread",
    "age",           "collections", "pid",
};

void mp_snapshot_program(const char *name)
{
    snprintf(program, sizeof program, "%s", name);
}

/* ---- under the GVL --------------------------------------------------------------------------- */

/* True if it could not be given to the site that it will be found at later. */
static int take(mp_snapshot *s, const mp_live_entry *entry)
{
    if (entry->born >= s->completed) return 0; /* no collection has seen it alive yet */
    if (entry->flags & MP_LIVE_PASSING) return 0;
    mp_recorder *r = s->recorder;
    uint64_t objects = mp_recorder_live_weight(r, entry->doublings);
    uint64_t bytes = objects * entry->size;
    uint32_t site = mp_site_at(&r->raw_sites, entry->site)->named;
    /* Not one of ours: its class came to light meanwhile. In use it is all the same. */
    int elsewhere = site == 0 || site > s->sites.top;
    if (elsewhere) site = r->overflow_named_site;
    s->live_samples++;
    s->live_objects += objects;
    if (s->living) {
        if (s->n_living < s->room_living) {
            s->living[s->n_living++] =
                (aged){site, s->completed - entry->born, objects, entry->size};
        }
    } else {
        figures *of = &s->figures[site];
        of->values[INUSE_OBJECTS] += objects;
        of->values[INUSE_SPACE] += bytes;
        of->variances[INUSE_OBJECTS] += mp_recorder_variance(objects, 1);
        of->variances[INUSE_SPACE] += mp_recorder_variance(objects, entry->size);
        if (s->unchanged && !elsewhere && mp_baseline_has(s->since, entry, site)) {
            s->unchanged[site].objects += mp_recorder_variance(objects, 1);
            s->unchanged[site].bytes += mp_recorder_variance(objects, entry->size);
        }
    }
    return elsewhere;
}

static void entry_going(mp_live_cursor *cursor, const mp_live_entry *entry)
{
    take((mp_snapshot *)cursor, entry);
}

static int copy_items(items *copy, const mp_slabs *slabs)
{
    copy->size = slabs->size;
    copy->top = slabs->top;
    copy->dir = mp_malloc(slabs->dir_len * sizeof *copy->dir + 1);
    if (!copy->dir) return MP_ENOMEM;
    if (slabs->dir_len) memcpy(copy->dir, slabs->dir, slabs->dir_len * sizeof *copy->dir);
    return MP_OK;
}

static int place(mp_snapshot *s, uint32_t string)
{
    return mp_string_index_place(&s->index, string) == MP_STRING_NONE ? MP_ENOMEM : MP_OK;
}

static int place_text(mp_snapshot *s, const char *text, uint32_t *at)
{
    mp_strings *strings = &s->recorder->strings;
    uint32_t id = mp_strings_intern_own(strings, text, strlen(text));
    if (id == MP_STRING_NONE) return MP_ENOMEM;
    *at = mp_string_index_place(&s->index, id);
    mp_strings_release(strings, id);
    return *at == MP_STRING_NONE ? MP_ENOMEM : MP_OK;
}

static int place_literals(mp_snapshot *s)
{
    for (int i = 0; i < N_LITERALS; i++) {
        if (place_text(s, literals[i], &s->literal[i]) != MP_OK) return MP_ENOMEM;
    }
    if (!(s->labels & MP_LABEL_PID)) return MP_OK;
    char pid[24];
    snprintf(pid, sizeof pid, "%ld", (long)getpid());
    return place_text(s, pid, &s->pid);
}

/* ---- preparations ---------------------------------------------------------------------------- */

static int place_sites(mp_snapshot *s, uint32_t end, uint32_t *most)
{
    const mp_records *sites = &s->recorder->named_sites;
    for (; *most > 0 && s->placed_sites < end; --*most) {
        const mp_site *site = mp_site_at(sites, ++s->placed_sites);
        /* A label that nobody asked for may hold what nobody wants to be seen. */
        if (s->labels & MP_LABEL_CLASS && place(s, site->klass)) return MP_ENOMEM;
        if (s->labels & MP_LABEL_THREAD && place(s, site->thread)) return MP_ENOMEM;
    }
    return MP_OK;
}

static int place_label_sets(mp_snapshot *s, uint32_t end, uint32_t *most)
{
    for (; *most > 0 && s->placed_label_sets < end; --*most) {
        const mp_label_set *set = mp_records_at(&s->recorder->label_sets, ++s->placed_label_sets);
        for (uint32_t i = 0; i < set->n; i++) {
            if (place(s, set->pairs[i].key) || place(s, set->pairs[i].value)) return MP_ENOMEM;
        }
    }
    return MP_OK;
}

/* Mostly, the locations of one function come in a row. */
static int place_function(mp_snapshot *s, uint32_t id)
{
    if (id == s->placed_function) return MP_OK;
    const mp_function *function = mp_functions_at(&s->recorder->functions, id);
    if (place(s, function->name) || place(s, function->system_name) || place(s, function->file))
        return MP_ENOMEM;
    s->placed_function = id;
    return MP_OK;
}

static int place_locations(mp_snapshot *s, uint32_t end, uint32_t *most)
{
    const mp_functions *functions = &s->recorder->functions;
    for (; *most > 0 && s->placed_locations < end; --*most) {
        const mp_location *location = mp_locations_at(functions, ++s->placed_locations);
        if (!location->record.refs) continue;
        if (place_function(s, location->function) != MP_OK) return MP_ENOMEM;
        s->n_placed_locations++;
    }
    return MP_OK;
}

/* Their pages are new: to touch them takes longer than to fill them in. */
static int make_figures(mp_snapshot *s, uint32_t *most)
{
    if (!s->figures) {
        uint32_t room = s->sites_end + s->sites_end / 8 + 64; /* more sites may come */
        s->figures = mp_malloc((size_t)room * sizeof *s->figures);
        if (!s->figures) return MP_ENOMEM;
        s->room_figures = room;
    }
    uint32_t left = s->room_figures - s->clear_figures, n = left < *most ? left : *most;
    memset(s->figures + s->clear_figures, 0, n * sizeof *s->figures);
    s->clear_figures += n;
    *most -= n;
    return MP_OK;
}

int mp_snapshot_prepare(mp_snapshot *s, uint32_t most, int *done)
{
    mp_recorder *r = s->recorder;
    *done = 0;
    if (s->folded < s->fold_end) {
        mp_recorder_fold_some(r, &s->folded, most);
        s->sites_end = r->named_sites.slabs.top;
        s->locations_end = r->functions.locations.slabs.top;
        s->label_sets_end = r->label_sets.slabs.top;
        return MP_OK;
    }
    if (place_sites(s, s->sites_end, &most) != MP_OK ||
        place_label_sets(s, s->label_sets_end, &most) != MP_OK ||
        place_locations(s, s->locations_end, &most) != MP_OK || make_figures(s, &most) != MP_OK)
        return MP_ENOMEM;
    *done = most > 0;
    return MP_OK;
}

/*
 * What the preparations, if there were any, have missed. Named sites, and the locations of their
 * stacks, are for ever; only a stack that found no room gives locations back, whose numbers may
 * then be met a second time.
 */
static int prepare_rest(mp_snapshot *s)
{
    mp_recorder *r = s->recorder;
    uint32_t most = UINT32_MAX;
    mp_recorder_fold(r);
    const mp_slabs *locations = &r->functions.locations.slabs;
    if (place_sites(s, r->named_sites.slabs.top, &most) != MP_OK ||
        place_label_sets(s, r->label_sets.slabs.top, &most) != MP_OK ||
        place_locations(s, locations->top, &most) != MP_OK)
        return MP_ENOMEM;
    if (s->n_placed_locations != locations->in_use) {
        s->placed_locations = s->n_placed_locations = s->placed_function = 0;
        if (place_locations(s, locations->top, &most) != MP_OK) return MP_ENOMEM;
    }
    return MP_OK;
}

/* ---- the copy -------------------------------------------------------------------------------- */

static int copy_counters(mp_snapshot *s)
{
    mp_recorder *r = s->recorder;
    if (copy_items(&s->sites, &r->named_sites.slabs) ||
        copy_items(&s->stacks, &r->named_stacks.slabs) ||
        copy_items(&s->functions, &r->functions.functions.slabs) ||
        copy_items(&s->locations, &r->functions.locations.slabs) ||
        copy_items(&s->label_sets, &r->label_sets.slabs) ||
        copy_items(&s->strings, &r->strings.slabs))
        return MP_ENOMEM;
    if (s->sites.top >= s->clear_figures) {
        mp_free(s->figures);
        s->figures = mp_calloc((size_t)s->sites.top + 1, sizeof *s->figures);
        if (!s->figures) return MP_ENOMEM;
    }
    for (uint32_t id = 1; id <= s->sites.top; id++) {
        const mp_site *site = mp_site_at(&r->named_sites, id);
        s->figures[id].values[ALLOC_OBJECTS] = site->objects;
        s->figures[id].values[ALLOC_SPACE] = site->bytes;
        s->figures[id].variances[ALLOC_SPACE] = site->variance;
    }
    if (s->in_use_since) {
        s->unchanged = mp_calloc((size_t)s->sites.top + 1, sizeof *s->unchanged);
        if (!s->unchanged) return MP_ENOMEM;
    }
    if (s->labels & MP_LABEL_AGE) {
        /* Only what lives now can be copied, now or as it goes. */
        s->room_living = mp_live_count(&r->live);
        s->living = mp_malloc(s->room_living * sizeof *s->living + 1);
        if (!s->living) return MP_ENOMEM;
    }
    return MP_OK;
}

int mp_snapshot_new(mp_snapshot **out, mp_recorder *recorder, unsigned labels, uintptr_t owner)
{
    *out = NULL;
    mp_snapshot *s = mp_calloc(1, sizeof *s);
    if (!s) return MP_ENOMEM;
    s->recorder = recorder;
    s->labels = labels;
    s->cursor.going = entry_going;
    s->owner = owner;
    s->fold_end = recorder->raw_sites.slabs.top;
    s->next = recorder->snapshots;
    recorder->snapshots = s;
    mp_recorder_hold(recorder);
    if (mp_string_index_init(&s->index, &recorder->strings) != MP_OK ||
        place_literals(s) != MP_OK) {
        mp_snapshot_free(s);
        return MP_ENOMEM;
    }
    *out = s;
    return MP_OK;
}

void mp_snapshot_since(mp_snapshot *s, const mp_baseline *baseline, int in_use)
{
    s->since = baseline;
    s->in_use_since = baseline && in_use;
}

int mp_snapshot_begin(mp_snapshot *s)
{
    mp_recorder *recorder = s->recorder;
    if (prepare_rest(s) != MP_OK || copy_counters(s) != MP_OK) return MP_ENOMEM;
    if (recorder->moments < MP_MOMENTS_MAX) recorder->moments++;
    s->moment = recorder->moments;
    s->completed = recorder->completed;
    s->counts = recorder->counts;
    s->losses = recorder->counts.lost_collections;
    mp_live_cursor_open(&recorder->live, &s->cursor);
    return MP_OK;
}

void mp_snapshot_step(mp_snapshot *s, uint32_t most, int *done)
{
    *done = 0;
    while (most-- > 0) {
        uint32_t id = mp_live_cursor_next(&s->recorder->live, &s->cursor);
        if (!id) {
            mp_live_cursor_close(&s->recorder->live, &s->cursor);
            *done = 1;
            break;
        }
        mp_live_entry *entry = mp_live_at(&s->recorder->live, id);
        if (take(s, entry)) mp_recorder_changed(s->recorder, entry);
    }
}

int mp_snapshot_spoiled(const mp_snapshot *s)
{
    return s->losses != s->recorder->counts.lost_collections;
}

uint64_t mp_snapshot_live_samples(const mp_snapshot *s)
{
    return s->live_samples;
}

uint64_t mp_snapshot_live_objects(const mp_snapshot *s)
{
    return s->live_objects;
}

size_t mp_snapshot_held(const mp_snapshot *s)
{
    const items *copied[] = {&s->sites,     &s->stacks,     &s->functions,
                             &s->locations, &s->label_sets, &s->strings};
    size_t bytes = sizeof *s + s->output + mp_index_memsize(&s->index.index) +
                   s->index.room * sizeof *s->index.order;
    for (size_t i = 0; i < sizeof copied / sizeof *copied; i++) {
        bytes += copied[i]->top / MP_SLAB_ITEMS * sizeof(char *);
    }
    size_t sites = s->room_figures > s->sites.top ? s->room_figures : s->sites.top;
    bytes += sites * sizeof *s->figures + s->room_living * sizeof *s->living;
    return bytes + (s->unchanged ? s->sites.top * sizeof *s->unchanged : 0);
}

mp_baseline *mp_snapshot_baseline(const mp_snapshot *s, int in_use)
{
    mp_baseline *baseline = mp_baseline_new(s->sites.top, in_use);
    if (!baseline) return NULL;
    baseline->moment = s->moment;
    baseline->completed = s->completed;
    baseline->counts = s->counts;
    for (uint32_t id = 1; id <= s->sites.top; id++) {
        const figures *of = &s->figures[id];
        baseline->allocated[id - 1] = (mp_baseline_allocated){
            of->values[ALLOC_OBJECTS], of->values[ALLOC_SPACE], of->variances[ALLOC_SPACE]};
        if (!in_use) continue;
        baseline->in_use[id - 1] =
            (mp_baseline_in_use){of->values[INUSE_OBJECTS], of->values[INUSE_SPACE],
                                 of->variances[INUSE_OBJECTS], of->variances[INUSE_SPACE]};
    }
    return baseline;
}

void mp_snapshot_free(mp_snapshot *s)
{
    mp_snapshot **link = &s->recorder->snapshots;
    while (*link != s) link = &(*link)->next;
    *link = s->next;
    mp_live_cursor_close(&s->recorder->live, &s->cursor);
    mp_string_index_destroy(&s->index);
    mp_free(s->sites.dir);
    mp_free(s->stacks.dir);
    mp_free(s->functions.dir);
    mp_free(s->locations.dir);
    mp_free(s->label_sets.dir);
    mp_free(s->strings.dir);
    mp_free(s->figures);
    mp_free(s->unchanged);
    mp_free(s->living);
    mp_recorder_release(s->recorder);
    mp_free(s);
}

void mp_snapshots_keep(mp_recorder *recorder, uintptr_t owner)
{
    mp_recorder_hold(recorder);
    for (mp_snapshot *s = recorder->snapshots, *next; s; s = next) {
        next = s->next;
        if (s->owner != owner) mp_snapshot_free(s);
    }
    mp_recorder_release(recorder);
}
