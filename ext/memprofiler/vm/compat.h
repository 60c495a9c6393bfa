/*
 * All that differs between Ruby 3.1 and 4.1, in one place: which functions this Ruby exports
 * (HAVE_* come from extconf.rb's probes), and prototypes of those that stand in no public header.
 */
#ifndef MEMPROFILER_VM_COMPAT_H
#define MEMPROFILER_VM_COMPAT_H

#include <ruby.h>
#include <ruby/debug.h>
#include <ruby/version.h>

#define MP_RUBY (RUBY_API_VERSION_MAJOR * 100 + RUBY_API_VERSION_MINOR)

/* 3.1-4.x. Outside a hook only, on a living object of a type that mp_measure allows. */
size_t rb_obj_memsize_of(VALUE obj);

/* 3.2-4.x; on 3.1 every slot is one size. */
#ifdef HAVE_RB_GC_OBJ_SLOT_SIZE
size_t rb_gc_obj_slot_size(VALUE obj);
#endif

/* 3.1-4.x: calls back with the slots of one page after the other. */
#ifdef HAVE_RB_OBJSPACE_EACH_OBJECTS
void rb_objspace_each_objects(int (*callback)(void *start, void *end, size_t stride, void *data),
                              void *data);
#endif

/* 3.1-3.3: one bit, nothing else. */
#ifdef HAVE_RB_OBJSPACE_MARKED_OBJECT_P
int rb_objspace_marked_object_p(VALUE obj);
#endif

/* 3.1-3.4. */
#ifdef HAVE_RB_OBJ_GC_FLAGS
size_t rb_obj_gc_flags(VALUE obj, ID *flags, size_t max);
#endif

/* 4.0, 4.1: a static array that ends with name 0. */
#ifdef HAVE_RB_GC_OBJECT_METADATA
struct rb_gc_object_metadata_entry {
    ID name;
    VALUE val;
};
struct rb_gc_object_metadata_entry *rb_gc_object_metadata(VALUE obj);
#endif

#if defined(HAVE_RB_OBJSPACE_MARKED_OBJECT_P) || defined(HAVE_RB_OBJ_GC_FLAGS) ||                  \
    defined(HAVE_RB_GC_OBJECT_METADATA)
#define MP_HAS_MARK_BITS 1
#else
#define MP_HAS_MARK_BITS 0
#endif

/* Public from 3.2. */
#ifndef RBOOL
#define RBOOL(value) ((value) ? Qtrue : Qfalse)
#endif

/* From 4.0 a hook sees the allocations of all Ractors, each on the allocating thread. */
#define MP_HOOKS_ARE_GLOBAL (MP_RUBY >= 400)

/* From 3.4 a moved object counts in GC.stat(:total_allocated_objects). */
#define MP_MOVES_COUNT_AS_ALLOCATED (MP_RUBY >= 304)

/* From 3.3 what a thread has touched of its VM stack is freed with its object, not at its end. */
#define MP_DEAD_THREADS_HOLD_STACKS (MP_RUBY >= 303)

/* From 3.3 jobs are registered once, and triggered by handle (feature 20057). */
#ifdef HAVE_RB_POSTPONED_JOB_PREREGISTER
#define MP_JOBS_HAVE_HANDLES 1
#else
#define MP_JOBS_HAVE_HANDLES 0
#endif

/* The kinds of T_IMEMO, which are numbered anew now and then (internal/imemo.h). */
#if MP_RUBY >= 400
#define MP_IMEMO_NAMES                                                                             \
    "env", "cref", "svar", "throw_data", "ifunc", "memo", "method entry", "iseq", "tmpbuf",        \
        "cvar_entry", "callinfo", "callcache", "constcache", "fields", "subclasses", "cdhash"
#define MP_KIND_FIELDS (MP_KIND_IMEMO + 13)
#else
#define MP_KIND_FIELDS (-1) /* no imemo: a table of the VM's, counted with the object */
#define MP_IMEMO_NAMES                                                                             \
    "env", "cref", "svar", "throw_data", "ifunc", "memo", "method entry", "iseq", "tmpbuf", "ast", \
        "parser_strterm", "callinfo", "callcache", "constcache", "14", "15"
#endif

#endif
