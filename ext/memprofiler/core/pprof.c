#include "pprof.h"

#define FNV_OFFSET UINT64_C(0xcbf29ce484222325)
#define FNV_PRIME UINT64_C(0x00000100000001b3)

static uint64_t hash_byte(uint64_t hash, uint8_t byte)
{
    return (hash ^ byte) * FNV_PRIME;
}

/* The length goes first, so that moving a byte from one string to the next changes the hash. */
static uint64_t hash_str(uint64_t hash, mp_pprof_str str)
{
    for (int shift = 0; shift < 32; shift += 8) hash = hash_byte(hash, (uint8_t)(str.len >> shift));
    for (uint32_t i = 0; i < str.len; i++) hash = hash_byte(hash, (uint8_t)str.ptr[i]);
    return hash;
}

/* FNV-1a leaves the last bytes' mark in few bits: two multiply-xorshift rounds spread it. */
static uint64_t mix(uint64_t hash)
{
    hash = (hash ^ (hash >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    hash = (hash ^ (hash >> 27)) * UINT64_C(0x94d049bb133111eb);
    return hash ^ (hash >> 31);
}

static uint64_t hash_number(uint64_t hash, int64_t number)
{
    for (int shift = 0; shift < 64; shift += 8) {
        hash = hash_byte(hash, (uint8_t)((uint64_t)number >> shift));
    }
    return hash;
}

uint64_t mp_pprof_address(mp_pprof_str name, mp_pprof_str file, int64_t start_line, int64_t line)
{
    uint64_t hash = hash_str(hash_str(FNV_OFFSET, name), file);
    uint64_t address = mix(hash_number(hash_number(hash, start_line), line)) >> 16;
    return address ? address : 1;
}
