#include "fit.h"

#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "mem.h"

typedef struct {
    double share;
    uint32_t sample;
} ranked;

/* The input, with what it may come to have beside it: two strings, functions and locations. */
typedef struct {
    const mp_pprof *in;
    mp_pprof all;
    mp_pprof_str *strings;
    mp_pprof_function *functions;
    mp_pprof_location *locations;
    mp_pprof_sample *samples;
    uint32_t *frames; /* of the stacks that were cut */
    ranked *order;
    int64_t *other; /* values */
    uint32_t other_location;
} fitting;

/* One try: some of the samples, and of the rest what these need, renumbered. */
typedef struct {
    const fitting *f;
    mp_pprof out;
    uint32_t *string_at, *function_at, *location_at; /* old number -> new one + 1 */
    mp_pprof_str *strings;
    mp_pprof_function *functions;
    mp_pprof_location *locations;
    mp_pprof_sample *samples;
    mp_pprof_label *labels;
    uint32_t *frames, *types, *comments;
    size_t n_frames, n_labels;
} selection;

/* ---- what there is --------------------------------------------------------------------------- */

static uint32_t add_place(fitting *f, const char *name)
{
    mp_pprof *all = &f->all;
    uint64_t address = 0;
    for (uint32_t i = 0; i < all->n_locations; i++) {
        if (f->locations[i].address > address) address = f->locations[i].address;
    }
    f->strings[all->n_strings] = (mp_pprof_str){name, (uint32_t)strlen(name)};
    f->functions[all->n_functions] = (mp_pprof_function){all->n_strings++, 0, 0, 0};
    f->locations[all->n_locations] = (mp_pprof_location){all->n_functions++, 0, address + 1};
    return all->n_locations++;
}

static int copy_all(fitting *f)
{
    const mp_pprof *in = f->in;
    f->all = *in;
    f->strings = mp_calloc((size_t)in->n_strings + 2, sizeof *f->strings);
    f->functions = mp_calloc((size_t)in->n_functions + 2, sizeof *f->functions);
    f->locations = mp_calloc((size_t)in->n_locations + 2, sizeof *f->locations);
    f->samples = mp_calloc((size_t)in->n_samples + 1, sizeof *f->samples);
    if (!f->strings || !f->functions || !f->locations || !f->samples) return MP_ENOMEM;
    if (in->n_strings) memcpy(f->strings, in->strings, in->n_strings * sizeof *f->strings);
    if (in->n_functions)
        memcpy(f->functions, in->functions, in->n_functions * sizeof *f->functions);
    if (in->n_locations)
        memcpy(f->locations, in->locations, in->n_locations * sizeof *f->locations);
    if (in->n_samples) memcpy(f->samples, in->samples, in->n_samples * sizeof *f->samples);
    f->all.strings = f->strings;
    f->all.functions = f->functions;
    f->all.locations = f->locations;
    f->all.samples = f->samples;
    return MP_OK;
}

static int cut_stacks(fitting *f, uint32_t depth, uint32_t *cut)
{
    for (uint32_t i = 0; i < f->in->n_samples; i++) *cut += f->samples[i].depth > depth;
    if (!*cut) return MP_OK;
    uint32_t root = add_place(f, "(truncated)");
    f->frames = mp_calloc(*cut, depth * sizeof *f->frames);
    if (!f->frames) return MP_ENOMEM;
    uint32_t *frames = f->frames;
    for (uint32_t i = 0; i < f->in->n_samples; i++) {
        mp_pprof_sample *sample = &f->samples[i];
        if (sample->depth <= depth) continue;
        memcpy(frames, sample->locations, (depth - 1) * sizeof *frames);
        frames[depth - 1] = root;
        sample->locations = frames;
        sample->depth = depth;
        frames += depth;
    }
    return MP_OK;
}

static int by_share(const void *a, const void *b)
{
    const ranked *one = a, *two = b;
    if (one->share != two->share) return one->share > two->share ? -1 : 1;
    return one->sample < two->sample ? -1 : 1;
}

static int rank(fitting *f)
{
    uint32_t n = f->in->n_samples, width = f->in->n_types;
    double *totals = mp_calloc((size_t)width + 1, sizeof *totals);
    f->order = mp_calloc((size_t)n + 1, sizeof *f->order);
    f->other = mp_calloc((size_t)width + 1, sizeof *f->other);
    if (!totals || !f->order || !f->other) {
        mp_free(totals);
        return MP_ENOMEM;
    }
    for (uint32_t i = 0; i < n; i++) {
        for (uint32_t v = 0; v < width; v++) totals[v] += (double)f->samples[i].values[v];
    }
    for (uint32_t i = 0; i < n; i++) {
        double share = 0;
        for (uint32_t v = 0; v < width; v++) {
            double of = totals[v] > 0 ? (double)f->samples[i].values[v] / totals[v] : 0;
            if (of > share) share = of;
        }
        f->order[i] = (ranked){share, i};
    }
    mp_free(totals);
    qsort(f->order, n, sizeof *f->order, by_share);
    f->other_location = add_place(f, "(other)");
    return MP_OK;
}

/* ---- what is chosen of it -------------------------------------------------------------------- */

static uint32_t string_of(selection *s, uint32_t old)
{
    if (!s->string_at[old]) {
        s->strings[s->out.n_strings] = s->f->strings[old];
        s->string_at[old] = ++s->out.n_strings;
    }
    return s->string_at[old] - 1;
}

static uint32_t function_of(selection *s, uint32_t old)
{
    if (!s->function_at[old]) {
        const mp_pprof_function *from = &s->f->functions[old];
        mp_pprof_function *to = &s->functions[s->out.n_functions];
        to->name = string_of(s, from->name);
        to->system_name = string_of(s, from->system_name);
        to->file = string_of(s, from->file);
        to->start_line = from->start_line;
        s->function_at[old] = ++s->out.n_functions;
    }
    return s->function_at[old] - 1;
}

static uint32_t location_of(selection *s, uint32_t old)
{
    if (!s->location_at[old]) {
        s->locations[s->out.n_locations] = s->f->locations[old];
        s->locations[s->out.n_locations].function = function_of(s, s->f->locations[old].function);
        s->location_at[old] = ++s->out.n_locations;
    }
    return s->location_at[old] - 1;
}

static void add_sample(selection *s, const mp_pprof_sample *from)
{
    mp_pprof_sample *to = &s->samples[s->out.n_samples++];
    *to = *from;
    to->locations = s->frames + s->n_frames;
    to->labels = s->labels + s->n_labels;
    for (uint32_t i = 0; i < from->depth; i++) {
        s->frames[s->n_frames++] = location_of(s, from->locations[i]);
    }
    for (uint32_t i = 0; i < from->n_labels; i++) {
        mp_pprof_label label = from->labels[i];
        label.key = string_of(s, label.key);
        label.str = string_of(s, label.str);
        label.num_unit = string_of(s, label.num_unit);
        s->labels[s->n_labels++] = label;
    }
}

static void choose_head(selection *s)
{
    const mp_pprof *in = s->f->in;
    for (uint32_t i = 0; i < 2 * in->n_types; i++) {
        s->types[i] = string_of(s, in->sample_types[i]);
    }
    for (uint32_t i = 0; i < in->n_comments; i++) s->comments[i] = string_of(s, in->comments[i]);
    s->out.default_sample_type = string_of(s, in->default_sample_type);
    s->out.period_type = string_of(s, in->period_type);
    s->out.period_unit = string_of(s, in->period_unit);
    s->out.mapping_file = string_of(s, in->mapping_file);
}

static int selection_init(selection *s, const fitting *f)
{
    const mp_pprof *all = &f->all;
    size_t frames = 1, labels = 0;
    for (uint32_t i = 0; i < all->n_samples; i++) {
        frames += all->samples[i].depth;
        labels += all->samples[i].n_labels;
    }
    *s = (selection){.f = f, .out = *all};
    s->out.n_strings = s->out.n_functions = s->out.n_locations = s->out.n_samples = 0;
    s->string_at = mp_calloc((size_t)all->n_strings + 1, sizeof *s->string_at);
    s->function_at = mp_calloc((size_t)all->n_functions + 1, sizeof *s->function_at);
    s->location_at = mp_calloc((size_t)all->n_locations + 1, sizeof *s->location_at);
    s->out.strings = s->strings = mp_calloc((size_t)all->n_strings + 1, sizeof *s->strings);
    s->out.functions = s->functions = mp_calloc((size_t)all->n_functions + 1, sizeof *s->functions);
    s->out.locations = s->locations = mp_calloc((size_t)all->n_locations + 1, sizeof *s->locations);
    s->out.samples = s->samples = mp_calloc((size_t)all->n_samples + 1, sizeof *s->samples);
    s->frames = mp_calloc(frames, sizeof *s->frames);
    s->labels = mp_calloc(labels + 1, sizeof *s->labels);
    s->out.sample_types = s->types = mp_calloc((size_t)all->n_types + 1, 2 * sizeof *s->types);
    s->out.comments = s->comments = mp_calloc((size_t)all->n_comments + 1, sizeof *s->comments);
    if (!s->string_at || !s->function_at || !s->location_at || !s->strings || !s->functions ||
        !s->locations || !s->samples || !s->frames || !s->labels || !s->types || !s->comments)
        return MP_ENOMEM;
    string_of(s, 0); /* the empty one comes first */
    return MP_OK;
}

static void selection_free(selection *s)
{
    mp_free(s->string_at);
    mp_free(s->function_at);
    mp_free(s->location_at);
    mp_free(s->strings);
    mp_free(s->functions);
    mp_free(s->locations);
    mp_free(s->samples);
    mp_free(s->frames);
    mp_free(s->labels);
    mp_free(s->types);
    mp_free(s->comments);
}

static void choose(selection *s, uint32_t keep)
{
    const fitting *f = s->f;
    uint32_t n = f->in->n_samples, width = f->in->n_types;
    choose_head(s);
    if (keep >= n) {
        for (uint32_t i = 0; i < n; i++) add_sample(s, &f->samples[i]);
        return;
    }
    for (uint32_t i = 0; i + 1 < keep; i++) add_sample(s, &f->samples[f->order[i].sample]);
    memset(f->other, 0, width * sizeof *f->other);
    for (uint32_t i = keep - 1; i < n; i++) {
        const int64_t *values = f->samples[f->order[i].sample].values;
        for (uint32_t v = 0; v < width; v++) {
            f->other[v] = (int64_t)((uint64_t)f->other[v] + (uint64_t)values[v]);
        }
    }
    add_sample(s,
               &(mp_pprof_sample){.locations = &f->other_location, .depth = 1, .values = f->other});
}

static int encode(const fitting *f, uint32_t keep, mp_buffer *out)
{
    selection s;
    int error = selection_init(&s, f);
    if (!error) {
        choose(&s, keep);
        error = mp_pprof_encode(&s.out, out);
    }
    selection_free(&s);
    return error;
}

/* ---------------------------------------------------------------------------------------------- */

/* gzip's own note of it, its last four bytes: these profiles are far smaller than 4 GB. */
static size_t unpacked(const uint8_t *gzipped, size_t len)
{
    if (len < 18) return 0; /* shorter than any */
    const uint8_t *at = gzipped + len - 4;
    return (size_t)at[0] | (size_t)at[1] << 8 | (size_t)at[2] << 16 | (size_t)at[3] << 24;
}

/* How much it takes is known only once it's encoded: fewer and fewer samples, until it fits. */
static int bring_down(fitting *f, const mp_fit_limits *limits, uint32_t keep, size_t size,
                      mp_buffer *out, mp_fitted *fitted)
{
    size_t begins = out->len;
    for (;;) {
        if (size > limits->bytes) {
            double fits = (double)keep * 0.9 * (double)limits->bytes / (double)size;
            keep = fits < 1 ? 1 : (uint32_t)fits;
        }
        if (keep < f->in->n_samples && !f->order) {
            int error = rank(f);
            if (error) return error;
        }
        out->len = begins;
        int error = encode(f, keep, out);
        if (error) return error;
        size = unpacked(out->data + begins, out->len - begins);
        if (size <= limits->bytes || keep <= 1) break;
    }
    if (keep < f->in->n_samples) fitted->merged = f->in->n_samples - keep + 1;
    return MP_OK;
}

int mp_fit(const mp_pprof *profile, const uint8_t *whole, size_t whole_len,
           const mp_fit_limits *limits, mp_buffer *out, mp_fitted *fitted)
{
    fitting f = {.in = profile};
    *fitted = (mp_fitted){0};
    size_t size = unpacked(whole, whole_len);
    uint32_t keep = profile->n_samples < limits->samples ? profile->n_samples : limits->samples;
    int error = copy_all(&f);
    if (!error) error = cut_stacks(&f, limits->depth, &fitted->cut);
    int fits = keep == profile->n_samples && !fitted->cut && size <= limits->bytes;
    if (!error && !fits) {
        /* What the whole takes says nothing of a part of it. */
        if (keep < profile->n_samples || fitted->cut) size = 0;
        error = bring_down(&f, limits, keep, size, out, fitted);
    }
    mp_free(f.strings);
    mp_free(f.functions);
    mp_free(f.locations);
    mp_free(f.samples);
    mp_free(f.frames);
    mp_free(f.order);
    mp_free(f.other);
    return error;
}
