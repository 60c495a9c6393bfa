#include "own_block.h"

#include <unistd.h>

#include "vm/own.h"
#include "vm/ractors.h"

typedef struct {
    VALUE thread; /* marked, or 0 */
    pid_t pid;
} own_block;

static void own_block_dropped(void *ptr)
{
    own_block *block = ptr;
    if (block->thread && block->pid == getpid()) mp_own_end_of(block->thread);
    xfree(block);
}

static const rb_data_type_t own_block_type = {
    .wrap_struct_name = "Memprofiler own",
    .function = {.dfree = own_block_dropped},
    .flags = RUBY_TYPED_FREE_IMMEDIATELY,
};

static VALUE end_own(VALUE keeper)
{
    own_block *block = DATA_PTR(keeper);
    block->thread = 0;
    mp_own_end();
    return Qnil;
}

static VALUE new_own_block(VALUE unused)
{
    (void)unused;
    VALUE keeper = rb_data_typed_object_zalloc(0, sizeof(own_block), &own_block_type);
    own_block *block = DATA_PTR(keeper);
    block->thread = rb_thread_current();
    block->pid = getpid();
    return keeper;
}

VALUE mp_own_block(VALUE (*body)(VALUE), VALUE argument)
{
    if (!mp_in_main_ractor()) return body(argument);
    mp_own_begin();
    int error;
    VALUE keeper = rb_protect(new_own_block, Qnil, &error);
    if (error) {
        mp_own_end();
        rb_jump_tag(error);
    }
    VALUE result = rb_ensure(body, argument, end_own, keeper);
    RB_GC_GUARD(keeper);
    return result;
}

/*
 * @return what the block returns
 * @api private
 */
static VALUE own(VALUE self)
{
    (void)self;
    return mp_own_block(rb_yield, Qundef);
}

void mp_init_own_block(VALUE memprofiler)
{
    rb_define_singleton_method(memprofiler, "own", own, 0);
}
