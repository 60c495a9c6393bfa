#include "errors.h"

VALUE mp_eError, mp_eNotStarted, mp_eAlreadyStarted, mp_eRactor, mp_eEncode, mp_eDecode;

static VALUE error_class(VALUE memprofiler, const char *name)
{
    VALUE klass = rb_const_get(memprofiler, rb_intern(name));
    rb_gc_register_mark_object(klass);
    return klass;
}

void mp_init_errors(VALUE memprofiler)
{
    mp_eError = error_class(memprofiler, "Error");
    mp_eNotStarted = error_class(memprofiler, "NotStartedError");
    mp_eAlreadyStarted = error_class(memprofiler, "AlreadyStartedError");
    mp_eRactor = error_class(memprofiler, "RactorError");
    mp_eEncode = error_class(memprofiler, "EncodeError");
    mp_eDecode = error_class(memprofiler, "DecodeError");
}
