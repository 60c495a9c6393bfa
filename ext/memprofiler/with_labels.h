/*
 * Memprofiler.with_labels and Memprofiler.labels.
 *
 * Locks: the GVL; outside the main Ractor with_labels does nothing but run its block.
 */
#ifndef MEMPROFILER_WITH_LABELS_H
#define MEMPROFILER_WITH_LABELS_H

#include <ruby.h>

void mp_init_labels(VALUE memprofiler);

#endif
