/*
 * A naive model of a recorder, for random operations: objects, places and texts in plain arrays,
 * found by linear search. It takes from the recorder only what coins have decided (is this sample
 * tracked, has thinning kept it), and holds all else against it: model_acts.h does what a VM may do,
 * model_snapshots.h what flushes may do meanwhile, model_rows.h compares what comes out.
 *
 * Unlike program.h it runs at any interval, with thinning, label sets, frames that are left out, and
 * addresses that others had before; and memory may fail at any moment, when only places may be
 * wrong, and totals never.
 */
#ifndef MEMPROFILER_SPEC_MODEL_H
#define MEMPROFILER_SPEC_MODEL_H

#include "check.h"
#include "dice.h"
#include "error.h"
#include "mem.h"
#include "recorder.h"

#include <stdlib.h>

#define M_OBJECTS 512u /* addresses there are: a power of two, as those below */
#define M_FRAMES 16u
#define M_KLASSES 16u
#define M_THREADS 16u
#define M_DEPTH 6u /* max_depth */
#define M_SETS 10u
#define M_TEXT 320u

enum { M_OBJECT, M_FRAME, M_KLASS, M_THREAD, M_KINDS };

/* Where decisions come from: bytes, if there are any, and then dice. */
typedef struct {
    const uint8_t *at, *end;
    dice dice;
} model_source;

static inline uint32_t model_roll(model_source *source, uint32_t sides)
{
    if (source->at == source->end) return dice_roll(&source->dice, sides);
    uint32_t value = 0;
    for (uint32_t reach = 1; reach < sides && source->at < source->end; reach <<= 8) {
        value = value << 8 | *source->at++;
    }
    return value % sides;
}

/* A place in the output, and what has been allocated there. */
typedef struct {
    char stack[M_TEXT], klass[24], thread[16], labels[64];
    uint64_t objects, bytes;
} model_place;

/* A living object that the recorder may know of. */
typedef struct {
    bool alive, tracked, passing, waits, settled;
    uint32_t place, slot, size, largest, born;
    uint64_t weight;
} model_object;

/* A frame, class or thread of the program. `alive`: it has the address. */
typedef struct {
    bool alive;
    uint32_t what; /* function, class or thread number */
} model_thing;

typedef struct {
    model_source source;
    mp_recorder *recorder;
    mp_labels labels;
    bool exact;      /* memory has not failed, no table been full: places are right, too */
    bool frozen;     /* stopped */
    uint32_t hidden; /* class number */
    uint32_t mask[M_KINDS];

    model_object objects[M_OBJECTS];
    model_thing things[M_KINDS][M_FRAMES];
    struct {
        uint32_t set;
        char text[64];
        const char *value[3]; /* of "a", "b" and "c"; NULL: none */
    } sets[M_SETS];
    uint32_t n_sets;

    model_place *places;
    uint32_t n_places, room_places;
    uint32_t collections, completed;
    uint64_t allocations, samples, reused, lost, thinned;
} model;

/* ---- addresses: a number of each kind, moved about by an exclusive or ------------------------ */

static const uint64_t model_base[M_KINDS] = {UINT64_C(0x7f0000000000), UINT64_C(0x550000000000),
                                             UINT64_C(0x560000000000), UINT64_C(0x570000000000)};
static const uint32_t model_count[M_KINDS] = {M_OBJECTS, M_FRAMES, M_KLASSES, M_THREADS};

static inline uint64_t model_address(const model *m, uint32_t kind, uint32_t number)
{
    return model_base[kind] + ((uint64_t)(number ^ m->mask[kind]) << 6);
}

static inline uint32_t model_number(const model *m, uint32_t kind, uint64_t address)
{
    return (uint32_t)((address - model_base[kind]) >> 6) ^ m->mask[kind];
}

/* ---- texts ----------------------------------------------------------------------------------- */

/* Functions: pairs share a name, thirds a file; the last two are the profiler's own. */
#define M_FUNCTIONS 20u
#define M_OURS 18u

static inline void model_function_text(uint32_t f, uint32_t line, char *out)
{
    sprintf(out + strlen(out), "f%u app/%u.rb %u:%u;", f / 2, f % 3, f, line);
}

static inline uint32_t model_place_of(model *m, const model_place *wanted)
{
    for (uint32_t i = 0; i < m->n_places; i++) {
        const model_place *p = &m->places[i];
        if (!strcmp(p->stack, wanted->stack) && !strcmp(p->klass, wanted->klass) &&
            !strcmp(p->thread, wanted->thread) && !strcmp(p->labels, wanted->labels))
            return i;
    }
    if (m->n_places == m->room_places) {
        m->room_places = m->room_places * 2 + 64;
        m->places = realloc(m->places, m->room_places * sizeof *m->places);
    }
    m->places[m->n_places] = *wanted;
    m->places[m->n_places].objects = m->places[m->n_places].bytes = 0;
    return m->n_places++;
}

/* ---- making and ending ----------------------------------------------------------------------- */

static inline uint32_t model_intern(model *m, const char *text)
{
    return mp_strings_intern(&m->recorder->strings, text, strlen(text));
}

static inline void model_make_sets(model *m)
{
    static const char *const values[] = {NULL, "x", "y", "a longer value", ""};
    static const char *const keys[] = {"a", "b", "c"};
    for (m->n_sets = 1; m->n_sets < M_SETS; m->n_sets++) { /* the first is the empty one */
        mp_label_text texts[3];
        uint32_t n = 0;
        char *text = m->sets[m->n_sets].text;
        for (uint32_t k = 0; k < 3; k++) {
            const char *value = values[model_roll(&m->source, 5)];
            texts[n++] = (mp_label_text){keys[k], value, 1, value ? strlen(value) : 0};
            if (!value || !*value) continue;
            sprintf(text + strlen(text), "%s=%s,", keys[k], value);
        }
        m->sets[m->n_sets].set = mp_labels_with(&m->labels, 0, texts, n);
    }
}

static inline model *model_new(model_source source)
{
    model *m = calloc(1, sizeof *m);
    m->source = source;
    m->exact = true;
    static const uint32_t intervals[] = {1, 1, 2, 7}, odds[] = {1, 1, 3};
    mp_options options = {
        .interval = intervals[model_roll(&m->source, 4)],
        .track_one_in = odds[model_roll(&m->source, 3)],
        .max_samples = model_roll(&m->source, 2) * (20 + model_roll(&m->source, 200)),
        .max_depth = M_DEPTH,
        .seed = model_roll(&m->source, 256),
    };
    m->recorder = mp_recorder_new(&options);
    CHECK_INT(mp_labels_init(&m->labels), MP_OK);
    m->recorder->labels = &m->labels;
    m->hidden = mp_refs_add_named(&m->recorder->classes, model_intern(m, "(hidden)"));
    model_make_sets(m);
    return m;
}

static inline void model_free(model *m)
{
    mp_recorder_release(m->recorder);
    mp_labels_destroy(&m->labels);
    free(m->places);
    free(m);
}

#endif
