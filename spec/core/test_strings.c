/* The string table and string index, functions and locations: each against a simple model. */
#include "check.h"
#include "dice.h"
#include "error.h"
#include "functions.h"
#include "mem.h"
#include "strings.h"

#include <stdlib.h>

/* ---- strings --------------------------------------------------------------------------------- */

#define TEXTS 300u
#define TEXT_MAX 320u

/* Distinct texts of any bytes, NULs among them; every third has a NUL in front. */
static size_t text(uint32_t n, char out[TEXT_MAX])
{
    size_t length = n == 0 ? 0 : 2 + n % (TEXT_MAX - 2);
    for (size_t i = 0; i < length; i++) out[i] = (char)(n * 31 + i * (n % 7));
    if (length) out[length - 1] = (char)n;
    if (length) out[length - 2] = (char)(n >> 8);
    if (n && n % 3 == 0) out[0] = '\0';
    return length;
}

static void test_strings(uint64_t seed, uint32_t cap, size_t bytes_cap)
{
    mp_strings strings;
    static struct {
        uint32_t id, refs;
        const char *bytes;
    } model[TEXTS];
    memset(model, 0, sizeof model);
    mp_strings_init(&strings, cap, bytes_cap);
    dice d = dice_new(seed);
    uint32_t distinct = 0;
    size_t bytes = 0;
    char out[TEXT_MAX];

    for (int i = 0; i < 20000; i++) {
        uint32_t n = dice_roll(&d, TEXTS);
        size_t length = text(n, out);
        if (n == 0) {
            CHECK_UINT(mp_strings_intern(&strings, out, 0), 0);
            mp_strings_retain(&strings, 0);
            mp_strings_release(&strings, 0);
        } else if (dice_roll(&d, 100) < (i < 10000 ? 55u : 45u)) {
            if (model[n].id) mp_mem_fail_after(0); /* a known one allocates nothing */
            uint32_t id = mp_strings_intern(&strings, out, length);
            mp_mem_fail_after(-1);
            if (!model[n].id && (distinct == cap || bytes + length > bytes_cap)) {
                CHECK_UINT(id, MP_STRING_NONE);
                continue;
            }
            if (!CHECK(id != 0 && id != MP_STRING_NONE)) return;
            if (!model[n].id) {
                model[n].id = id;
                model[n].bytes = mp_strings_at(&strings, id)->bytes;
                CHECK(model[n].bytes != out);
                distinct++;
                bytes += length;
            }
            CHECK_UINT(id, model[n].id);
            CHECK_UINT(mp_strings_at(&strings, id)->refs, ++model[n].refs);
        } else if (model[n].refs) {
            mp_strings_release(&strings, model[n].id);
            if (--model[n].refs) continue;
            model[n].id = 0;
            distinct--;
            bytes -= length;
        }
        CHECK_UINT(mp_strings_count(&strings), distinct + 1);
        CHECK_UINT(strings.bytes, bytes);
    }
    for (uint32_t n = 1; n < TEXTS; n++) {
        if (!model[n].id) continue;
        const mp_string *string = mp_strings_at(&strings, model[n].id);
        size_t length = text(n, out);
        CHECK_BYTES(string->bytes, string->length, out, length);
        CHECK(string->bytes == model[n].bytes); /* has not moved */
    }
    CHECK(mp_strings_memsize(&strings) >= bytes + distinct * sizeof(mp_string));
    mp_strings_destroy(&strings);
    CHECK_UINT(mp_strings_count(&strings), 1);
}

static void test_empty_string(void)
{
    mp_strings strings;
    mp_strings_init(&strings, 10, 100);
    CHECK_UINT(mp_strings_at(&strings, 0)->length, 0);
    CHECK_STR(mp_strings_at(&strings, 0)->bytes, "");
    CHECK_UINT(mp_strings_count(&strings), 1);
    static const char longer[101] = "longer than all strings together may be";
    CHECK_UINT(mp_strings_intern(&strings, longer, sizeof longer), MP_STRING_NONE);
    CHECK_UINT(mp_strings_count(&strings), 1);
    mp_strings_destroy(&strings);
}

/* ---- string index ---------------------------------------------------------------------------- */

static void test_string_index(uint64_t seed)
{
    mp_strings strings;
    mp_string_index one, two;
    mp_strings_init(&strings, UINT32_MAX, SIZE_MAX);
    uint32_t id[TEXTS], place[TEXTS] = {0}, places = 1;
    char out[TEXT_MAX];
    for (uint32_t n = 0; n < TEXTS; n++) {
        size_t length = text(n, out);
        id[n] = mp_strings_intern(&strings, out, length);
    }
    CHECK_INT(mp_string_index_init(&one, &strings), MP_OK);
    CHECK_INT(mp_string_index_init(&two, &strings), MP_OK);
    dice d = dice_new(seed);
    for (int i = 0; i < 400; i++) {
        uint32_t n = dice_roll(&d, TEXTS);
        if (n && !place[n]) place[n] = places++;
        CHECK_UINT(mp_string_index_place(&one, id[n]), place[n]);
        CHECK_UINT(one.length, places);
    }
    for (uint32_t n = 0; n < TEXTS; n += 2) mp_string_index_place(&two, id[n]);
    CHECK_UINT(two.length, TEXTS / 2);

    /* The table lets go; what an index names stays, in its own order, beside new strings. */
    for (uint32_t n = 0; n < TEXTS; n++) mp_strings_release(&strings, id[n]);
    for (int i = 0; i < 500; i++) {
        int length = snprintf(out, sizeof out, "new %d", i);
        mp_strings_intern(&strings, out, (size_t)length);
    }
    for (uint32_t n = 0; n < TEXTS; n++) {
        uint32_t refs = (place[n] ? 1u : 0u) + (n % 2 == 0 ? 1u : 0u);
        if (n == 0 || refs == 0) continue;
        const mp_string *string = mp_strings_at(&strings, id[n]);
        size_t length = text(n, out);
        CHECK_BYTES(string->bytes, string->length, out, length);
        CHECK_UINT(string->refs, refs);
        if (place[n]) CHECK_UINT(one.order[place[n]], id[n]);
        if (n % 2 == 0) CHECK_UINT(two.order[n / 2], id[n]);
    }
    CHECK_UINT(one.order[0], 0);
    mp_string_index_destroy(&one);
    mp_string_index_destroy(&two);
    CHECK_UINT(mp_strings_count(&strings), 501);
    mp_strings_destroy(&strings);
}

/* ---- functions and locations ----------------------------------------------------------------- */

#define NAMES 6u

static uint32_t word(mp_strings *strings, const char *prefix, uint32_t n)
{
    char out[32];
    int length = snprintf(out, sizeof out, "%s%u", prefix, n);
    return n ? mp_strings_intern(strings, out, (size_t)length) : 0;
}

#define FUNCTIONS (NAMES * NAMES * NAMES * 2)
#define LINES 3u

static uint32_t intern_function(mp_functions *functions, uint32_t f)
{
    mp_strings *strings = functions->strings;
    uint32_t name = word(strings, "name", f % NAMES);
    uint32_t system = word(strings, "name", f / NAMES % NAMES);
    uint32_t file = word(strings, "file", f / NAMES / NAMES % NAMES);
    return mp_functions_intern(functions, name, system, file, f / NAMES / NAMES / NAMES * 10);
}

static void test_functions(uint64_t seed, uint32_t functions_cap, uint32_t locations_cap)
{
    mp_strings strings;
    mp_functions functions;
    mp_strings_init(&strings, UINT32_MAX, SIZE_MAX);
    mp_functions_init(&functions, &strings, functions_cap, locations_cap);
    static struct {
        uint32_t id, refs, location[LINES], location_refs[LINES];
    } model[FUNCTIONS];
    memset(model, 0, sizeof model);
    dice d = dice_new(seed);
    uint32_t made = 0, places = 0;

    for (int i = 0; i < 20000; i++) {
        uint32_t f = dice_roll(&d, FUNCTIONS), line = dice_roll(&d, LINES);
        uint32_t what = dice_roll(&d, 4), held = 0;
        for (uint32_t l = 0; l < LINES; l++) held += model[f].location[l] != 0;
        if (what == 0) {
            uint32_t id = intern_function(&functions, f);
            bool known = model[f].refs + held > 0;
            if (!known && made == functions_cap) {
                CHECK_UINT(id, 0);
                continue;
            }
            if (known) CHECK_UINT(id, model[f].id);
            if (!known) made++;
            model[f].id = id;
            model[f].refs++;
        } else if (what == 1 && model[f].refs) {
            mp_functions_release(&functions, model[f].id);
            if (--model[f].refs + held == 0) made--;
        } else if (what == 2 && model[f].refs + held) {
            uint32_t id = mp_locations_intern(&functions, model[f].id, line);
            if (!model[f].location[line] && places == locations_cap) {
                CHECK_UINT(id, 0);
                continue;
            }
            if (model[f].location[line]) CHECK_UINT(id, model[f].location[line]);
            if (!model[f].location[line]) {
                places++;
                held++;
            }
            model[f].location[line] = id;
            CHECK_UINT(mp_locations_at(&functions, id)->record.refs,
                       ++model[f].location_refs[line]);
            CHECK_UINT(mp_locations_at(&functions, id)->function, model[f].id);
        } else if (what == 3 && model[f].location[line]) {
            mp_locations_release(&functions, model[f].location[line]);
            if (--model[f].location_refs[line]) continue;
            model[f].location[line] = 0;
            places--;
            held--;
            if (model[f].refs + held == 0) made--;
        }
        CHECK_UINT(functions.functions.slabs.in_use, made);
        CHECK_UINT(functions.locations.slabs.in_use, places);
        if (model[f].refs + held) {
            CHECK_UINT(mp_functions_at(&functions, model[f].id)->record.refs, model[f].refs + held);
        }
    }
    for (uint32_t f = 0; f < FUNCTIONS; f++) {
        for (; model[f].refs; model[f].refs--) mp_functions_release(&functions, model[f].id);
        for (uint32_t l = 0; l < LINES; l++) {
            for (; model[f].location_refs[l]; model[f].location_refs[l]--) {
                mp_locations_release(&functions, model[f].location[l]);
            }
        }
    }
    CHECK_UINT(functions.functions.slabs.in_use, 0);
    CHECK_UINT(functions.locations.slabs.in_use, 0);
    CHECK_UINT(mp_strings_count(&strings), 1); /* and no string is left behind */
    CHECK(mp_functions_memsize(&functions) > 0);
    mp_functions_destroy(&functions);
    mp_strings_destroy(&strings);
}

/* The address of a place is the same in whatever order things were met, and differs between
 * places; the system name, which the profiler leaves empty, has no part in it. */
static void test_addresses(void)
{
    uint64_t address[2][FUNCTIONS][LINES];
    for (uint32_t run = 0; run < 2; run++) {
        mp_strings strings;
        mp_functions functions;
        mp_strings_init(&strings, UINT32_MAX, SIZE_MAX);
        mp_functions_init(&functions, &strings, UINT32_MAX, UINT32_MAX);
        for (uint32_t i = 0; i < FUNCTIONS; i++) {
            uint32_t f = run ? FUNCTIONS - 1 - i : i, id = intern_function(&functions, f);
            for (uint32_t line = 0; line < LINES; line++) {
                uint32_t place = mp_locations_intern(&functions, id, line);
                address[run][f][line] = mp_locations_at(&functions, place)->address;
            }
        }
        mp_functions_destroy(&functions);
        mp_strings_destroy(&strings);
    }
    for (uint32_t f = 0; f < FUNCTIONS; f++) {
        for (uint32_t line = 0; line < LINES; line++) {
            uint64_t at = address[0][f][line];
            CHECK(at != 0 && at < UINT64_C(1) << 48);
            CHECK_UINT(address[1][f][line], at);
            uint32_t same = 0, system_names = 0;
            for (uint32_t g = 0; g < FUNCTIONS; g++) {
                for (uint32_t l = 0; l < LINES; l++) same += address[0][g][l] == at;
                system_names += g % NAMES == f % NAMES && g / NAMES / NAMES == f / NAMES / NAMES;
            }
            CHECK_UINT(same, system_names);
        }
    }
}

int main(void)
{
    for (uint64_t seed = 1; seed <= 3; seed++) {
        test_strings(seed, UINT32_MAX, SIZE_MAX);
        test_strings(seed, 80, SIZE_MAX);
        test_strings(seed, UINT32_MAX, 9000);
        test_string_index(seed);
        test_functions(seed, UINT32_MAX, UINT32_MAX);
        test_functions(seed, 90, UINT32_MAX);
        test_functions(seed, UINT32_MAX, 50);
    }
    test_empty_string();
    test_addresses();
    return check_report();
}
