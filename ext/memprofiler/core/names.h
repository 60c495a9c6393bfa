/*
 * Names fit for a profile: without the addresses that Ruby writes into the names of anonymous
 * things (`#<Class:0x00007f...>`), so that a function is the same in every flush and every
 * process; with the characters replaced by which text could command a terminal, or mislead who
 * reads it (controls of both sets, line separators, changes of direction); not longer than
 * MP_NAME_MAX bytes.
 *
 * Pure functions. Failure: none.
 */
#ifndef MEMPROFILER_CORE_NAMES_H
#define MEMPROFILER_CORE_NAMES_H

#include <stddef.h>

#define MP_NAME_MAX 1024u

/* Writes at most MP_NAME_MAX bytes to `out` and returns their number; `name` may hold any bytes. */
size_t mp_name_clean(const char *name, size_t length, char out[MP_NAME_MAX]);

/* The same for a text that addresses are no part of. Writes at most `length` bytes. */
size_t mp_text_clean(const char *text, size_t length, char *out);

#endif
