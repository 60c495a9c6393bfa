/*
 * The code generated from proto/profile.proto, and upb under it. The compiler is told to keep quiet
 * about conversions in code that is not ours; only this file includes it.
 */
#ifndef MEMPROFILER_CORE_PROTO_H
#define MEMPROFILER_CORE_PROTO_H

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wsign-conversion"
#pragma GCC diagnostic ignored "-Wunused-parameter"
#pragma GCC diagnostic ignored "-Wshadow"

#include "profile.upb.h"

#pragma GCC diagnostic pop

#endif
