/*
 * A recorder against a naive model (model.h), by random acts from seeds: without arguments those of
 * CI; by hand `test_model FROM TO`, which says the first seed that fails.
 */
#include "model_run.h"

/* Under AddressSanitizer the bytes that are taken now; elsewhere valgrind looks for leaks. */
extern size_t __sanitizer_get_current_allocated_bytes(void) __attribute__((weak));

static size_t allocated(void)
{
    return __sanitizer_get_current_allocated_bytes ? __sanitizer_get_current_allocated_bytes() : 0;
}

static void test_seed(uint64_t seed)
{
    unsigned long failed = checks_failed;
    size_t before = allocated();
    model_source source = {.dice = dice_new(seed)};
    model_live_through(source, seed % 2, 200 + (uint32_t)(seed % 4) * 300);
    CHECK_UINT(allocated(), before);
    if (checks_failed > failed) fprintf(stderr, "seed %llu\n", (unsigned long long)seed);
}

int main(int argc, char **argv)
{
    uint64_t from = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
    uint64_t to = argc > 2 ? strtoull(argv[2], NULL, 10) : from + (argc > 1 ? 0 : 23);
    fflush(stderr);
    for (uint64_t seed = from; seed <= to && !checks_failed; seed++) test_seed(seed);
    return check_report();
}
