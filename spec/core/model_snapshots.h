/* Flushes of a model's recorder (model.h): several at once, in pieces, and differences. */
#ifndef MEMPROFILER_SPEC_MODEL_SNAPSHOTS_H
#define MEMPROFILER_SPEC_MODEL_SNAPSHOTS_H

#include "model_acts.h"
#include "model_rows.h"

#define M_SNAPSHOTS 3u

enum { M_ALL_LABELS = MP_LABEL_CLASS | MP_LABEL_THREAD };

/* An earlier state: by place, so that any labels can be made of it. */
typedef struct {
    mp_baseline *baseline;
    model_rows class_thread[4]; /* by MP_LABEL_CLASS and MP_LABEL_THREAD: 0, 1, 4, 5 -> 0..3 */
    bool in_use, exact;
} model_earlier;

typedef struct {
    mp_snapshot *snapshot;
    unsigned labels;
    uintptr_t owner;
    bool prepared, begun, done;
    bool since, in_use_since;
    model_rows expected;
    model_earlier moment; /* the state as of its beginning, to become an earlier one */
} model_flush;

typedef struct {
    model *m;
    model_flush flushes[M_SNAPSHOTS];
    model_earlier earlier;
} model_run;

static inline uint32_t model_rows_at(unsigned labels)
{
    return (labels & MP_LABEL_CLASS ? 1u : 0u) + (labels & MP_LABEL_THREAD ? 2u : 0u);
}

static inline void model_earlier_free(model_earlier *earlier)
{
    mp_baseline_free(earlier->baseline);
    for (int i = 0; i < 4; i++) model_rows_free(&earlier->class_thread[i]);
    *earlier = (model_earlier){0};
}

static inline bool model_copying(const model_run *run)
{
    for (uint32_t i = 0; i < M_SNAPSHOTS; i++) {
        if (run->flushes[i].begun && !run->flushes[i].done) return true;
    }
    return false;
}

static inline bool model_flushing(const model_run *run)
{
    for (uint32_t i = 0; i < M_SNAPSHOTS; i++) {
        if (run->flushes[i].snapshot) return true;
    }
    return false;
}

/* A difference needs the baseline to stay. */
static inline bool model_baseline_used(const model_run *run)
{
    for (uint32_t i = 0; i < M_SNAPSHOTS; i++) {
        if (run->flushes[i].snapshot && run->flushes[i].since) return true;
    }
    return false;
}

static inline void model_flush_end(model_flush *flush)
{
    if (flush->snapshot) mp_snapshot_free(flush->snapshot);
    model_rows_free(&flush->expected);
    model_earlier_free(&flush->moment);
    *flush = (model_flush){0};
}

/* Whether it went on: an error must be that memory failed. */
static inline bool model_went(model_flush *flush, int error)
{
    if (!error) return true;
    CHECK_INT(error, MP_ENOMEM);
    model_flush_end(flush);
    return false;
}

static inline void model_flush_begin(model_run *run, model_flush *flush)
{
    static const unsigned labels[4] = {0, MP_LABEL_CLASS, MP_LABEL_THREAD, M_ALL_LABELS};
    model *m = run->m;
    model_name_all(m);
    if (run->earlier.baseline && !(flush->labels & MP_LABEL_AGE) && model_roll(&m->source, 2)) {
        flush->since = true;
        flush->in_use_since = run->earlier.in_use && model_roll(&m->source, 2);
        mp_snapshot_since(flush->snapshot, run->earlier.baseline, flush->in_use_since);
    }
    if (!model_went(flush, mp_snapshot_begin(flush->snapshot))) return;
    flush->begun = true;
    model_expect(m, flush->labels, 1, true, &flush->expected);
    if (flush->since) {
        const model_rows *before = &run->earlier.class_thread[model_rows_at(flush->labels)];
        for (uint32_t i = 0; i < before->n; i++) {
            const int64_t *v = before->at[i].values;
            bool both = flush->in_use_since;
            int64_t less[4] = {-v[0], -v[1], both ? -v[2] : 0, both ? -v[3] : 0};
            model_rows_add(&flush->expected, before->at[i].text, less);
        }
    }
    for (int i = 0; i < 4; i++) {
        model_expect(m, labels[i], 1, true, &flush->moment.class_thread[i]);
    }
    flush->moment.exact = m->exact;
}

static inline void model_flush_write(model_run *run, model_flush *flush)
{
    static const char *const comments[] = {"interval: 1", "program: model"};
    mp_snapshot_header header = {.comments = comments, .n_comments = 2, .time_nanos = 1};
    mp_buffer bytes = {0};
    int error = mp_snapshot_encode(flush->snapshot, &header, &bytes);
    if (error) CHECK_INT(error, MP_ENOMEM);
    if (!error) {
        mp_pprof_decoded decoded;
        char why[MP_PPROF_WHY_LEN];
        error = mp_pprof_decode(bytes.data, bytes.len, 1 << 28, &decoded, why, sizeof why);
        if (error) CHECK_INT(error, MP_ENOMEM);
        if (!error) {
            model_rows rows = {0};
            model_read(&decoded.profile, flush->labels, flush->moment.exact, &rows);
            model_compare(&rows, &flush->expected, flush->moment.exact);
            model_rows_free(&rows);
            mp_pprof_decoded_free(&decoded);
        }
    }
    mp_buffer_free(&bytes);
    if (model_baseline_used(run)) return;
    bool in_use = model_roll(&run->m->source, 2) && !(flush->labels & MP_LABEL_AGE);
    mp_baseline *baseline = mp_snapshot_baseline(flush->snapshot, in_use);
    if (!baseline) return;
    model_earlier_free(&run->earlier);
    run->earlier = flush->moment;
    run->earlier.baseline = baseline;
    run->earlier.in_use = in_use;
    flush->moment = (model_earlier){0};
}

/* One step of one flush. */
static inline void model_flush_step(model_run *run)
{
    model *m = run->m;
    model_flush *flush = &run->flushes[model_roll(&m->source, M_SNAPSHOTS)];
    int done = 0;
    if (!flush->snapshot) {
        flush->labels = model_roll(&m->source, 16);
        flush->owner = 1 + model_roll(&m->source, 2);
        int error = mp_snapshot_new(&flush->snapshot, m->recorder, flush->labels, flush->owner);
        if (error) CHECK(!flush->snapshot);
        model_went(flush, error);
    } else if (!flush->begun) {
        if (flush->prepared || model_roll(&m->source, 6) == 0) {
            model_flush_begin(run, flush);
            return;
        }
        uint32_t most = 1 + model_roll(&m->source, 100);
        if (!model_went(flush, mp_snapshot_prepare(flush->snapshot, most, &done))) return;
        flush->prepared = done;
    } else if (mp_snapshot_spoiled(flush->snapshot)) {
        model_flush_end(flush);
    } else if (!flush->done) {
        mp_snapshot_step(flush->snapshot, 1 + model_roll(&m->source, 100), &done);
        flush->done = done;
    } else {
        model_flush_write(run, flush);
        model_flush_end(flush);
    }
}

/* In a forked child: the flushes of all other threads are gone. */
static inline void model_keep(model_run *run)
{
    uintptr_t owner = 1 + model_roll(&run->m->source, 2);
    mp_snapshots_keep(run->m->recorder, owner);
    for (uint32_t i = 0; i < M_SNAPSHOTS; i++) {
        model_flush *flush = &run->flushes[i];
        if (!flush->snapshot || flush->owner == owner) continue;
        flush->snapshot = NULL; /* freed already */
        model_flush_end(flush);
    }
}

/* All at once, with nothing failing. */
static inline void model_flush_whole(model_run *run, unsigned labels)
{
    model_flush flush = {.labels = labels};
    int done = 0;
    if (!CHECK_INT(mp_snapshot_new(&flush.snapshot, run->m->recorder, labels, 1), MP_OK)) return;
    model_flush_begin(run, &flush);
    if (!CHECK(flush.begun)) return;
    mp_snapshot_step(flush.snapshot, UINT32_MAX, &done);
    model_flush_write(run, &flush);
    model_flush_end(&flush);
}

#endif
