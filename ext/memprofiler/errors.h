/*
 * The errors of lib/memprofiler/errors.rb, which is loaded before the extension.
 */
#ifndef MEMPROFILER_ERRORS_H
#define MEMPROFILER_ERRORS_H

#include <ruby.h>

extern VALUE mp_eError, mp_eNotStarted, mp_eAlreadyStarted, mp_eRactor, mp_eEncode, mp_eDecode;

void mp_init_errors(VALUE memprofiler);

#endif
