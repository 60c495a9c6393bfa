#include "comments.h"

#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include "core/platform.h"

static VALUE sym_heap_live_slots;
static char our_ruby[96], our_version[32];
static int bypassed;

MP_PRINTF(2, 3) static void line(mp_comments *c, const char *format, ...)
{
    if (c->count == MP_COMMENTS_MAX) return;
    char *text = c->text[c->count];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, MP_COMMENT_LENGTH, format, arguments);
    va_end(arguments);
    c->lines[c->count++] = text;
}

static void number(mp_comments *c, const char *key, uint64_t value)
{
    line(c, "%s: %llu", key, (unsigned long long)value);
}

/*
 * What is of interest to the report's head only: pprof prints all comments above each of its tables,
 * but those that begin with "#".
 */
static void quiet(mp_comments *c, const char *key, uint64_t value)
{
    line(c, "# %s: %llu", key, (unsigned long long)value);
}

/* What went wrong is told only where it did. */
static void problem(mp_comments *c, const char *key, uint64_t value)
{
    if (value) number(c, key, value);
}

#define RUN "%08x-%08x"
#define RUN_ARGS(id) (uint32_t)((id) >> 32), (uint32_t)(id)

static void id(mp_comments *c, const char *key, uint64_t value)
{
    line(c, "# %s: " RUN, key, RUN_ARGS(value));
}

static void forked_from(mp_comments *c, const mp_run *run)
{
    if (run->parent == run->root)
        id(c, "forked_from", run->root);
    else
        line(c, "# forked_from: " RUN ", " RUN, RUN_ARGS(run->root), RUN_ARGS(run->parent));
}

static mp_counts counted_since(const mp_counts *now, const mp_counts *before)
{
    return (mp_counts){
        .samples = now->samples - before->samples,
        .dropped = now->dropped - before->dropped,
        .untracked = now->untracked - before->untracked,
        .thinned = now->thinned - before->thinned,
        .lost_samples = now->lost_samples - before->lost_samples,
        .lost_collections = now->lost_collections - before->lost_collections,
        .truncated = now->truncated - before->truncated,
        .overflow = now->overflow - before->overflow,
        .own_objects = now->own_objects - before->own_objects,
        .rearmed = now->rearmed - before->rearmed,
    };
}

void mp_comments_write(mp_comments *c, const mp_run *run, uint64_t heap_bytes,
                       const mp_earlier *since)
{
    const mp_recorder *recorder = run->recorder;
    mp_counts all = recorder->counts;
    if (since) all = counted_since(&all, &since->counted->counts);
    const mp_counts *counts = &all;
    c->count = 0;
    line(c, "memprofiler: %s", our_version);
    line(c, "# ruby: %s", our_ruby);
    quiet(c, "pid", (uint64_t)getpid());
    /* By these a sum tells what it has twice: of a difference only what came before a fork. */
    id(c, "run", run->id);
    if (run->root && (!since || since->id != run->id)) forked_from(c, run);
    number(c, "interval", recorder->options.interval);
    quiet(c, "track_one_in", (uint64_t)recorder->options.track_one_in << recorder->doublings);
    line(c, "# liveness: %s", run->liveness == MP_LIVENESS_MARK ? "mark" : "free");
    quiet(c, "samples", counts->samples);
    quiet(c, "heap_live_slots", rb_gc_stat(sym_heap_live_slots));
    if (heap_bytes) quiet(c, "heap_bytes", heap_bytes);
    if (heap_bytes && run->heap_before) quiet(c, "heap_bytes_before", run->heap_before);
    quiet(c, "collections", recorder->completed - (since ? since->counted->completed : 0));
    quiet(c, "own_objects", counts->own_objects);

    problem(c, "dropped_samples", counts->dropped);
    problem(c, "untracked_samples", counts->untracked);
    problem(c, "thinned_samples", counts->thinned);
    problem(c, "truncated_stacks", counts->truncated);
    problem(c, "overflow_stacks", counts->overflow);
    problem(c, "lost_collections", counts->lost_collections);
    problem(c, "lost_samples", counts->lost_samples);
    problem(c, "hooks_rearmed", counts->rearmed);
    uint64_t unseen = mp_run_unseen(run), before = since ? since->unseen : 0;
    problem(c, "unseen_objects", unseen > before ? unseen - before : 0);
    /* Up to 3.4 a hook belongs to its Ractor; else only where there was none does anything pass it. */
    if (unseen && !MP_HOOKS_ARE_GLOBAL && !recorder->counts.rearmed)
        line(c, "ractors: other Ractors were not seen");
    if (bypassed) line(c, "jit: ZJIT makes objects past any profiler, and those are missing");
    if (run->stopped[0]) line(c, "stopped: %s", run->stopped);
}

void mp_comments_bypassed(void)
{
    bypassed = 1;
}

void mp_comments_write_difference(mp_comments *c, const char *of, const mp_run *run,
                                  const mp_earlier *since, int64_t until, int64_t nanos)
{
    /* As lib/memprofiler/spans.rb has it: a forked child's run begins with the fork. */
    long long from = since->id == run->id ? (long long)since->time_nanos : 0;
    line(c, "# spans: " RUN "@%lld..%lld", RUN_ARGS(run->id), from, (long long)until);
    line(c, "difference: of %s, %.3f s apart", of, (double)nanos / 1e9);
}

void mp_comments_write_living(mp_comments *c, uint64_t samples, uint64_t objects)
{
    quiet(c, "live_samples", samples);
    quiet(c, "tracked_objects", objects);
}

static void read_constant(const char *name, char *into, size_t room)
{
    VALUE value = rb_const_get(rb_cObject, rb_intern(name));
    snprintf(into, room, "%s", StringValueCStr(value));
}

void mp_init_comments(void)
{
    char version[32], platform[48];
    sym_heap_live_slots = ID2SYM(rb_intern("heap_live_slots"));
    read_constant("RUBY_VERSION", version, sizeof version);
    read_constant("RUBY_PLATFORM", platform, sizeof platform);
    snprintf(our_ruby, sizeof our_ruby, "%s %s", version, platform);
    VALUE ours = rb_path2class("Memprofiler");
    VALUE gem = rb_const_get(ours, rb_intern("VERSION"));
    snprintf(our_version, sizeof our_version, "%s", StringValueCStr(gem));
}
