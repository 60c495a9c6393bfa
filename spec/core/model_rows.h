/* What a snapshot's output says, and what the model says it must: rows of a text and four values. */
#ifndef MEMPROFILER_SPEC_MODEL_ROWS_H
#define MEMPROFILER_SPEC_MODEL_ROWS_H

#include "model.h"
#include "pprof.h"
#include "snapshot.h"

#include <unistd.h>

typedef struct {
    char text[M_TEXT + 160];
    int64_t values[4];
} model_row;

typedef struct {
    model_row *at;
    uint32_t n, room;
} model_rows;

static inline void model_rows_free(model_rows *rows)
{
    free(rows->at);
    *rows = (model_rows){0};
}

static inline void model_rows_add(model_rows *rows, const char *text, const int64_t values[4])
{
    uint32_t i = 0;
    while (i < rows->n && strcmp(rows->at[i].text, text)) i++;
    if (i == rows->n) {
        if (rows->n == rows->room) {
            rows->room = rows->room * 2 + 32;
            rows->at = realloc(rows->at, rows->room * sizeof *rows->at);
        }
        memset(&rows->at[rows->n], 0, sizeof *rows->at);
        strcpy(rows->at[rows->n++].text, text);
    }
    for (int v = 0; v < 4; v++) rows->at[i].values[v] += values[v];
}

static inline void model_text(char *out, const model_place *place, unsigned labels, uint32_t age)
{
    sprintf(out, "%s class=%s thread=%s age=%u %s", place->stack,
            labels & MP_LABEL_CLASS ? place->klass : "",
            labels & MP_LABEL_THREAD ? place->thread : "", labels & MP_LABEL_AGE ? age : 0,
            place->labels);
}

/* Of the moment; the sign is -1 to take it away from another one. */
static inline void model_expect(const model *m, unsigned labels, int sign, bool in_use,
                                model_rows *rows)
{
    char text[sizeof rows->at->text];
    for (uint32_t i = 0; i < m->n_places; i++) {
        const model_place *place = &m->places[i];
        model_text(text, place, labels, 0);
        int64_t values[4] = {sign * (int64_t)place->objects, sign * (int64_t)place->bytes, 0, 0};
        model_rows_add(rows, text, values);
    }
    for (uint32_t at = 0; in_use && at < M_OBJECTS; at++) {
        const model_object *o = &m->objects[at];
        if (!o->tracked || o->born >= m->completed || o->passing) continue;
        model_text(text, &m->places[o->place], labels, m->completed - o->born);
        int64_t weight = sign * (int64_t)o->weight;
        int64_t values[4] = {0, 0, weight, weight * (int64_t)o->size};
        model_rows_add(rows, text, values);
    }
}

/* ---- what was written ------------------------------------------------------------------------ */

static inline const char *model_string(const mp_pprof *profile, uint32_t string)
{
    static char texts[4][64];
    static uint32_t turn;
    char *out = texts[turn++ % 4];
    mp_pprof_str s = profile->strings[string];
    CHECK(s.len < 64);
    snprintf(out, 64, "%.*s", (int)s.len, s.ptr);
    return out;
}

static inline void model_read_label(const mp_pprof *profile, const mp_pprof_label *label,
                                    model_place *place, uint32_t *age, bool *pid)
{
    const char *key = model_string(profile, label->key);
    const char *value = model_string(profile, label->str);
    if (!strcmp(key, "class")) {
        snprintf(place->klass, sizeof place->klass, "%s", value);
    } else if (!strcmp(key, "thread")) {
        snprintf(place->thread, sizeof place->thread, "%s", value);
    } else if (!strcmp(key, "age")) {
        *age = (uint32_t)label->num;
        CHECK_STR(model_string(profile, label->num_unit), "collections");
    } else if (!strcmp(key, "pid")) {
        CHECK_INT(atol(value), getpid());
        *pid = true;
    } else {
        CHECK(*key && *value);
        size_t length = strlen(place->labels);
        snprintf(place->labels + length, sizeof place->labels - length, "%s=%s,", key, value);
    }
}

static inline void model_read(const mp_pprof *profile, unsigned labels, bool exact,
                              model_rows *rows)
{
    for (uint32_t i = 0; i < profile->n_samples; i++) {
        const mp_pprof_sample *sample = &profile->samples[i];
        model_place place = {0};
        uint32_t age = 0, last = UINT32_MAX;
        bool pid = false;
        for (uint32_t d = 0; d < sample->depth; d++) {
            const mp_pprof_location *location = &profile->locations[sample->locations[d]];
            const mp_pprof_function *function = &profile->functions[location->function];
            sprintf(place.stack + strlen(place.stack), "%s %s %u:%u;",
                    model_string(profile, function->name), model_string(profile, function->file),
                    (uint32_t)function->start_line, (uint32_t)location->line);
        }
        /* The program's own in the order of their keys, whatever numbers these have. */
        for (uint32_t n = 0; n < sample->n_labels; n++) {
            uint32_t next = UINT32_MAX;
            for (uint32_t l = 0; l < sample->n_labels; l++) {
                const mp_pprof_str *key = &profile->strings[sample->labels[l].key];
                uint32_t rank = key->len == 1 ? (uint32_t)key->ptr[0] : 1000 + l;
                if ((last == UINT32_MAX || rank > last) && rank < next) next = rank;
            }
            for (uint32_t l = 0; l < sample->n_labels; l++) {
                const mp_pprof_str *key = &profile->strings[sample->labels[l].key];
                uint32_t rank = key->len == 1 ? (uint32_t)key->ptr[0] : 1000 + l;
                if (rank == next) model_read_label(profile, &sample->labels[l], &place, &age, &pid);
            }
            last = next;
        }
        CHECK_INT(pid, (labels & MP_LABEL_PID) != 0);
        char text[sizeof rows->at->text];
        model_text(text, &place, labels, age);
        uint32_t before = rows->n;
        model_rows_add(rows, text, sample->values);
        if (exact) CHECK_UINT(rows->n, before + 1); /* each row once */
    }
}

/* ---- the comparison -------------------------------------------------------------------------- */

static inline void model_totals(const model_rows *rows, int64_t totals[4])
{
    memset(totals, 0, 4 * sizeof *totals);
    for (uint32_t i = 0; i < rows->n; i++) {
        for (int v = 0; v < 4; v++) totals[v] += rows->at[i].values[v];
    }
}

static inline void model_compare(const model_rows *actual, const model_rows *expected, bool exact)
{
    int64_t a[4], e[4];
    model_totals(actual, a);
    model_totals(expected, e);
    for (int v = 0; v < 4; v++) CHECK_INT(a[v], e[v]);
    if (!exact) return;
    model_rows difference = {0};
    for (uint32_t i = 0; i < actual->n; i++) {
        model_rows_add(&difference, actual->at[i].text, actual->at[i].values);
    }
    for (uint32_t i = 0; i < expected->n; i++) {
        const int64_t *v = expected->at[i].values;
        int64_t less[4] = {-v[0], -v[1], -v[2], -v[3]};
        model_rows_add(&difference, expected->at[i].text, less);
    }
    for (uint32_t i = 0; i < difference.n; i++) {
        const int64_t *v = difference.at[i].values;
        if (CHECK(!v[0] && !v[1] && !v[2] && !v[3])) continue;
        fprintf(stderr, "  %s: off by %lld %lld %lld %lld\n", difference.at[i].text,
                (long long)v[0], (long long)v[1], (long long)v[2], (long long)v[3]);
    }
    model_rows_free(&difference);
}

#endif
