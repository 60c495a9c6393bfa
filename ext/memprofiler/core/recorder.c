#include "recorder.h"

#include <string.h>

#include "error.h"
#include "fold.h"
#include "hash.h"
#include "mem.h"

/* Of a living sample: with 8 GB for each object, its bytes are still below 2^63. */
#define MAX_WEIGHT ((uint64_t)1 << 30)

static void function_gone(void *owner, uint32_t function)
{
    mp_recorder *recorder = owner;
    if (function) mp_functions_release(&recorder->functions, function);
}

static void string_gone(void *owner, uint32_t string)
{
    mp_recorder *recorder = owner;
    mp_strings_release(&recorder->strings, string);
}

static int make_up_places(mp_recorder *r)
{
    static const char *const names[] = {"(truncated)", "(overflow)", "(no stack)"};
    for (uint32_t i = 0; i < 3; i++) {
        uint32_t name = mp_strings_intern(&r->strings, names[i], strlen(names[i]));
        if (name == MP_STRING_NONE) return 0;
        uint32_t function = mp_functions_intern(&r->functions, name, 0, 0, 0);
        if (!function || mp_refs_add_named(&r->frames, function) != i + 1) return 0;
    }
    const char *other = "(other classes)";
    uint32_t name = mp_strings_intern(&r->strings, other, strlen(other));
    if (name == MP_STRING_NONE) return 0;
    r->overflow_class = mp_refs_add_named(&r->classes, name);
    r->unnamed_thread = mp_strings_intern(&r->strings, "(thread)", 8);
    if (r->unnamed_thread == MP_STRING_NONE) return 0;

    uint64_t overflow = (uint64_t)MP_FRAME_OVERFLOW << 32;
    r->overflow_stack = mp_stacks_intern(&r->raw_stacks, &overflow, 1);
    uint32_t location =
        mp_locations_intern(&r->functions, mp_refs_at(&r->frames, MP_FRAME_OVERFLOW)->name, 0);
    if (!r->overflow_class || !r->overflow_stack || !location) return 0;
    uint64_t word = location;
    r->overflow_named_stack = mp_stacks_intern(&r->named_stacks, &word, 1);
    if (!r->overflow_named_stack) return 0;
    /* Sites made now are there however full the tables get: to count in, and to fold into. */
    uint32_t raw[MP_SITE_KEY_WORDS] = {r->overflow_stack, r->overflow_class, 0, 0};
    uint32_t named[MP_SITE_KEY_WORDS] = {r->overflow_named_stack, 0, 0, 0};
    mp_stacks_retain(&r->raw_stacks, r->overflow_stack);
    mp_refs_retain(&r->classes, r->overflow_class);
    r->overflow_site = mp_records_intern(&r->raw_sites, raw);
    r->overflow_named_site = mp_records_intern(&r->named_sites, named);
    return r->overflow_site && r->overflow_named_site;
}

mp_recorder *mp_recorder_new(const mp_options *options)
{
    mp_recorder *r = mp_calloc(1, sizeof *r);
    if (!r) return NULL;
    r->options = *options;
    r->holders = 1;
    r->thin_at = options->max_samples ? options->max_samples : UINT32_MAX;
    mp_sampler_init(&r->sampler, options->interval, options->seed);
    r->countdown = r->gap = mp_sampler_gap(&r->sampler);

    mp_strings_init(&r->strings, MP_CAP_STRINGS, MP_CAP_STRING_BYTES);
    mp_functions_init(&r->functions, &r->strings, MP_CAP_FUNCTIONS, MP_CAP_LOCATIONS);
    mp_refs_init(&r->frames, MP_CAP_FRAMES, function_gone, r);
    mp_refs_init(&r->classes, MP_CAP_CLASSES, string_gone, r);
    mp_refs_init(&r->threads, MP_CAP_THREADS, string_gone, r);
    mp_stacks_init(&r->raw_stacks, MP_CAP_STACKS, MP_CAP_STACK_WORDS, MP_CAP_STACK_FRAMES);
    mp_index_init(&r->stack_cache);
    mp_records_init(&r->raw_sites, sizeof(mp_site), MP_SITE_KEY_WORDS, MP_CAP_SITES);
    mp_stacks_init(&r->named_stacks, MP_CAP_STACKS, MP_CAP_STACK_WORDS, MP_CAP_STACK_FRAMES);
    mp_records_init(&r->named_sites, sizeof(mp_site), MP_SITE_KEY_WORDS, MP_CAP_SITES);
    mp_records_init(&r->label_sets, sizeof(mp_label_set), 1, UINT32_MAX - 1);
    mp_live_init(&r->live, UINT32_MAX); /* make_room sees to the cap */
    r->kept_threads = UINT32_MAX;
    r->scratch = mp_malloc((options->max_depth + 1) * sizeof *r->scratch);

    if (!r->scratch || !make_up_places(r)) {
        mp_recorder_release(r);
        return NULL;
    }
    return r;
}

void mp_recorder_hold(mp_recorder *r)
{
    r->holders++;
}

void mp_recorder_release(mp_recorder *r)
{
    if (--r->holders) return;
    mp_free(r->scratch);
    mp_live_destroy(&r->live);
    mp_records_destroy(&r->raw_sites);
    mp_records_destroy(&r->named_sites);
    mp_records_destroy(&r->label_sets);
    mp_index_destroy(&r->stack_cache);
    mp_recent_destroy(&r->recent);
    mp_stacks_destroy(&r->raw_stacks);
    mp_stacks_destroy(&r->named_stacks);
    mp_refs_destroy(&r->frames);
    mp_refs_destroy(&r->classes);
    mp_refs_destroy(&r->threads);
    mp_functions_destroy(&r->functions);
    mp_strings_destroy(&r->strings);
    mp_free(r);
}

/* ---- raw stacks ------------------------------------------------------------------------------ */

static uint64_t stack_word(uint32_t frame, int line)
{
    return (uint64_t)frame << 32 | (uint32_t)(line > 0 ? line : 0);
}

/* Two chains, since one waits for its multiplication at every frame. */
static uint64_t hash_frames(const uintptr_t *frames, const int *lines, uint32_t depth,
                            int truncated)
{
    uint64_t even = MP_HASH_SEED, odd = ~MP_HASH_SEED;
    uint32_t i = 0;
    for (; i + 1 < depth; i += 2) {
        even = mp_hash_word(even, frames[i] ^ (uint64_t)(uint32_t)lines[i] << 40);
        odd = mp_hash_word(odd, frames[i + 1] ^ (uint64_t)(uint32_t)lines[i + 1] << 40);
    }
    if (i < depth) even = mp_hash_word(even, frames[i] ^ (uint64_t)(uint32_t)lines[i] << 40);
    return mp_hash_end(mp_hash_word(even, odd), (uint64_t)depth * 2 + (truncated != 0));
}

/* Held against the frames' addresses of today: a frame that died or moved can't match. */
static int same_frames(const mp_recorder *r, const mp_stack *stack, const uintptr_t *frames,
                       const int *lines, uint32_t depth, int truncated)
{
    if (stack->depth != depth + (truncated != 0)) return 0;
    mp_words at = stack->words;
    for (uint32_t i = 0; i < depth; i++) {
        uint64_t word = mp_words_next(&at);
        if ((uint32_t)word != (uint32_t)(lines[i] > 0 ? lines[i] : 0)) return 0;
        if (mp_refs_at(&r->frames, (uint32_t)(word >> 32))->address != frames[i]) return 0;
    }
    return !truncated || mp_words_next(&at) == stack_word(MP_FRAME_TRUNCATED, 0);
}

static void retain_frames(mp_recorder *r, const mp_stack *stack)
{
    mp_words at = stack->words;
    for (uint32_t i = 0; i < stack->depth; i++) {
        mp_refs_retain(&r->frames, (uint32_t)(mp_words_next(&at) >> 32));
    }
}

static uint32_t new_stack(mp_recorder *r, const uintptr_t *frames, const int *lines, uint32_t depth,
                          int truncated)
{
    uint64_t *words = r->scratch;
    for (uint32_t i = 0; i < depth; i++) {
        uint32_t frame = mp_refs_find(&r->frames, frames[i]);
        if (!frame) frame = mp_refs_add(&r->frames, frames[i]);
        if (!frame) return r->overflow_stack;
        words[i] = stack_word(frame, lines[i]);
    }
    uint32_t length = depth;
    if (truncated) words[length++] = stack_word(MP_FRAME_TRUNCATED, 0);
    if (length == 0) words[length++] = stack_word(MP_FRAME_NONE, 0);

    uint32_t id = mp_stacks_intern(&r->raw_stacks, words, length);
    if (!id) return r->overflow_stack;
    mp_stack *stack = mp_stacks_at(&r->raw_stacks, id);
    /* A stack has one reference of its own while its frames live: see mp_recorder_tidy. */
    if (stack->refs == 1)
        retain_frames(r, stack);
    else
        stack->refs--;
    return id;
}

static uint32_t find_or_add_stack(mp_recorder *r, const uintptr_t *frames, const int *lines,
                                  uint32_t depth, int truncated)
{
    uint32_t tag = mp_index_tag(hash_frames(frames, lines, depth, truncated));
    for (uint32_t pos = tag, id; (id = mp_index_next(&r->stack_cache, tag, &pos)) != 0;) {
        if (same_frames(r, mp_stacks_at(&r->raw_stacks, id), frames, lines, depth, truncated)) {
            return id;
        }
    }
    uint32_t id = new_stack(r, frames, lines, depth, truncated);
    if (id == r->overflow_stack) return 0;
    /* Entries of frames that moved or died stay behind; twice the stacks means half of that. */
    if (r->stack_cache.used > 2 * r->raw_stacks.slabs.in_use) mp_index_clear(&r->stack_cache);
    if (mp_index_reserve(&r->stack_cache) == MP_OK) mp_index_add(&r->stack_cache, tag, id);
    return id;
}

uint32_t mp_recorder_stack(mp_recorder *r, const uintptr_t *frames, const int *lines,
                           uint32_t depth, int truncated)
{
    uint32_t id = mp_recent_find(&r->recent, frames, lines, depth, truncated);
    if (id) return id;
    id = find_or_add_stack(r, frames, lines, depth, truncated);
    if (!id) return r->overflow_stack;
    mp_recent_keep(&r->recent, id, frames, lines, depth, truncated);
    return id;
}

void mp_recorder_forget_stacks(mp_recorder *r)
{
    mp_index_clear(&r->stack_cache);
    mp_recent_forget(&r->recent);
}

/* ---- classes and threads --------------------------------------------------------------------- */

uint32_t mp_recorder_class(mp_recorder *r, uintptr_t klass)
{
    uint32_t id = mp_refs_find(&r->classes, klass);
    if (!id) id = mp_refs_add(&r->classes, klass);
    return id ? id : r->overflow_class;
}

uint32_t mp_recorder_thread(mp_recorder *r, uintptr_t thread)
{
    uint32_t id = mp_refs_find(&r->threads, thread);
    return id ? id : mp_refs_add(&r->threads, thread);
}

void mp_recorder_thread_gone(mp_recorder *r, uint32_t thread)
{
    if (mp_refs_at(&r->threads, thread)->state == MP_REF_PENDING) {
        mp_strings_retain(&r->strings, r->unnamed_thread);
        mp_refs_name(&r->threads, thread, r->unnamed_thread, 0);
    }
    mp_refs_die(&r->threads, thread);
}

/* Of which ones that is not known: all but those that are kept. */
static void threads_lost(mp_recorder *r)
{
    mp_refs_die_all(&r->threads);
    uint32_t id = r->threads.pending;
    for (uint32_t kept = 0; id && kept < r->kept_threads; kept++) {
        id = mp_refs_at(&r->threads, id)->link;
    }
    for (uint32_t next; id; id = next) {
        next = mp_refs_at(&r->threads, id)->link;
        mp_recorder_thread_gone(r, id);
    }
}

/* ---- raw sites ------------------------------------------------------------------------------- */

static uint32_t new_raw_site(mp_recorder *r, const uint32_t *key)
{
    uint32_t id = mp_records_intern(&r->raw_sites, key);
    if (!id) return 0;
    mp_stacks_retain(&r->raw_stacks, key[0]);
    mp_refs_retain(&r->classes, key[1]);
    if (key[2]) mp_refs_retain(&r->threads, key[2]);
    return id;
}

static uint32_t raw_site(mp_recorder *r, uint32_t stack, uint32_t klass, uint32_t thread,
                         uint32_t labels)
{
    /* A line of code mostly allocates one thing: the last site of this stack is the best guess. */
    mp_stack *of = mp_stacks_at(&r->raw_stacks, stack);
    if (of->last_site) {
        const mp_site *site = mp_site_at(&r->raw_sites, of->last_site);
        if (site->record.refs && site->stack == stack && site->klass == klass &&
            site->thread == thread && site->labels == labels && !site->retired)
            return of->last_site;
    }
    uint32_t key[MP_SITE_KEY_WORDS] = {stack, klass, thread, labels};
    uint32_t id = mp_records_find(&r->raw_sites, key);
    if (!id) id = new_raw_site(r, key);
    of->last_site = id;
    return id;
}

static uint32_t site_or_overflow(mp_recorder *r, uint32_t stack, uint32_t klass, uint32_t thread,
                                 uint32_t labels)
{
    uint32_t id = raw_site(r, stack, klass, thread, labels);
    if (id && stack != r->overflow_stack && klass != r->overflow_class) return id;
    r->counts.overflow++;
    return id ? id : r->overflow_site;
}

/* ---- samples --------------------------------------------------------------------------------- */

void mp_recorder_next_gap(mp_recorder *r)
{
    r->seen += (uint64_t)(r->gap - r->countdown);
    r->gap = r->countdown = mp_sampler_gap(&r->sampler);
}

/* How far it is to the next sample does not depend on how long the last one is ago. */
void mp_recorder_reseed(mp_recorder *r, uint64_t seed)
{
    mp_sampler_reseed(&r->sampler, mp_sampler_random(&r->sampler) ^ seed);
    mp_recorder_next_gap(r);
}

/*
 * At its cap the table is not closed: the odds of the next samples halve, which is unbiased at any
 * moment, and the old ones are thinned where measuring is legal. Until then the table grows on, but
 * each further quarter halves the odds again, so that to get to 9 caps, after 32 quarters, the program
 * would have to allocate 2^32 times as much as it took to get to the first.
 */
static void make_room(mp_recorder *r)
{
    if (mp_live_count(&r->live) < r->thin_at) return;
    r->wants_thinning = 1;
    if (mp_recorder_live_weight(r, r->doublings) < MAX_WEIGHT) r->doublings++;
    uint32_t step = r->options.max_samples / 4;
    r->thin_at = mp_live_count(&r->live) + (step ? step : 1);
}

static void count_slot(const mp_recorder *r, mp_site *site, uint64_t size)
{
    uint64_t weight = r->options.interval;
    site->objects += weight;
    site->bytes += weight * size;
    site->variance += mp_recorder_variance(weight, size);
}

void mp_recorder_sample(mp_recorder *r, const mp_allocation *allocation)
{
    uint32_t known = mp_live_find(&r->live, allocation->address);
    if (known) {
        r->counts.reused++;
        mp_recorder_died(r, known);
    }
    uint32_t id = site_or_overflow(r, allocation->stack, allocation->klass, allocation->thread,
                                   allocation->labels);
    if (!id) {
        r->counts.dropped++;
        return;
    }
    r->counts.samples++;
    mp_site *site = mp_site_at(&r->raw_sites, id);

    make_room(r);
    int tracked = mp_sampler_one_in(&r->sampler, (uint64_t)r->options.track_one_in << r->doublings);
    uint32_t live = 0;
    if (tracked || allocation->class_later) {
        live = mp_live_insert(&r->live, allocation->address, id, r->collections, allocation->size);
        if (!live && tracked) r->counts.untracked++;
    }
    if (live) {
        site->record.refs++;
        mp_live_entry *entry = mp_live_at(&r->live, live);
        entry->doublings = r->doublings & 0xff;
        if (allocation->foreign) entry->flags |= MP_LIVE_FOREIGN;
        if (!tracked) entry->flags |= MP_LIVE_PASSING;
        if (allocation->class_later) {
            entry->flags |= MP_LIVE_CLASS_LATER;
            return;
        }
    }
    count_slot(r, site, allocation->size);
}

static void forget(mp_recorder *r, uint32_t live)
{
    uint32_t site = mp_live_at(&r->live, live)->site;
    mp_live_remove(&r->live, live);
    mp_raw_site_release(r, site);
}

int mp_recorder_class_known(mp_recorder *r, uint32_t live, uint32_t klass)
{
    mp_live_entry *entry = mp_live_at(&r->live, live);
    if (!(entry->flags & MP_LIVE_CLASS_LATER)) return 1;
    entry->flags &= (uint16_t)~MP_LIVE_CLASS_LATER;

    mp_site *site = mp_site_at(&r->raw_sites, entry->site);
    if (klass && klass != site->klass) {
        uint32_t better = raw_site(r, site->stack, klass, site->thread, site->labels);
        /* With the stack it was counted already. */
        if ((!better || klass == r->overflow_class) && site->stack != r->overflow_stack)
            r->counts.overflow++;
        if (better) {
            mp_site_at(&r->raw_sites, better)->record.refs++;
            mp_raw_site_release(r, entry->site);
            entry->site = better;
            mp_recorder_changed(r, entry);
            site = mp_site_at(&r->raw_sites, better);
        }
    }
    count_slot(r, site, entry->largest);
    if (!(entry->flags & MP_LIVE_PASSING)) return 1;
    forget(r, live);
    return 0;
}

void mp_recorder_measured(mp_recorder *r, uint32_t live, uint64_t size)
{
    mp_live_entry *entry = mp_live_at(&r->live, live);
    /* Its slot must be counted before what it owns. */
    if (!mp_recorder_class_known(r, live, 0)) return;
    if (size > MP_LIVE_SIZE_MAX) size = MP_LIVE_SIZE_MAX;
    if (size == entry->size) return; /* in a forked child, writing is what takes time */
    mp_recorder_changed(r, entry);
    entry->size = size & MP_LIVE_SIZE_MAX;
    if (size <= entry->largest) return;
    mp_site *site = mp_site_at(&r->raw_sites, entry->site);
    uint64_t weight = mp_recorder_live_weight(r, entry->doublings);
    site->bytes += weight * (size - entry->largest);
    site->variance +=
        mp_recorder_variance(weight, size) - mp_recorder_variance(weight, entry->largest);
    entry->largest = size & MP_LIVE_SIZE_MAX;
}

void mp_recorder_died(mp_recorder *r, uint32_t live)
{
    if (mp_recorder_class_known(r, live, 0)) forget(r, live);
}

void mp_recorder_thin(mp_recorder *r)
{
    r->wants_thinning = 0;
    for (uint32_t id = 0; (id = mp_live_next(&r->live, id)) != 0;) {
        mp_live_entry *entry = mp_live_at(&r->live, id);
        if (entry->doublings >= r->doublings) continue;
        uint32_t behind = r->doublings - (uint32_t)entry->doublings;
        if (mp_sampler_one_in(&r->sampler, UINT64_C(1) << behind)) {
            entry->doublings = r->doublings & 0xff;
            mp_recorder_changed(r, entry);
        } else {
            r->counts.thinned++;
            mp_recorder_died(r, id);
        }
    }
    uint32_t count = mp_live_count(&r->live), max = r->options.max_samples;
    r->thin_at = count < max ? max : count + 1;
}

void mp_recorder_relax(mp_recorder *r)
{
    uint32_t max = r->options.max_samples;
    if (!r->doublings || r->wants_thinning || mp_live_count(&r->live) >= max / 4) return;
    r->doublings--;
    r->thin_at = max;
}

void mp_recorder_lost(mp_recorder *r)
{
    r->counts.lost_collections++;
    r->counts.lost_samples += mp_live_count(&r->live);
    for (uint32_t id = 0; (id = mp_live_next(&r->live, id)) != 0;) mp_recorder_died(r, id);
    mp_live_clear(&r->live);
    mp_refs_die_all(&r->frames);
    mp_refs_die_all(&r->classes);
    threads_lost(r);
    mp_recorder_forget_stacks(r);
}

void mp_recorder_freeze(mp_recorder *r)
{
    for (uint32_t id = 0; (id = mp_live_next(&r->live, id)) != 0;) {
        mp_recorder_class_known(r, id, 0);
    }
    mp_live_forget_addresses(&r->live);
    mp_refs_die_all(&r->frames);
    mp_refs_die_all(&r->classes);
    mp_refs_die_all(&r->threads);
    mp_index_destroy(&r->stack_cache);
    mp_recent_destroy(&r->recent);
}

uint64_t mp_recorder_allocations(const mp_recorder *r)
{
    return r->seen + (uint64_t)(r->gap - r->countdown);
}

size_t mp_recorder_memsize(const mp_recorder *r)
{
    return sizeof *r + mp_strings_memsize(&r->strings) + mp_functions_memsize(&r->functions) +
           mp_refs_memsize(&r->frames) + mp_refs_memsize(&r->classes) +
           mp_refs_memsize(&r->threads) + mp_stacks_memsize(&r->raw_stacks) +
           mp_index_memsize(&r->stack_cache) + mp_recent_memsize(&r->recent) +
           mp_records_memsize(&r->raw_sites) + mp_stacks_memsize(&r->named_stacks) +
           mp_records_memsize(&r->named_sites) + mp_records_memsize(&r->label_sets) +
           mp_live_memsize(&r->live) + (r->options.max_depth + 1) * sizeof *r->scratch;
}
