/*
 * From the copy to pprof, without any lock: sites that the labels asked for do not tell apart
 * become one row, and what the rows refer to is numbered by its first use.
 */
#include <math.h>
#include <string.h>

#include "error.h"
#include "mem.h"
#include "pprof.h"
#include "snapshot_parts.h"

#define ROW_KEY_WORDS 5
#define N_OWN_LABELS 4u /* class, thread, age, pid */

/* One sample of the output: all sites that the labels asked for do not tell apart. */
typedef struct {
    mp_record record;
    uint32_t stack, klass, thread, labels, age;
    figures sum;
} row;

typedef struct {
    mp_snapshot *snapshot;
    mp_records rows;
    uint32_t *function_at, *location_at; /* item number -> index in the output + 1 */
    mp_pprof_function *functions;
    mp_pprof_location *locations;
    mp_pprof_sample *samples;
    mp_pprof_label *sample_labels;
    int64_t *values, *deviations; /* N_VALUES for each sample that has some */
    uint32_t *frames;
    uint32_t *stack_at; /* stack number -> its first frame in `frames` + 1 */
    mp_pprof_str *strings;
    uint32_t *comments;
    uint32_t n_functions, n_locations, n_samples, n_deviations, n_labels, n_strings;
    size_t n_frames;
    size_t arrays; /* bytes of all these */
} output;

static void *array(output *o, size_t count, size_t size)
{
    o->arrays += count * size;
    return mp_calloc(count, size);
}

static void *item(const items *of, uint32_t id)
{
    return mp_slabs_in(of->dir, of->size, id);
}

static int add_row(output *o, uint32_t site_id, uint32_t age, const figures *of)
{
    const mp_snapshot *s = o->snapshot;
    const uint64_t *values = of->values;
    if (!values[ALLOC_OBJECTS] && !values[ALLOC_SPACE] && !values[INUSE_OBJECTS] &&
        !values[INUSE_SPACE] && of->variances[INUSE_OBJECTS] <= 0)
        return MP_OK;
    const mp_site *site = item(&s->sites, site_id);
    uint32_t key[ROW_KEY_WORDS] = {
        site->stack,
        s->labels & MP_LABEL_CLASS ? site->klass : 0,
        s->labels & MP_LABEL_THREAD ? site->thread : 0,
        site->labels,
        age,
    };
    uint32_t id = mp_records_intern(&o->rows, key);
    if (!id) return MP_ENOMEM;
    row *into = mp_records_at(&o->rows, id);
    for (int v = 0; v < N_VALUES; v++) {
        into->sum.values[v] += values[v];
        into->sum.variances[v] += of->variances[v];
    }
    return MP_OK;
}

/* Values may fall below 0, as those of int64_t do. Why the variances are no smaller: baseline.h. */
static figures since(const mp_snapshot *s, uint32_t id)
{
    figures of = s->figures[id];
    if (!s->since) return of;
    mp_baseline_allocated before = mp_baseline_allocated_at(s->since, id);
    of.values[ALLOC_OBJECTS] -= before.objects;
    of.values[ALLOC_SPACE] -= before.bytes;
    of.variances[ALLOC_SPACE] -= before.bytes_variance;
    if (!s->in_use_since) return of;
    mp_baseline_in_use in_use = mp_baseline_in_use_at(s->since, id);
    const unchanged *both = &s->unchanged[id];
    of.values[INUSE_OBJECTS] -= in_use.objects;
    of.values[INUSE_SPACE] -= in_use.bytes;
    /* What is on neither side can be a rounding's below 0. */
    of.variances[INUSE_OBJECTS] = fmax(of.variances[INUSE_OBJECTS] - both->objects, 0) +
                                  fmax(in_use.objects_variance - both->objects, 0);
    of.variances[INUSE_SPACE] = fmax(of.variances[INUSE_SPACE] - both->bytes, 0) +
                                fmax(in_use.bytes_variance - both->bytes, 0);
    /* Counts are exact, sums of squared sizes are not: what is left where nothing changed is none. */
    if (of.variances[INUSE_OBJECTS] <= 0) of.variances[INUSE_SPACE] = 0;
    return of;
}

static int make_rows(output *o)
{
    const mp_snapshot *s = o->snapshot;
    for (uint32_t id = 1; id <= s->sites.top; id++) {
        figures of = since(s, id);
        int error = add_row(o, id, 0, &of);
        if (error) return error;
    }
    for (uint32_t i = 0; i < s->n_living; i++) {
        const aged *living = &s->living[i];
        figures of = {.values = {0, 0, living->objects, living->objects * living->size}};
        of.variances[INUSE_OBJECTS] = mp_recorder_variance(living->objects, 1);
        of.variances[INUSE_SPACE] = mp_recorder_variance(living->objects, living->size);
        int error = add_row(o, living->site, living->age, &of);
        if (error) return error;
    }
    return MP_OK;
}

static uint32_t string_place(output *o, uint32_t string)
{
    /* Placed under the GVL already: this only finds. */
    return mp_string_index_place(&o->snapshot->index, string);
}

static uint32_t function_index(output *o, uint32_t id)
{
    if (!o->function_at[id]) {
        const mp_function *function = item(&o->snapshot->functions, id);
        o->functions[o->n_functions] = (mp_pprof_function){
            string_place(o, function->name), string_place(o, function->system_name),
            string_place(o, function->file), function->start_line};
        o->function_at[id] = ++o->n_functions;
    }
    return o->function_at[id] - 1;
}

static uint32_t location_index(output *o, uint32_t id)
{
    if (!o->location_at[id]) {
        const mp_location *location = item(&o->snapshot->locations, id);
        o->locations[o->n_locations] = (mp_pprof_location){function_index(o, location->function),
                                                           location->line, location->address};
        o->location_at[id] = ++o->n_locations;
    }
    return o->location_at[id] - 1;
}

static void add_stack(output *o, uint32_t id)
{
    if (o->stack_at[id]) return;
    const mp_stack *stack = item(&o->snapshot->stacks, id);
    o->stack_at[id] = (uint32_t)o->n_frames + 1;
    mp_words at = stack->words;
    for (uint32_t i = 0; i < stack->depth; i++) {
        o->frames[o->n_frames++] = location_index(o, (uint32_t)mp_words_next(&at));
    }
}

/* All are places in the output's strings; either `str` or a number. */
static void add_label(output *o, mp_pprof_sample *sample, mp_pprof_label label)
{
    o->sample_labels[o->n_labels++] = label;
    sample->n_labels++;
}

static void add_labels(output *o, mp_pprof_sample *sample, const row *of)
{
    const mp_snapshot *s = o->snapshot;
    const uint32_t *lit = s->literal;
    if (of->klass) {
        add_label(o, sample, (mp_pprof_label){lit[LIT_CLASS], string_place(o, of->klass), 0, 0});
    }
    if (of->thread) {
        add_label(o, sample, (mp_pprof_label){lit[LIT_THREAD], string_place(o, of->thread), 0, 0});
    }
    if (of->age) {
        add_label(o, sample, (mp_pprof_label){lit[LIT_AGE], 0, of->age, lit[LIT_COLLECTIONS]});
    }
    if (s->pid) add_label(o, sample, (mp_pprof_label){lit[LIT_PID], s->pid, 0, 0});
    if (!of->labels) return;
    const mp_label_set *set = item(&s->label_sets, of->labels);
    for (uint32_t i = 0; i < set->n; i++) {
        add_label(o, sample,
                  (mp_pprof_label){string_place(o, set->pairs[i].key),
                                   string_place(o, set->pairs[i].value), 0, 0});
    }
}

/*
 * The variance of a sum of bytes, where that of its count is known and all objects are of one size:
 * the least there can be, and what a reader takes it for who finds no deviation.
 */
static double even(double objects_variance, int64_t objects, int64_t bytes)
{
    double mean = objects ? (double)bytes / (double)objects : 0;
    return objects_variance * mean * mean;
}

/* Much larger than a reader would take it for. */
static int told(double variance, double otherwise)
{
    return variance > 1.05 * otherwise;
}

static void add_deviations(output *o, mp_pprof_sample *sample, const figures *of)
{
    const mp_snapshot *s = o->snapshot;
    const int64_t *values = sample->values;
    double interval = s->recorder->options.interval;
    double made = (interval - 1) * (double)values[ALLOC_OBJECTS];
    double in_use = of->variances[INUSE_OBJECTS];
    /* Of a difference nobody can say how many samples it rests on: those that stay cancel out. */
    double expected =
        s->in_use_since ? (interval - 1) * fabs((double)values[INUSE_OBJECTS]) : in_use;
    double made_even = even(made, values[ALLOC_OBJECTS], values[ALLOC_SPACE]);
    double in_use_even = even(expected, values[INUSE_OBJECTS], values[INUSE_SPACE]);
    if (!told(of->variances[ALLOC_SPACE], made_even) && !told(in_use, expected) &&
        !told(of->variances[INUSE_SPACE], in_use_even))
        return;
    /* (What was allocated is a small difference of large numbers, at times less by their roundings.) */
    double variances[N_VALUES] = {made, fmax(of->variances[ALLOC_SPACE], made_even), in_use,
                                  of->variances[INUSE_SPACE]};
    int64_t *deviations = o->deviations + (size_t)o->n_deviations++ * N_VALUES;
    for (int v = 0; v < N_VALUES; v++) {
        double root = sqrt(variances[v] > 0 ? variances[v] : 0);
        deviations[v] = root < 9e18 ? (int64_t)(root + 0.5) : INT64_MAX;
    }
    sample->deviations = deviations;
}

static void add_sample(output *o, const row *of)
{
    static const uint64_t none[N_VALUES];
    if (memcmp(of->sum.values, none, sizeof none) == 0)
        return; /* a difference's, of several sites */
    const mp_stack *stack = item(&o->snapshot->stacks, of->stack);
    add_stack(o, of->stack);
    int64_t *values = o->values + (size_t)o->n_samples * N_VALUES;
    for (int v = 0; v < N_VALUES; v++) values[v] = (int64_t)of->sum.values[v];
    mp_pprof_sample *sample = &o->samples[o->n_samples++];
    *sample = (mp_pprof_sample){.locations = o->frames + (o->stack_at[of->stack] - 1),
                                .depth = stack->depth,
                                .values = values,
                                .labels = o->sample_labels + o->n_labels};
    add_labels(o, sample, of);
    add_deviations(o, sample, &of->sum);
}

static int make_output(output *o, const mp_snapshot_header *header)
{
    const mp_snapshot *s = o->snapshot;
    size_t rows = o->rows.slabs.in_use, frames = 0, labels = 0;
    o->stack_at = array(o, (size_t)s->stacks.top + 1, sizeof *o->stack_at);
    if (!o->stack_at) return MP_ENOMEM;
    for (uint32_t id = 1; id <= rows; id++) {
        const row *of = mp_records_at(&o->rows, id);
        uint32_t stack = of->stack;
        labels += N_OWN_LABELS;
        if (of->labels) labels += ((mp_label_set *)item(&s->label_sets, of->labels))->n;
        if (o->stack_at[stack]) continue;
        o->stack_at[stack] = 1;
        frames += ((mp_stack *)item(&s->stacks, stack))->depth;
    }
    memset(o->stack_at, 0, ((size_t)s->stacks.top + 1) * sizeof *o->stack_at);

    o->function_at = array(o, (size_t)s->functions.top + 1, sizeof *o->function_at);
    o->location_at = array(o, (size_t)s->locations.top + 1, sizeof *o->location_at);
    o->functions = array(o, (size_t)s->functions.top + 1, sizeof *o->functions);
    o->locations = array(o, (size_t)s->locations.top + 1, sizeof *o->locations);
    o->samples = array(o, rows + 1, sizeof *o->samples);
    o->values = array(o, rows * N_VALUES + 1, sizeof *o->values);
    o->deviations = array(o, rows * N_VALUES + 1, sizeof *o->deviations);
    o->sample_labels = array(o, labels + 1, sizeof *o->sample_labels);
    o->frames = array(o, frames + 1, sizeof *o->frames);
    o->strings = array(o, (size_t)s->index.length + header->n_comments, sizeof *o->strings);
    o->comments = array(o, (size_t)header->n_comments + 1, sizeof *o->comments);
    if (!o->function_at || !o->location_at || !o->functions || !o->locations || !o->samples ||
        !o->values || !o->deviations || !o->sample_labels || !o->frames || !o->strings ||
        !o->comments)
        return MP_ENOMEM;

    o->strings[o->n_strings++] = (mp_pprof_str){"", 0};
    while (o->n_strings < s->index.length) {
        const mp_string *string = item(&s->strings, s->index.order[o->n_strings]);
        o->strings[o->n_strings++] = (mp_pprof_str){string->bytes, string->length};
    }
    for (uint32_t i = 0; i < header->n_comments; i++) {
        o->comments[i] = o->n_strings;
        o->strings[o->n_strings++] =
            (mp_pprof_str){header->comments[i], (uint32_t)strlen(header->comments[i])};
    }
    for (uint32_t id = 1; id <= rows; id++) add_sample(o, mp_records_at(&o->rows, id));
    return MP_OK;
}

static int write_output(const output *o, const mp_snapshot_header *header, mp_buffer *out)
{
    const mp_snapshot *s = o->snapshot;
    const uint32_t *lit = s->literal;
    uint32_t types[2 * N_VALUES] = {
        lit[LIT_ALLOC_OBJECTS], lit[LIT_COUNT], lit[LIT_ALLOC_SPACE], lit[LIT_BYTES],
        lit[LIT_INUSE_OBJECTS], lit[LIT_COUNT], lit[LIT_INUSE_SPACE], lit[LIT_BYTES],
    };
    mp_pprof profile = {
        .strings = o->strings,
        .n_strings = o->n_strings,
        .functions = o->functions,
        .n_functions = o->n_functions,
        .locations = o->locations,
        .n_locations = o->n_locations,
        .samples = o->samples,
        .n_samples = o->n_samples,
        .sample_types = types,
        .n_types = N_VALUES,
        .comments = o->comments,
        .n_comments = header->n_comments,
        .default_sample_type = lit[header->alloc_first ? LIT_ALLOC_SPACE : LIT_INUSE_SPACE],
        .period_type = lit[LIT_OBJECTS],
        .period_unit = lit[LIT_COUNT],
        .mapping_file = lit[LIT_PROGRAM],
        .period = s->recorder->options.interval,
        .time_nanos = header->time_nanos,
        .duration_nanos = header->duration_nanos,
    };
    return mp_pprof_encode(&profile, out);
}

int mp_snapshot_encode(mp_snapshot *s, const mp_snapshot_header *header, mp_buffer *out)
{
    output o = {.snapshot = s};
    mp_records_init(&o.rows, sizeof(row), ROW_KEY_WORDS, UINT32_MAX - 1);
    int error = make_rows(&o);
    if (!error) error = make_output(&o, header);
    if (!error) error = write_output(&o, header, out);
    s->output = o.arrays + mp_records_memsize(&o.rows) + MP_PPROF_ENCODING + out->cap;
    mp_records_destroy(&o.rows);
    mp_free(o.function_at);
    mp_free(o.location_at);
    mp_free(o.functions);
    mp_free(o.locations);
    mp_free(o.samples);
    mp_free(o.values);
    mp_free(o.deviations);
    mp_free(o.sample_labels);
    mp_free(o.frames);
    mp_free(o.stack_at);
    mp_free(o.strings);
    mp_free(o.comments);
    return error;
}
