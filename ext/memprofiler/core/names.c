#include "names.h"

#include <string.h>

static int is_hex(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
}

/* The length of ":0x" and at least eight hexadecimal digits at the beginning, or 0. */
static size_t address_length(const char *at, size_t left)
{
    if (left < 11 || memcmp(at, ":0x", 3) != 0) return 0;
    size_t digits = 0;
    while (3 + digits < left && is_hex(at[3 + digits])) digits++;
    return digits >= 8 ? 3 + digits : 0;
}

static const char cut[] = "\xe2\x80\xa6"; /* an ellipsis, in UTF-8 */

size_t mp_name_clean(const char *name, size_t length, char out[MP_NAME_MAX])
{
    const size_t cut_length = sizeof cut - 1;
    size_t from = 0, to = 0;
    while (from < length) {
        size_t address = address_length(name + from, length - from);
        if (address) {
            from += address;
            continue;
        }
        if (to == MP_NAME_MAX) {
            /* Cut between characters: UTF-8 continuation bytes are 10xxxxxx. */
            to -= cut_length;
            while (to > 0 && ((unsigned char)out[to] & 0xc0) == 0x80) to--;
            memcpy(out + to, cut, cut_length);
            return to + cut_length;
        }
        unsigned char c = (unsigned char)name[from++];
        out[to++] = c < 0x20 || c == 0x7f ? '?' : (char)c;
    }
    return to;
}
