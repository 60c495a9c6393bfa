/*
 * A simulated program for the tests of the recorder: it allocates, grows and frees objects, and
 * plays the part of the VM side towards the recorder. What truly happened is kept here, object by
 * object, beside the recorder and without looking at it.
 *
 * Places are known by shape: a stack of functions and lines. A function has two entries (frame
 * addresses), and frames, classes and threads die and come back at other addresses; shape, class
 * and thread number stay what they are, and are what the truth is kept by.
 */
#ifndef MEMPROFILER_SPEC_PROGRAM_H
#define MEMPROFILER_SPEC_PROGRAM_H

#include "check.h"
#include "dice.h"
#include "recorder.h"

#include <stdarg.h>
#include <stdlib.h>

#define FUNCTIONS 24u
#define SHAPES 40u
#define DEPTH 6u
#define CLASSES 6u
#define HIDDEN CLASSES /* what an object is called whose class is not known */
#define THREADS 3u
#ifndef OBJECTS
#define OBJECTS 30000u /* living at once */
#endif

#define FRAME_BASE UINT64_C(0x550000000000)
#define CLASS_BASE UINT64_C(0x560000000000)
#define THREAD_BASE UINT64_C(0x570000000000)
#define OBJECT_BASE UINT64_C(0x7f0000000000)

typedef struct {
    uint64_t alloc_objects, alloc_space, inuse_objects, inuse_space;
} values;

typedef values cells[SHAPES][CLASSES + 1][THREADS];

typedef struct {
    bool alive, lost; /* lost: the recorder was told to forget all there was */
    bool waits;       /* its class is not known yet, and its counters wait */
    uint32_t shape, klass, thread, slot, born;
    uint32_t size, measured, largest;
    double told; /* what the recorder has counted for it, if it tracks it */
} object;

typedef struct {
    mp_recorder *recorder;
    dice dice;
    struct {
        uint32_t depth, function[DEPTH];
        int line[DEPTH];
    } shape[SHAPES];
    uint32_t frame_lives[FUNCTIONS], class_lives[CLASSES], thread_lives[THREADS];
    uint32_t hidden; /* class number */
    uint64_t moved;  /* every address there is was moved by so much */

    object *objects;
    uint32_t spare[OBJECTS], n_spare;
    uint32_t collections;
    uint32_t doublings; /* thinning that the living samples have been through */
    uint64_t allocations, sampled, lost_samples, reused;

    cells truth;              /* alloc_* only: inuse_* is counted from the objects */
    double variance_of_space; /* of the estimate of all alloc_space */

    uint64_t *last_objects, *last_bytes; /* by named site, at the last look */
    uint32_t last_sites;
} program;

/* ---- addresses ------------------------------------------------------------------------------- */

static inline uintptr_t frame_address(const program *p, uint32_t function, uint32_t entry)
{
    uint64_t n = ((uint64_t)p->frame_lives[function] * FUNCTIONS + function) * 2 + entry;
    return FRAME_BASE + p->moved + (n << 6);
}

static inline uintptr_t class_address(const program *p, uint32_t klass)
{
    return CLASS_BASE + p->moved + (((uint64_t)p->class_lives[klass] * CLASSES + klass) << 6);
}

static inline uintptr_t thread_address(const program *p, uint32_t thread)
{
    return THREAD_BASE + p->moved + (((uint64_t)p->thread_lives[thread] * THREADS + thread) << 6);
}

static inline uint64_t object_address(const program *p, uint32_t at)
{
    return OBJECT_BASE + p->moved + (uint64_t)at * 40;
}

/* ---- names: as naming.c does, with what takes a name's place when memory is short ------------ */

__attribute__((format(printf, 2, 3))) static inline uint32_t intern_text(mp_recorder *r,
                                                                         const char *format, ...)
{
    char text[32];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return mp_strings_intern(&r->strings, text, (size_t)length);
}

static inline void name_frame(program *p, uint32_t id)
{
    mp_recorder *r = p->recorder;
    uint64_t n = (mp_refs_at(&r->frames, id)->address - p->moved - FRAME_BASE) >> 6;
    uint32_t f = (uint32_t)(n / 2 % FUNCTIONS);
    /* Two functions share each name. */
    uint32_t name = intern_text(r, "f%u", f / 2), file = intern_text(r, "app/%u.rb", f % 3);
    uint32_t function = mp_recorder_function(r, name, file, f, 0);
    mp_refs_name(&r->frames, id, function, 0);
}

static inline void name_class(program *p, uint32_t id)
{
    mp_recorder *r = p->recorder;
    uint64_t n = (mp_refs_at(&r->classes, id)->address - p->moved - CLASS_BASE) >> 6;
    uint32_t name = intern_text(r, "Class%u", (uint32_t)(n % CLASSES));
    if (name == MP_STRING_NONE) {
        name = mp_refs_at(&r->classes, r->overflow_class)->name;
        mp_strings_retain(&r->strings, name);
    }
    mp_refs_name(&r->classes, id, name, 0);
}

static inline void name_thread(program *p, uint32_t id)
{
    mp_recorder *r = p->recorder;
    uint64_t n = (mp_refs_at(&r->threads, id)->address - p->moved - THREAD_BASE) >> 6;
    uint32_t name = intern_text(r, "thread%u", (uint32_t)(n % THREADS));
    mp_refs_name(&r->threads, id, name == MP_STRING_NONE ? 0 : name, 0);
}

static inline void name_all(program *p)
{
    mp_recorder *r = p->recorder;
    while (r->frames.pending) name_frame(p, r->frames.pending);
    while (r->classes.pending) name_class(p, r->classes.pending);
    while (r->threads.pending) name_thread(p, r->threads.pending);
}

/* ---- making and ending ----------------------------------------------------------------------- */

static inline program *program_new(const mp_options *options)
{
    program *p = calloc(1, sizeof *p);
    p->recorder = mp_recorder_new(options);
    p->dice = dice_new(options->seed + 1000);
    p->objects = calloc(OBJECTS, sizeof *p->objects);
    for (uint32_t i = 0; i < OBJECTS; i++) p->spare[p->n_spare++] = OBJECTS - 1 - i;
    if (!p->recorder) return p;
    p->hidden = mp_refs_add_named(&p->recorder->classes, intern_text(p->recorder, "(hidden)"));
    for (uint32_t s = 0; s < SHAPES; s++) {
        uint32_t depth = p->shape[s].depth = 2 + s % (DEPTH - 2);
        /* The outermost frame's line tells shapes apart; functions may repeat in a stack. */
        for (uint32_t i = 0; i < depth; i++) {
            p->shape[s].function[i] = dice_roll(&p->dice, FUNCTIONS);
            p->shape[s].line[i] = i + 1 == depth ? (int)s + 1 : (int)dice_roll(&p->dice, 3);
        }
    }
    return p;
}

static inline void program_free(program *p)
{
    if (p->recorder) mp_recorder_release(p->recorder);
    free(p->objects);
    free(p->last_objects);
    free(p->last_bytes);
    free(p);
}

/* ---- what happens ---------------------------------------------------------------------------- */

static inline void count(program *p, const object *o)
{
    values *v = &p->truth[o->shape][o->klass][o->thread];
    v->alloc_objects++;
    v->alloc_space += o->largest;
}

/* The object's class is found out to be `klass`, or never will be (HIDDEN). */
static inline void class_known(program *p, uint32_t at, uint32_t klass)
{
    object *o = &p->objects[at];
    mp_recorder *r = p->recorder;
    if (!o->waits) return;
    o->waits = false;
    o->klass = klass;
    count(p, o);
    uint32_t live = o->lost ? 0 : mp_live_find(&r->live, object_address(p, at));
    if (!live) return;
    uint32_t id = klass == HIDDEN ? 0 : mp_recorder_class(r, class_address(p, klass));
    mp_recorder_class_known(r, live, id);
}

static inline uint32_t raw_stack(program *p, uint32_t shape)
{
    uintptr_t frames[DEPTH];
    for (uint32_t i = 0; i < p->shape[shape].depth; i++) {
        frames[i] = frame_address(p, p->shape[shape].function[i], dice_roll(&p->dice, 2));
    }
    return mp_recorder_stack(p->recorder, frames, p->shape[shape].line, p->shape[shape].depth, 0);
}

/* An allocation at a place in the heap that is free, as far as the program knows. */
static inline void allocate_at(program *p, uint32_t at, bool class_later)
{
    mp_recorder *r = p->recorder;
    object *o = &p->objects[at];
    *o = (object){.alive = true,
                  .waits = class_later,
                  .shape = dice_roll(&p->dice, SHAPES),
                  .klass = class_later ? HIDDEN : dice_roll(&p->dice, CLASSES),
                  .thread = dice_roll(&p->dice, THREADS),
                  .slot = 40u << dice_roll(&p->dice, 5),
                  .born = p->collections};
    o->size = o->measured = o->largest = o->slot;
    if (dice_roll(&p->dice, 3) == 0) o->size += dice_roll(&p->dice, 1000);
    if (!class_later) count(p, o);
    p->allocations++;
    o->told = (double)o->slot * r->options.interval;
    p->variance_of_space += (r->options.interval - 1.0) * o->slot * o->slot;

    if (--r->countdown > 0) return;
    p->sampled++;
    mp_allocation allocation = {
        .stack = raw_stack(p, o->shape),
        .klass = class_later ? p->hidden : mp_recorder_class(r, class_address(p, o->klass)),
        .thread = mp_recorder_thread(r, thread_address(p, o->thread)),
        .address = object_address(p, at),
        .size = o->slot,
        .class_later = class_later,
    };
    mp_recorder_sample(r, &allocation);
    mp_recorder_next_gap(r);
}

static inline void allocate(program *p)
{
    if (p->n_spare) allocate_at(p, p->spare[--p->n_spare], false);
}

/* As the VM side does: the class is asked for first. */
static inline void measure(program *p, uint32_t at)
{
    object *o = &p->objects[at];
    mp_recorder *r = p->recorder;
    if (o->lost) return;
    class_known(p, at, dice_roll(&p->dice, CLASSES + 1));
    o->measured = o->size;
    if (o->size > o->largest) {
        double more = o->size - o->largest, before = o->largest;
        double weight = (double)mp_recorder_live_weight(r, p->doublings);
        p->variance_of_space += weight * more * more + 2 * o->told * more;
        p->variance_of_space -= 2 * before * more + more * more;
        o->told += weight * more;
        p->truth[o->shape][o->klass][o->thread].alloc_space += o->size - o->largest;
        o->largest = o->size;
    }
    uint32_t live = mp_live_find(&r->live, object_address(p, at));
    if (live) mp_recorder_measured(r, live, o->size);
}

static inline void measure_all(program *p)
{
    for (uint32_t at = 0; at < OBJECTS; at++) {
        if (p->objects[at].alive) measure(p, at);
    }
}

static inline void resize(program *p, uint32_t at)
{
    object *o = &p->objects[at];
    if (o->alive) o->size = o->slot + dice_roll(&p->dice, 4) * dice_roll(&p->dice, 900);
}

static inline void die(program *p, uint32_t at)
{
    object *o = &p->objects[at];
    measure(p, at);
    uint32_t live = o->lost ? 0 : mp_live_find(&p->recorder->live, object_address(p, at));
    if (live) mp_recorder_died(p->recorder, live);
    o->alive = false;
    p->spare[p->n_spare++] = at;
}

/* A collection, in which each object dies with `percent` odds; the young twice as often. */
static inline void collect(program *p, uint32_t percent)
{
    for (uint32_t at = 0; at < OBJECTS; at++) {
        if (!p->objects[at].alive) continue;
        uint32_t odds = p->objects[at].born == p->collections ? percent * 2 : percent;
        if (dice_roll(&p->dice, 100) < odds)
            die(p, at);
        else
            class_known(p, at, dice_roll(&p->dice, CLASSES));
    }
    p->collections++;
    mp_recorder_marked(p->recorder);
    p->recorder->completed = p->recorder->collections;
}

/* Frames, classes and threads that die come back under another address. What has no name yet is
 * pinned, and does not die. */
static inline bool address_dies(mp_refs *refs, uint64_t address)
{
    uint32_t id = mp_refs_find(refs, address);
    if (id && mp_refs_at(refs, id)->state != MP_REF_NAMED) return false;
    if (id) mp_refs_die(refs, id);
    return true;
}

static inline void function_dies(program *p, uint32_t f)
{
    mp_recent_forget(&p->recorder->recent); /* as at the end of marking, which is when frames die */
    if (!address_dies(&p->recorder->frames, frame_address(p, f, 0))) return;
    if (address_dies(&p->recorder->frames, frame_address(p, f, 1))) p->frame_lives[f]++;
}

static inline void class_dies(program *p, uint32_t k)
{
    if (address_dies(&p->recorder->classes, class_address(p, k))) p->class_lives[k]++;
}

static inline void thread_dies(program *p, uint32_t t)
{
    if (address_dies(&p->recorder->threads, thread_address(p, t))) p->thread_lives[t]++;
}

static inline uint64_t program_moved_to(uint64_t address)
{
    return address + (UINT64_C(1) << 32);
}

/* Compaction, as run.c does it. Pending things would be pinned: there must be none. */
static inline void compact(program *p)
{
    mp_recorder *r = p->recorder;
    mp_live_rekey(&r->live, program_moved_to);
    mp_refs_rekey(&r->frames, program_moved_to);
    mp_refs_rekey(&r->classes, program_moved_to);
    mp_refs_rekey(&r->threads, program_moved_to);
    mp_recorder_forget_stacks(r);
    p->moved += UINT64_C(1) << 32;
}

/* A collection went unseen. */
static inline void lose(program *p)
{
    for (uint32_t at = 0; at < OBJECTS; at++) {
        object *o = &p->objects[at];
        if (!o->alive || o->lost) continue;
        if (o->waits) {
            o->waits = false;
            count(p, o);
        }
        o->lost = true;
        p->lost_samples++;
    }
    mp_recorder_lost(p->recorder);
}

/* A death that nobody saw: the place is another object's. */
static inline void replace(program *p, uint32_t at)
{
    object *o = &p->objects[at];
    if (!o->alive) return;
    if (o->waits) count(p, o);
    if (!o->lost) p->reused++;
    allocate_at(p, at, false);
}

/* What a step may do besides allocating, growing and, now and then, collecting. */
enum { LATE = 1, ENDINGS = 2, TIDY = 4, LOSSES = 8, REUSE = 16, COMPACT = 32, EVERYTHING = 63 };

static inline void step(program *p, unsigned what)
{
    dice *d = &p->dice;
    if (what & LATE && dice_roll(d, 10) == 0 && p->n_spare) {
        allocate_at(p, p->spare[--p->n_spare], true);
    } else {
        allocate(p);
    }
    for (int i = 0; i < 2; i++) resize(p, dice_roll(d, OBJECTS));
    if (what & REUSE && dice_roll(d, 50) == 0) replace(p, dice_roll(d, OBJECTS));
    if (what & ENDINGS) {
        if (dice_roll(d, 60) == 0) function_dies(p, dice_roll(d, FUNCTIONS));
        if (dice_roll(d, 200) == 0) class_dies(p, dice_roll(d, CLASSES));
        if (dice_roll(d, 300) == 0) thread_dies(p, dice_roll(d, THREADS));
    }
    if (dice_roll(d, 40) == 0) name_all(p);
    if (dice_roll(d, 30) == 0) mp_recorder_name_stacks(p->recorder, dice_roll(d, 40));
    if (dice_roll(d, 30) == 0) mp_recorder_name_sites(p->recorder, dice_roll(d, 40));
    if (what & COMPACT && dice_roll(d, 1500) == 0) {
        name_all(p);
        compact(p);
    }
    if (what & TIDY && dice_roll(d, 400) == 0) {
        name_all(p);
        while (mp_recorder_tidy_some(p->recorder, 1 + dice_roll(&p->dice, 500))) continue;
    }
    if (what & LOSSES && dice_roll(d, 1500) == 0) lose(p);
    if (dice_roll(d, 500) == 0) collect(p, 30);
}

#endif
