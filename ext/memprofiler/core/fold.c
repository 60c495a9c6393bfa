#include "fold.h"

/* Flags of a raw stack. */
enum {
    STACK_DEAD = 1,    /* has a frame that died */
    STACK_RETIRED = 2, /* and has given up its own reference */
    STACK_NO_ROOM = 4, /* for itself, or for a function of it, when it was named */
};

/* ---- names ----------------------------------------------------------------------------------- */

uint32_t mp_recorder_function(mp_recorder *r, uint32_t name, uint32_t file, uint32_t line,
                              uint32_t flags)
{
    uint32_t function = 0;
    if (name != MP_STRING_NONE && file != MP_STRING_NONE) {
        function = mp_functions_intern(&r->functions, name, 0, file, line);
    } else {
        if (name != MP_STRING_NONE) mp_strings_release(&r->strings, name);
        if (file != MP_STRING_NONE) mp_strings_release(&r->strings, file);
    }
    if (function) {
        mp_functions_at(&r->functions, function)->flags |= flags;
        return function;
    }
    function = mp_refs_at(&r->frames, MP_FRAME_OVERFLOW)->name;
    mp_functions_retain(&r->functions, function);
    return function;
}

static int pending(const mp_refs *refs, uint32_t id)
{
    return id && mp_refs_at(refs, id)->state == MP_REF_PENDING;
}

static int has_unnamed_frame(const mp_recorder *r, const mp_stack *stack)
{
    mp_words at = stack->words;
    for (uint32_t i = 0; !stack->user && i < stack->depth; i++) {
        if (pending(&r->frames, (uint32_t)(mp_words_next(&at) >> 32))) return 1;
    }
    return 0;
}

/* Something in it has no name yet: seen since the naming, by a thread or Ractor that was let in. */
static int waits_for_names(const mp_recorder *r, const mp_site *raw)
{
    if (has_unnamed_frame(r, mp_stacks_at(&r->raw_stacks, raw->stack))) return 1;
    return pending(&r->classes, raw->klass) || pending(&r->threads, raw->thread);
}

static uint32_t named_stack_of(mp_recorder *r, uint32_t raw)
{
    mp_stack *stack = mp_stacks_at(&r->raw_stacks, raw);
    if (stack->user) return stack->user;

    mp_words from = stack->words;
    uint64_t *words = r->scratch;
    uint32_t depth = 0, id = 0, i;
    uint32_t no_function = mp_refs_at(&r->frames, MP_FRAME_OVERFLOW)->name;
    for (i = 0; i < stack->depth; i++) {
        uint64_t word = mp_words_next(&from);
        uint32_t function = mp_refs_at(&r->frames, (uint32_t)(word >> 32))->name;
        uint32_t line = (uint32_t)word;
        if (function == no_function) stack->flags |= STACK_NO_ROOM;
        uint32_t flags = mp_functions_at(&r->functions, function)->flags;
        if (flags & MP_FUNCTION_OURS) continue;
        /* Ruby 3.1 ends the main thread's stacks with a second <main>, at line 0. */
        if ((flags & MP_FUNCTION_MAIN) && line == 0 && i > 0 && i + 1 == stack->depth) continue;
        uint32_t location = mp_locations_intern(&r->functions, function, line);
        if (!location) break;
        words[depth++] = location;
    }
    if (i == stack->depth) {
        if (depth == 0) {
            uint32_t none = mp_refs_at(&r->frames, MP_FRAME_NONE)->name;
            uint32_t location = mp_locations_intern(&r->functions, none, 0);
            if (location) words[depth++] = location;
        }
        id = depth ? mp_stacks_intern(&r->named_stacks, words, depth) : 0;
    }
    /* A new stack takes over the references on its locations. */
    if (!id || mp_stacks_at(&r->named_stacks, id)->refs > 1) {
        for (uint32_t at = 0; at < depth; at++) {
            mp_locations_release(&r->functions, (uint32_t)words[at]);
        }
    }
    if (!id) stack->flags |= STACK_NO_ROOM;
    stack->user = id ? id : r->overflow_named_stack;
    return stack->user;
}

int mp_recorder_name_stacks(mp_recorder *r, uint32_t most)
{
    uint32_t top = r->raw_stacks.slabs.top;
    for (; most > 0 && r->stacks_named < top; most--) {
        const mp_stack *stack = mp_stacks_at(&r->raw_stacks, r->stacks_named + 1);
        if (stack->refs) {
            if (has_unnamed_frame(r, stack)) return 0;
            named_stack_of(r, r->stacks_named + 1);
        }
        r->stacks_named++;
    }
    return r->stacks_named < top;
}

/* The caps of label_sets.h bound these. */
static uint32_t copy_string(mp_recorder *r, const mp_string *string)
{
    return mp_strings_intern_own(&r->strings, string->bytes, string->length);
}

/* Whole or not at all: half a pair would be a label without a name, or a number. */
static int copy_pair(mp_recorder *r, const mp_labels *labels, mp_label_pair *pair)
{
    uint32_t key = copy_string(r, mp_strings_at(&labels->strings, pair->key));
    if (key == MP_STRING_NONE) return 0;
    uint32_t value = copy_string(r, mp_strings_at(&labels->strings, pair->value));
    if (value == MP_STRING_NONE) {
        mp_strings_release(&r->strings, key);
        return 0;
    }
    *pair = (mp_label_pair){key, value};
    return 1;
}

/*
 * For ever, as its strings: there are as few as the process has sets. Without memory, the empty set;
 * a pair whose strings found no room is left out.
 */
static uint32_t label_set_of(mp_recorder *r, uint32_t set)
{
    if (!set || !r->labels) return 0;
    uint32_t id = mp_records_intern(&r->label_sets, &set);
    if (!id) return 0;
    mp_label_set *names = mp_records_at(&r->label_sets, id);
    if (names->record.refs > 1) {
        mp_records_release(&r->label_sets, id);
        return id;
    }
    mp_label_pair pairs[MP_LABELS_MAX];
    uint32_t n = mp_labels_pairs(r->labels, set, pairs);
    for (uint32_t i = 0; i < n; i++) {
        if (copy_pair(r, r->labels, &pairs[i])) names->pairs[names->n++] = pairs[i];
    }
    return id;
}

/* Never 0. Named sites are for ever, and so are the strings and stacks in their keys. */
static uint32_t named_site_of(mp_recorder *r, const mp_site *raw)
{
    uint32_t key[MP_SITE_KEY_WORDS] = {
        named_stack_of(r, raw->stack),
        mp_refs_at(&r->classes, raw->klass)->name,
        raw->thread ? mp_refs_at(&r->threads, raw->thread)->name : 0,
        label_set_of(r, raw->labels),
    };
    uint32_t id = mp_records_intern(&r->named_sites, key);
    if (!id) return r->overflow_named_site;
    if (mp_site_at(&r->named_sites, id)->record.refs == 1) {
        mp_strings_retain(&r->strings, key[1]);
        mp_strings_retain(&r->strings, key[2]);
    } else {
        mp_records_release(&r->named_sites, id);
    }
    return id;
}

/* What had no room in the hook already was counted there. */
static int no_room_for_names(const mp_recorder *r, const mp_site *raw)
{
    if (raw->stack == r->overflow_stack || raw->klass == r->overflow_class) return 0;
    return mp_stacks_at(&r->raw_stacks, raw->stack)->flags & STACK_NO_ROOM ||
           raw->named == r->overflow_named_site ||
           mp_refs_at(&r->classes, raw->klass)->name ==
               mp_refs_at(&r->classes, r->overflow_class)->name;
}

int mp_recorder_name_sites(mp_recorder *r, uint32_t most)
{
    uint32_t top = r->raw_sites.slabs.top;
    for (; most > 0 && r->sites_named < top; most--) {
        mp_site *raw = mp_site_at(&r->raw_sites, ++r->sites_named);
        if (raw->record.refs && !raw->named && !waits_for_names(r, raw))
            raw->named = named_site_of(r, raw);
    }
    return r->sites_named < top;
}

static void fold_site(mp_recorder *r, mp_site *raw)
{
    if (!raw->named) {
        if (waits_for_names(r, raw)) return;
        raw->named = named_site_of(r, raw);
    }
    if (!raw->objects && !raw->bytes)
        return; /* most of them, most times: leave the other's memory alone */
    if (no_room_for_names(r, raw)) r->counts.overflow += raw->objects / r->options.interval;
    mp_site *named = mp_site_at(&r->named_sites, raw->named);
    named->objects += raw->objects;
    named->bytes += raw->bytes;
    named->variance += raw->variance;
    raw->objects = 0;
    raw->bytes = 0;
    raw->variance = 0;
}

/* ---- letting go ------------------------------------------------------------------------------ */

static void release_raw_stack(mp_recorder *r, uint32_t id)
{
    mp_stack *stack = mp_stacks_at(&r->raw_stacks, id);
    if (stack->refs == 1) {
        mp_words at = stack->words;
        for (uint32_t i = 0; i < stack->depth; i++) {
            mp_refs_release(&r->frames, (uint32_t)(mp_words_next(&at) >> 32));
        }
        /* The cache may name it, under a hash that nobody remembers. */
        mp_recorder_forget_stacks(r);
    }
    mp_stacks_release(&r->raw_stacks, id);
}

/* Only a retired site, which has its name, can lose its last reference. */
void mp_raw_site_release(mp_recorder *r, uint32_t id)
{
    mp_site *site = mp_site_at(&r->raw_sites, id);
    if (site->record.refs == 1) {
        fold_site(r, site);
        release_raw_stack(r, site->stack);
        mp_refs_release(&r->classes, site->klass);
        if (site->thread) mp_refs_release(&r->threads, site->thread);
    }
    mp_records_release(&r->raw_sites, id);
}

int mp_recorder_fold_some(mp_recorder *r, uint32_t *at, uint32_t most)
{
    for (; most > 0 && *at < r->raw_sites.slabs.top; most--) {
        mp_site *site = mp_site_at(&r->raw_sites, ++*at);
        if (site->record.refs) fold_site(r, site);
    }
    return *at < r->raw_sites.slabs.top;
}

void mp_recorder_fold(mp_recorder *r)
{
    uint32_t at = 0;
    mp_recorder_fold_some(r, &at, UINT32_MAX);
}

static int dead(const mp_refs *refs, uint32_t id)
{
    return id && mp_refs_at(refs, id)->state == MP_REF_DEAD;
}

static uint64_t held_by_sites(const mp_recorder *r)
{
    return r->classes.dead_refs + r->threads.dead_refs;
}

/* A stack whose frame died can't be met again: its sites and itself go as soon as they may. */
static void look_for_dead_frames(mp_recorder *r, uint32_t id)
{
    mp_stack *stack = mp_stacks_at(&r->raw_stacks, id);
    if (!stack->refs || stack->flags & STACK_RETIRED) return;
    mp_words at = stack->words;
    for (uint32_t i = 0; i < stack->depth; i++) {
        if (!dead(&r->frames, (uint32_t)(mp_words_next(&at) >> 32))) continue;
        stack->flags |= STACK_DEAD;
        return;
    }
}

static void retire_site(mp_recorder *r, uint32_t id)
{
    mp_site *site = mp_site_at(&r->raw_sites, id);
    if (!site->record.refs || site->retired || !site->named) return;
    if (mp_stacks_at(&r->raw_stacks, site->stack)->flags & STACK_DEAD ||
        dead(&r->classes, site->klass) || dead(&r->threads, site->thread)) {
        site->retired = 1;
        mp_raw_site_release(r, id);
    }
}

static void retire_stack(mp_recorder *r, uint32_t id)
{
    mp_stack *stack = mp_stacks_at(&r->raw_stacks, id);
    if (!stack->refs || !(stack->flags & STACK_DEAD) || stack->flags & STACK_RETIRED) return;
    stack->flags |= STACK_RETIRED;
    release_raw_stack(r, id);
}

/* What is done to each item; whatever happens between two of them, the next tidying sees to. */
enum { TIDY_FOLD, TIDY_LOOK, TIDY_SITES, TIDY_STACKS, TIDY_STAGES };

static void tidy_item(mp_recorder *r, uint32_t stage, uint32_t id)
{
    switch (stage) {
    case TIDY_FOLD:
        if (mp_site_at(&r->raw_sites, id)->record.refs) fold_site(r, mp_site_at(&r->raw_sites, id));
        break;
    case TIDY_LOOK:
        look_for_dead_frames(r, id);
        break;
    case TIDY_SITES:
        retire_site(r, id);
        break;
    default:
        retire_stack(r, id);
    }
}

/* A stack's frames are looked at, or let go of, one by one: so many take what an item does. */
#define FRAMES_PER_ITEM 32u

static uint32_t worth(const mp_recorder *r, uint32_t stack)
{
    const mp_stack *of = mp_stacks_at(&r->raw_stacks, stack);
    return of->refs ? 1 + of->depth / FRAMES_PER_ITEM : 1;
}

int mp_recorder_tidy_some(mp_recorder *r, uint32_t most)
{
    while (r->tidy.stage < TIDY_STAGES) {
        int of_sites = r->tidy.stage == TIDY_FOLD || r->tidy.stage == TIDY_SITES;
        const mp_slabs *slabs = of_sites ? &r->raw_sites.slabs : &r->raw_stacks.slabs;
        while (r->tidy.at < slabs->top) {
            if (most == 0) return 1;
            uint32_t id = ++r->tidy.at, taken = of_sites ? 1 : worth(r, id);
            tidy_item(r, r->tidy.stage, id);
            most -= taken < most ? taken : most;
        }
        r->tidy.stage++;
        r->tidy.at = 0;
    }
    r->tidy.stage = 0;
    r->tidied_sites = held_by_sites(r);
    r->tidied_stacks = r->frames.dead_refs;
    return 0;
}

void mp_recorder_tidy(mp_recorder *r)
{
    while (mp_recorder_tidy_some(r, UINT32_MAX)) continue;
}

static int grown(uint64_t now, uint64_t tidied, uint32_t items)
{
    return now > tidied && now - tidied > 512 + items / 8;
}

/*
 * What stays dead after a tidying is held by living samples: only what came since counts. A site
 * holds one class and one thread; a stack holds many frames, mostly of a few files.
 */
int mp_recorder_untidy(const mp_recorder *r)
{
    if (mp_recorder_tidying(r)) return 1;
    return grown(held_by_sites(r), r->tidied_sites, r->raw_sites.slabs.in_use) ||
           grown(r->frames.dead_refs, r->tidied_stacks, r->raw_stacks.slabs.in_use);
}
