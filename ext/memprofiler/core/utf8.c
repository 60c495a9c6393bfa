#include "utf8.h"

#include <string.h>

#include "utf8_range.h"

static const char REPLACEMENT[] = {'\xef', '\xbf', '\xbd'};

bool mp_utf8_valid(const char *bytes, size_t len)
{
    return len == 0 || utf8_range_IsValid(bytes, len);
}

static size_t put(char *out, size_t at, const char *bytes, size_t len)
{
    if (out) memcpy(out + at, bytes, len);
    return at + len;
}

size_t mp_utf8_repair(const char *bytes, size_t len, char *out)
{
    size_t written = 0;
    for (size_t at = 0; at < len;) {
        size_t good = utf8_range_ValidPrefix(bytes + at, len - at);
        written = put(out, written, bytes + at, good);
        at += good;
        if (at == len) break;
        written = put(out, written, REPLACEMENT, sizeof REPLACEMENT);
        do at++;
        while (at < len && ((unsigned char)bytes[at] & 0xc0) == 0x80);
    }
    return written;
}
