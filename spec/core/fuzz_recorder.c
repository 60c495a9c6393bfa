/*
 * libFuzzer target: the bytes, and dice when they are used up, decide what a VM tells a recorder,
 * when memory fails, which tables are full, and how flushes come between; whatever they are, the
 * recorder says what the model says.
 */
#include "model_run.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2) return 0;
    model_source source = {.at = data + 2, .end = data + size, .dice = dice_new(data[1])};
    model_live_through(source, data[0] & 1, 300);
    if (checks_failed) abort();
    return 0;
}
