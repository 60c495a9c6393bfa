#include "earlier.h"

static VALUE cBaseline;

static void baseline_free(void *ptr)
{
    mp_earlier *earlier = ptr;
    mp_baseline_free(earlier->counted);
    xfree(earlier);
}

static size_t baseline_size(const void *ptr)
{
    const mp_earlier *earlier = ptr;
    return sizeof *earlier + (earlier->counted ? mp_baseline_memsize(earlier->counted) : 0);
}

static const rb_data_type_t baseline_type = {
    .wrap_struct_name = "Memprofiler::Baseline",
    .function = {.dfree = baseline_free, .dsize = baseline_size},
    .flags = RUBY_TYPED_FREE_IMMEDIATELY | RUBY_TYPED_WB_PROTECTED,
};

VALUE mp_earlier_wrap(const mp_earlier *of)
{
    mp_earlier *earlier;
    VALUE baseline = TypedData_Make_Struct(cBaseline, mp_earlier, &baseline_type, earlier);
    *earlier = *of;
    /* Each flush makes one, and nothing else may allocate. Never taken back: see holds.c. */
    rb_gc_adjust_memory_usage((ssize_t)mp_baseline_memsize(earlier->counted));
    return rb_obj_freeze(baseline);
}

const mp_earlier *mp_earlier_of(VALUE baseline, const mp_collector *collector)
{
    if (NIL_P(baseline)) return NULL;
    const mp_earlier *earlier = rb_check_typeddata(baseline, &baseline_type);
    if (earlier->collector != collector->number) {
        rb_raise(rb_eArgError, "the baseline is of another collector");
    }
    return earlier;
}

static uint64_t begun_as(const mp_run *run)
{
    return run->root ? run->root : run->id;
}

int mp_earlier_is_of(const mp_earlier *earlier, const mp_run *run)
{
    return earlier->run == begun_as(run);
}

mp_earlier mp_earlier_at(const mp_collector *collector, const mp_run *run, int64_t time_nanos)
{
    return (mp_earlier){.collector = collector->number,
                        .run = begun_as(run),
                        .id = run->id,
                        .time_nanos = time_nanos,
                        .unseen = mp_run_unseen(run)};
}

/*
 * @param other [Baseline]
 * @return [Boolean] whether both are of one run of one collector
 * @raise [TypeError] other is none
 * @api private
 */
static VALUE baseline_same_run_p(VALUE self, VALUE other)
{
    const mp_earlier *one = rb_check_typeddata(self, &baseline_type);
    const mp_earlier *two = rb_check_typeddata(other, &baseline_type);
    return RBOOL(one->run == two->run && one->collector == two->collector);
}

/*
 * @return [Time] of the moment
 * @api private
 */
static VALUE baseline_time(VALUE self)
{
    const mp_earlier *earlier = rb_check_typeddata(self, &baseline_type);
    return rb_time_nano_new((time_t)(earlier->time_nanos / 1000000000),
                            (long)(earlier->time_nanos % 1000000000));
}

void mp_init_baseline(VALUE memprofiler)
{
    cBaseline = rb_define_class_under(memprofiler, "Baseline", rb_cObject);
    rb_gc_register_mark_object(cBaseline);
    rb_undef_alloc_func(cBaseline);
    rb_define_method(cBaseline, "time", baseline_time, 0);
    rb_define_method(cBaseline, "same_run?", baseline_same_run_p, 1);
}
