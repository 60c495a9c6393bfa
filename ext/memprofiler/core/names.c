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

/*
 * How many bytes at the end are a character that a terminal obeys, or that has text shown in another
 * order than it stands in: 0 for all others.
 */
static size_t unsafe_length(const char *out, size_t length)
{
    const unsigned char *end = (const unsigned char *)out + length;
    unsigned last = end[-1];
    if (last < 0x20 || last == 0x7f) return 1;
    if (length < 2) return 0;
    if (end[-2] == 0xc2) return last >= 0x80 && last <= 0x9f ? 2 : 0; /* U+0080-009F */
    if (end[-2] == 0xd8) return last == 0x9c ? 2 : 0;                 /* U+061C */
    if (length < 3 || end[-3] != 0xe2) return 0;
    if (end[-2] == 0x80 && (last == 0x8e || last == 0x8f || (last >= 0xa8 && last <= 0xae)))
        return 3;                                                   /* U+200E, 200F, 2028-202E */
    return end[-2] == 0x81 && last >= 0xa6 && last <= 0xa9 ? 3 : 0; /* U+2066-2069 */
}

/* Looks at what is written, not at what is read: bytes may meet there that were apart. */
static size_t append(char *out, size_t length, char byte)
{
    out[length++] = byte;
    size_t unsafe = unsafe_length(out, length);
    if (!unsafe) return length;
    length -= unsafe;
    out[length++] = '?';
    return length;
}

size_t mp_text_clean(const char *text, size_t length, char *out)
{
    size_t to = 0;
    for (size_t from = 0; from < length; from++) to = append(out, to, text[from]);
    return to;
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
        to = append(out, to, name[from++]);
    }
    return to;
}
