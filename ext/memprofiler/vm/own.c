#include "own.h"

#include <string.h>

/* Few at any time. The last are for pauses: a thread without one hides what is the program's. */
#define MAX_MARKS 256
#define MAX_BEGUN (MAX_MARKS - 64)

static struct {
    VALUE thread;
    int depth;
    int left; /* events that are still the profiler's; negative: all */
    int pause;
} marks[MAX_MARKS];

int mp_own_marks;

/* The thread's latest. */
static int place_of(VALUE thread)
{
    for (int i = mp_own_marks - 1; i >= 0; i--) {
        if (marks[i].thread == thread) return i;
    }
    return -1;
}

static void end(int at)
{
    if (at < 0 || --marks[at].depth > 0) return;
    mp_own_marks--;
    memmove(&marks[at], &marks[at + 1], (size_t)(mp_own_marks - at) * sizeof *marks);
}

void mp_own_begin(void)
{
    VALUE thread = rb_thread_current();
    int at = place_of(thread);
    if (at < 0 || marks[at].left >= 0) {
        if (mp_own_marks >= MAX_BEGUN) return;
        at = mp_own_marks++;
        marks[at].thread = thread;
        marks[at].depth = 0;
        marks[at].left = -1;
        marks[at].pause = 0;
    }
    marks[at].depth++;
}

int mp_own_pause(void)
{
    VALUE thread = rb_thread_current();
    if (place_of(thread) < 0 || mp_own_marks == MAX_MARKS) return 0;
    marks[mp_own_marks].thread = thread;
    marks[mp_own_marks].depth = 1;
    marks[mp_own_marks].left = 0;
    marks[mp_own_marks].pause = 1;
    mp_own_marks++;
    return 1;
}

void mp_own_resume_of(VALUE thread)
{
    for (int i = mp_own_marks - 1; i >= 0; i--) {
        if (marks[i].thread != thread || !marks[i].pause) continue;
        end(i);
        return;
    }
}

void mp_own_end(void)
{
    end(place_of(rb_thread_current()));
}

void mp_own_end_of(VALUE thread)
{
    int at = -1;
    for (int i = 0; i < mp_own_marks; i++) {
        if (marks[i].thread != thread || marks[i].pause) continue;
        at = i;
        if (marks[i].left >= 0) break;
    }
    end(at);
}

void mp_own_limit(int events)
{
    int at = place_of(rb_thread_current());
    if (at >= 0) marks[at].left = events;
}

int mp_own_event(void)
{
    int at = place_of(rb_thread_current());
    if (at < 0 || marks[at].left == 0) return 0;
    if (marks[at].left > 0) marks[at].left--;
    return 1;
}

void mp_own_forked(VALUE here)
{
    int kept = 0;
    for (int i = 0; i < mp_own_marks; i++) {
        if (marks[i].thread == here) marks[kept++] = marks[i];
    }
    mp_own_marks = kept;
}
