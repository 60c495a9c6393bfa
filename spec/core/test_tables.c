/* The tables everything stands on: slabs, index, records; each against a simple model. */
#include "check.h"
#include "dice.h"
#include "error.h"
#include "index.h"
#include "mem.h"
#include "records.h"
#include "slabs.h"

#include <stdlib.h>

/* ---- slabs ----------------------------------------------------------------------------------- */

typedef struct {
    uint32_t link;
    uint32_t stamp;
    uint64_t more[2];
} thing;

#define THINGS 1500u

static void test_slabs(uint64_t seed)
{
    mp_slabs slabs;
    static thing *place[THINGS + 1]; /* by number; NULL: not in use */
    memset(place, 0, sizeof place);
    mp_slabs_init(&slabs, sizeof(thing), THINGS);
    dice d = dice_new(seed);
    uint32_t in_use = 0, most = 0;

    for (int i = 0; i < 20000; i++) {
        uint32_t id = 1 + dice_roll(&d, THINGS);
        if (dice_roll(&d, 100) < (i < 10000 ? 60u : 40u)) {
            uint32_t made = mp_slabs_new(&slabs);
            if (in_use == THINGS) {
                CHECK_UINT(made, 0);
                continue;
            }
            if (!CHECK(made >= 1 && made <= THINGS && !place[made])) return;
            thing *at = mp_slabs_at(&slabs, made);
            CHECK(!at->link && !at->stamp && !at->more[0] && !at->more[1]);
            *at = (thing){made, made * 7, {~made, made}};
            place[made] = at;
            if (++in_use > most) most = in_use;
        } else if (place[id]) {
            CHECK(place[id]->stamp == id * 7 && place[id]->more[0] == (uint64_t)~id);
            mp_slabs_release(&slabs, id);
            place[id] = NULL;
            in_use--;
        }
        CHECK_UINT(slabs.in_use, in_use);
    }
    /* Numbers are handed out again before new ones are made, and nothing has moved. */
    CHECK_UINT(slabs.top, most);
    for (uint32_t id = 1; id <= slabs.top; id++) {
        if (place[id]) CHECK(mp_slabs_at(&slabs, id) == place[id] && place[id]->stamp == id * 7);
    }
    CHECK(mp_slabs_memsize(&slabs) >= (size_t)most * sizeof(thing));
    mp_slabs_destroy(&slabs);
    CHECK_UINT(slabs.in_use, 0);
    CHECK_UINT(mp_slabs_new(&slabs), 1);
    mp_slabs_destroy(&slabs);
}

static void test_slabs_copied_directory(void)
{
    mp_slabs slabs;
    mp_slabs_init(&slabs, sizeof(thing), UINT32_MAX);
    for (uint32_t i = 1; i <= 3 * MP_SLAB_ITEMS; i++) {
        ((thing *)mp_slabs_at(&slabs, mp_slabs_new(&slabs)))->stamp = i;
    }
    char *dir[3];
    memcpy(dir, slabs.dir, sizeof dir);
    for (uint32_t i = 0; i < 20 * MP_SLAB_ITEMS; i++) mp_slabs_new(&slabs);
    for (uint32_t i = 1; i <= 3 * MP_SLAB_ITEMS; i++) {
        CHECK_UINT(((thing *)mp_slabs_in(dir, slabs.size, i))->stamp, i);
    }
    mp_slabs_destroy(&slabs);
}

/* ---- index ----------------------------------------------------------------------------------- */

#define SLOTS 64u /* an index's first size */

static uint32_t with_tag(const mp_index *index, uint32_t tag, uint32_t id)
{
    uint32_t found = 0;
    for (uint32_t at = tag, next; (next = mp_index_next(index, tag, &at)) != 0;) {
        found += next == id;
    }
    return found;
}

/* Six entries over the end of the array, removed in every order. */
static void test_index_wraparound(void)
{
    static const uint32_t tags[6] = {SLOTS - 2, SLOTS - 2, SLOTS - 1, SLOTS - 2, 0, SLOTS - 1};
    for (uint32_t order = 0; order < 720; order++) {
        mp_index index;
        mp_index_init(&index);
        for (uint32_t i = 0; i < 6; i++) {
            CHECK_INT(mp_index_reserve(&index), MP_OK);
            mp_index_add(&index, tags[i], i + 1);
        }
        bool there[6] = {true, true, true, true, true, true};
        for (uint32_t left = 6, rest = order; left > 0; rest /= left, left--) {
            uint32_t nth = rest % left, i = 0;
            while (!there[i] || nth-- > 0) i++;
            there[i] = false;
            mp_index_remove(&index, tags[i], i + 1);
            CHECK_UINT(index.used, left - 1);
            for (uint32_t k = 0; k < 6; k++) {
                CHECK_UINT(with_tag(&index, tags[k], k + 1), there[k] ? 1 : 0);
            }
        }
        mp_index_destroy(&index);
    }
}

/* Few tags, so that runs are long, lie next to each other, and wrap around. */
static void test_index_random(uint64_t seed, uint32_t tag_count, uint32_t tag_step)
{
    enum { IDS = 400 };
    mp_index index;
    static uint32_t tag_of[IDS + 1];
    static bool there[IDS + 1];
    memset(there, 0, sizeof there);
    mp_index_init(&index);
    dice d = dice_new(seed);
    uint32_t used = 0;
    for (int i = 0; i < 6000; i++) {
        uint32_t id = 1 + dice_roll(&d, IDS);
        if (there[id]) {
            mp_index_remove(&index, tag_of[id] + 1, id); /* another tag: not this one */
            CHECK_UINT(index.used, used);
            mp_index_remove(&index, tag_of[id], id);
            there[id] = false;
            used--;
        } else {
            mp_index_remove(&index, tag_of[id], id); /* not there: nothing happens */
            tag_of[id] = dice_roll(&d, tag_count) * tag_step;
            CHECK_INT(mp_index_reserve(&index), MP_OK);
            mp_index_add(&index, tag_of[id], id);
            there[id] = true;
            used++;
        }
        CHECK_UINT(index.used, used);
        id = 1 + dice_roll(&d, IDS);
        CHECK_UINT(with_tag(&index, tag_of[id], id), there[id] ? 1 : 0);
    }
    for (uint32_t id = 1; id <= IDS; id++) {
        CHECK_UINT(with_tag(&index, tag_of[id], id), there[id] ? 1 : 0);
    }
    size_t size = mp_index_memsize(&index);
    mp_index_clear(&index);
    CHECK_UINT(index.used, 0);
    CHECK_UINT(mp_index_memsize(&index), size);
    for (uint32_t id = 1; id <= IDS; id++) CHECK_UINT(with_tag(&index, tag_of[id], id), 0);
    mp_index_destroy(&index);
}

static void test_index_without_memory(void)
{
    mp_index index;
    mp_index_init(&index);
    CHECK_UINT(with_tag(&index, 5, 1), 0);
    mp_index_remove(&index, 5, 1);
    mp_index_clear(&index);
    CHECK_UINT(mp_index_memsize(&index), 0);
    mp_mem_fail_after(0);
    CHECK_INT(mp_index_reserve(&index), MP_ENOMEM);
    mp_mem_fail_after(-1);

    uint32_t added = 0;
    CHECK_INT(mp_index_reserve(&index), MP_OK);
    mp_mem_fail_after(0);
    for (; mp_index_reserve(&index) == MP_OK; added++) mp_index_add(&index, added * 3, added + 1);
    mp_mem_fail_after(-1);
    CHECK_UINT(added, SLOTS - SLOTS / 4);
    for (uint32_t i = 0; i < added; i++) CHECK_UINT(with_tag(&index, i * 3, i + 1), 1);
    CHECK_UINT(with_tag(&index, 1, 1), 0);
    mp_index_destroy(&index);
}

/* ---- records --------------------------------------------------------------------------------- */

typedef struct {
    mp_record record;
    uint32_t key[3];
    uint64_t more;
} keyed;

#define KEYS 512u

static void test_records(uint64_t seed, uint32_t cap)
{
    mp_records records;
    static struct {
        uint32_t id, refs;
    } model[KEYS];
    memset(model, 0, sizeof model);
    mp_records_init(&records, sizeof(keyed), 3, cap);
    dice d = dice_new(seed);
    uint32_t distinct = 0;

    for (int i = 0; i < 30000; i++) {
        uint32_t k = dice_roll(&d, KEYS);
        uint32_t key[3] = {k % 8, (k / 8) % 8 << 24, k / 64};
        CHECK_UINT(mp_records_find(&records, key), model[k].id);
        if (dice_roll(&d, 100) < (i < 15000 ? 55u : 45u)) {
            uint32_t id = mp_records_intern(&records, key);
            if (!model[k].id && distinct == cap) {
                CHECK_UINT(id, 0);
                continue;
            }
            if (!CHECK(id != 0)) return;
            keyed *at = mp_records_at(&records, id);
            if (model[k].id) {
                CHECK_UINT(id, model[k].id);
                CHECK_UINT(at->more, k + 1);
            } else {
                CHECK_UINT(at->more, 0);
                CHECK(memcmp(at->key, key, sizeof key) == 0);
                at->more = k + 1;
                model[k].id = id;
                distinct++;
            }
            CHECK_UINT(at->record.refs, ++model[k].refs);
        } else if (model[k].refs) {
            int gone = mp_records_release(&records, model[k].id);
            CHECK_INT(gone, model[k].refs == 1);
            if (--model[k].refs) continue;
            CHECK_UINT(((keyed *)mp_records_at(&records, model[k].id))->record.refs, 0);
            model[k].id = 0;
            distinct--;
        }
        CHECK_UINT(records.slabs.in_use, distinct);
    }
    CHECK(mp_records_memsize(&records) >= distinct * sizeof(keyed));
    mp_records_destroy(&records);
}

int main(void)
{
    for (uint64_t seed = 1; seed <= 3; seed++) {
        test_slabs(seed);
        test_index_random(seed, 40, 1);               /* runs that overlap */
        test_index_random(seed, 3, 1);                /* nearly all the same */
        test_index_random(seed, 30, 13);              /* all over the array */
        test_index_random(seed, 16, UINT32_MAX / 15); /* up to the largest tag */
        test_records(seed, UINT32_MAX);
        test_records(seed, 100);
    }
    test_slabs_copied_directory();
    test_index_wraparound();
    test_index_without_memory();
    return check_report();
}
