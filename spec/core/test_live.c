/*
 * The live table against a model: what is found, what a scan and a minor scan visit, moving and
 * forgetting; and cursors, each of which must see exactly what was there when it was opened.
 */
#include "check.h"
#include "dice.h"
#include "live.h"
#include "mem.h"

#include <stdlib.h>

#define PLACES 1200u

static uint64_t address_of(uint32_t place)
{
    return UINT64_C(0x7f0000001000) + (uint64_t)place * 40;
}

/* By place; 0: nothing there. */
typedef struct {
    mp_live live;
    uint32_t id[PLACES];
    uint32_t born[PLACES]; /* a serial number: no two entries ever share one */
    bool settled[PLACES];
    uint64_t moved_by;
    uint32_t count, serial;
} model;

static void insert(model *m, uint32_t place)
{
    uint64_t size = 40 + place % 600;
    uint32_t id =
        mp_live_insert(&m->live, address_of(place) + m->moved_by, place * 3, ++m->serial, size);
    if (!CHECK(id != 0)) exit(1);
    const mp_live_entry *entry = mp_live_at(&m->live, id);
    CHECK_UINT(entry->site, place * 3);
    CHECK_UINT(entry->born, m->serial);
    CHECK(entry->size == size && entry->largest == size);
    CHECK(entry->flags == MP_LIVE_USED && entry->doublings == 0);
    m->id[place] = id;
    m->born[place] = m->serial;
    m->settled[place] = false;
    m->count++;
}

static void drop(model *m, uint32_t place)
{
    mp_live_remove(&m->live, m->id[place]);
    m->id[place] = 0;
    m->count--;
}

static void check_found(const model *m, uint32_t place)
{
    CHECK_UINT(mp_live_find(&m->live, address_of(place) + m->moved_by), m->id[place]);
}

/* The numbers that `next` gives are those of the model, in order. */
static void check_walk(const model *m, uint32_t (*next)(const mp_live *, uint32_t),
                       bool settled_too)
{
    uint32_t expected = 0, seen = 0, before = 0;
    for (uint32_t place = 0; place < PLACES; place++) {
        expected += m->id[place] && (settled_too || !m->settled[place]);
    }
    for (uint32_t id = 0; (id = next(&m->live, id)) != 0; seen++) {
        uint32_t place = mp_live_at(&m->live, id)->site / 3;
        CHECK(id > before && m->id[place] == id && (settled_too || !m->settled[place]));
        before = id;
    }
    CHECK_UINT(seen, expected);
}

static void check_all(const model *m)
{
    CHECK_UINT(mp_live_count(&m->live), m->count);
    check_walk(m, mp_live_next, true);
    check_walk(m, mp_live_next_unsettled, false);
    for (uint32_t place = 0; place < PLACES; place++) check_found(m, place);
}

/* One random change; `grow` in percent is how often it adds. */
static void change(model *m, dice *d, uint32_t grow)
{
    uint32_t place = dice_roll(d, PLACES);
    if (!m->id[place]) {
        if (dice_roll(d, 100) < grow) insert(m, place);
    } else if (dice_roll(d, 3) == 0) {
        m->settled[place] = dice_roll(d, 4) != 0;
        mp_live_settle(&m->live, m->id[place], m->settled[place]);
        CHECK_INT((mp_live_at(&m->live, m->id[place])->flags & MP_LIVE_SETTLED) != 0,
                  m->settled[place]);
    } else if (dice_roll(d, 100) >= grow) {
        drop(m, place);
    }
    check_found(m, place);
}

static uint64_t up(uint64_t address)
{
    return address + (UINT64_C(1) << 33);
}

/* The same entries under other numbers, as few as can be. */
static void pack(model *m)
{
    mp_live_pack(&m->live);
    for (uint32_t place = 0; place < PLACES; place++) {
        if (!m->id[place]) continue;
        m->id[place] = mp_live_find(&m->live, address_of(place) + m->moved_by);
        const mp_live_entry *entry = mp_live_at(&m->live, m->id[place]);
        CHECK(m->id[place] && m->id[place] <= m->count && entry->born == m->born[place]);
        CHECK_INT((entry->flags & MP_LIVE_SETTLED) != 0, m->settled[place]);
    }
    CHECK_UINT(m->live.slabs.top, m->count);
}

static void test_sparse(void)
{
    mp_live live;
    mp_live_init(&live, UINT32_MAX);
    for (uint32_t i = 1; i <= 10000; i++) CHECK_UINT(mp_live_insert(&live, i << 6, i, 0, 40), i);
    size_t full = mp_live_memsize(&live);
    for (uint32_t i = 1; i <= 7000; i++) mp_live_remove(&live, i);
    CHECK(!mp_live_sparse(&live)); /* three in ten are there */
    for (uint32_t i = 7001; i <= 9900; i++) mp_live_remove(&live, i);
    CHECK(mp_live_sparse(&live));
    mp_live_cursor cursor = {0};
    mp_live_cursor_open(&live, &cursor);
    CHECK(!mp_live_sparse(&live)); /* it counts on the numbers */
    mp_live_cursor_close(&live, &cursor);
    for (long n = 0; n < 3; n++) {
        mp_mem_fail_after(n);
        mp_live_pack(&live);
        mp_mem_fail_after(-1);
        CHECK_UINT(mp_live_memsize(&live), full); /* all as it was */
        CHECK_UINT(mp_live_find(&live, 10000 << 6), 10000);
    }
    mp_live_pack(&live);
    CHECK(mp_live_memsize(&live) < full / 20 && !mp_live_sparse(&live));
    CHECK_UINT(mp_live_find(&live, 9901 << 6), 1);
    CHECK_UINT(mp_live_find(&live, 10000 << 6), 100);
    mp_live_destroy(&live);
}

static void test_model(uint64_t seed)
{
    model *m = calloc(1, sizeof *m);
    mp_live_init(&m->live, UINT32_MAX);
    dice d = dice_new(seed);
    CHECK_UINT(mp_live_next(&m->live, 0), 0);
    CHECK_UINT(mp_live_next_unsettled(&m->live, 0), 0);
    for (int round = 0; round < 12; round++) {
        for (int i = 0; i < 1000; i++) change(m, &d, round % 4 < 2 ? 75 : 30);
        check_all(m);
        if (round % 5 == 4) {
            pack(m);
            check_all(m);
        }
        if (round % 3 == 0) {
            mp_live_rekey(&m->live, up); /* all objects move, onto each other's old places or not */
            m->moved_by += UINT64_C(1) << 33;
            CHECK_UINT(mp_live_find(&m->live, address_of(0)), 0);
            check_all(m);
        }
    }
    mp_live_clear(&m->live);
    memset(m->id, 0, sizeof m->id);
    m->count = 0;
    check_all(m);
    for (int i = 0; i < 1000; i++) change(m, &d, 75);
    check_all(m);

    mp_live_forget_addresses(&m->live);
    CHECK_UINT(mp_live_count(&m->live), m->count);
    check_walk(m, mp_live_next, true);
    for (uint32_t place = 0; place < PLACES; place++) {
        CHECK_UINT(mp_live_find(&m->live, address_of(place) + m->moved_by), 0);
        if (!m->id[place]) continue;
        CHECK_UINT(mp_live_at(&m->live, m->id[place])->address, 0);
        CHECK_UINT(mp_live_at(&m->live, m->id[place])->born, m->born[place]);
    }
    mp_live_destroy(&m->live);
    free(m);
}

/* Objects trade places with each other: nobody is found under the old address of another. */
static uint64_t trade(uint64_t address)
{
    uint64_t at = (address - address_of(0)) / 40;
    return address_of((uint32_t)(at * 7 + 1) % PLACES);
}

static void test_rekey_among_themselves(void)
{
    mp_live live;
    mp_live_init(&live, UINT32_MAX);
    for (uint32_t place = 0; place < PLACES; place++) {
        mp_live_insert(&live, address_of(place), place, 0, 40);
    }
    mp_mem_fail_after(0); /* the collector is moving objects: nothing may be allocated */
    mp_live_rekey(&live, trade);
    mp_mem_fail_after(-1);
    for (uint32_t place = 0; place < PLACES; place++) {
        uint32_t id = mp_live_find(&live, address_of((place * 7 + 1) % PLACES));
        if (CHECK(id != 0)) CHECK_UINT(mp_live_at(&live, id)->site, place);
    }
    mp_live_destroy(&live);
}

/* ---- cursors --------------------------------------------------------------------------------- */

typedef struct {
    mp_live_cursor cursor; /* first */
    bool open;
    uint32_t opened_at;  /* the last serial number before it was opened */
    uint32_t expected;   /* entries there were */
    uint8_t *due, *seen; /* by serial number */
} watch;

static void see(watch *w, const mp_live_entry *entry)
{
    if (entry->born > w->opened_at) return; /* came later: may turn up */
    w->seen[entry->born]++;
}

static void going(mp_live_cursor *cursor, const mp_live_entry *entry)
{
    see((watch *)cursor, entry);
}

static void open_watch(watch *w, model *m)
{
    *w = (watch){.cursor = {.going = going}, .open = true, .opened_at = m->serial};
    w->due = calloc(m->serial + 1, 1);
    w->seen = calloc(m->serial + 1, 1);
    w->expected = m->count;
    for (uint32_t place = 0; place < PLACES; place++) {
        if (m->id[place]) w->due[m->born[place]] = 1;
    }
    mp_live_cursor_open(&m->live, &w->cursor);
}

static void close_watch(watch *w, model *m, bool finished)
{
    mp_live_cursor_close(&m->live, &w->cursor);
    uint32_t sum = 0, wrong = 0;
    for (uint32_t i = 0; i <= w->opened_at; i++) {
        sum += w->seen[i];
        wrong += finished ? w->seen[i] != w->due[i] : w->seen[i] > w->due[i];
    }
    CHECK_UINT(wrong, 0);
    if (finished) CHECK_UINT(sum, w->expected);
    free(w->due);
    free(w->seen);
    w->open = false;
}

#define WATCHES 4

static void test_cursors(uint64_t seed)
{
    model *m = calloc(1, sizeof *m);
    watch watches[WATCHES] = {0};
    mp_live_init(&m->live, UINT32_MAX);
    dice d = dice_new(seed);
    uint32_t finished = 0, grow = 60;
    for (int i = 0; i < 40000; i++) {
        if (i % 1500 == 0) grow = 30 + dice_roll(&d, 50);
        watch *w = &watches[dice_roll(&d, WATCHES)];
        if (!w->open) {
            if (dice_roll(&d, 100) == 0) open_watch(w, m);
        } else if (dice_roll(&d, 900) == 0) {
            close_watch(w, m, false); /* given up half-way */
        } else {
            for (uint32_t n = dice_roll(&d, 8); n > 0 && w->open; n--) {
                uint32_t id = mp_live_cursor_next(&m->live, &w->cursor);
                if (id) {
                    see(w, mp_live_at(&m->live, id));
                } else {
                    CHECK_UINT(mp_live_cursor_next(&m->live, &w->cursor), 0);
                    close_watch(w, m, true);
                    finished++;
                }
            }
        }
        change(m, &d, grow);
        if (i % 9000 == 8999) { /* a lost collection: all goes at once */
            mp_live_clear(&m->live);
            memset(m->id, 0, sizeof m->id);
            m->count = 0;
        }
    }
    CHECK(finished > 20);
    for (int i = 0; i < WATCHES; i++) {
        if (watches[i].open) close_watch(&watches[i], m, false);
    }
    mp_live_cursor_close(&m->live, &watches[0].cursor); /* closed already: nothing happens */
    check_all(m);
    mp_live_destroy(&m->live);
    free(m);
}

/* ---- limits ---------------------------------------------------------------------------------- */

static void test_cap(void)
{
    mp_live live;
    mp_live_init(&live, 300);
    for (uint32_t i = 0; i < 300; i++) CHECK(mp_live_insert(&live, address_of(i), i, 0, 40) != 0);
    CHECK_UINT(mp_live_insert(&live, address_of(300), 300, 0, 40), 0);
    CHECK_UINT(mp_live_count(&live), 300);
    CHECK_UINT(mp_live_find(&live, address_of(300)), 0);
    mp_live_remove(&live, mp_live_find(&live, address_of(17)));
    CHECK(mp_live_insert(&live, address_of(300), 300, 0, 40) != 0);
    mp_live_destroy(&live);
}

static void test_size(void)
{
    mp_live live;
    mp_live_init(&live, UINT32_MAX);
    const mp_live_entry *big = mp_live_at(&live, mp_live_insert(&live, 8, 1, 0, UINT64_MAX));
    CHECK_UINT(big->size, MP_LIVE_SIZE_MAX);
    CHECK_UINT(big->largest, MP_LIVE_SIZE_MAX);
    const mp_live_entry *less = mp_live_at(&live, mp_live_insert(&live, 16, 1, 0, 1ull << 39));
    CHECK_UINT(less->size, UINT64_C(1) << 39);
    CHECK_UINT(sizeof(mp_live_entry), 32);
    mp_live_destroy(&live);
}

/* What live.h promises of its memory, at every number of entries past the first few. */
static void test_memory(void)
{
    mp_live live;
    mp_live_init(&live, UINT32_MAX);
    for (uint32_t i = 0; i < 100000; i++) {
        mp_live_insert(&live, address_of(i), i, 0, 40);
        if (i < 20000) continue;
        size_t last_slab = MP_SLAB_ITEMS * 32 + sizeof(char *) * live.slabs.dir_cap;
        if (mp_live_memsize(&live) <= (size_t)(i + 1) * 54 + last_slab) continue;
        CHECK_UINT(mp_live_memsize(&live), (i + 1) * 54); /* the first that is over */
        break;
    }
    CHECK(mp_live_memsize(&live) >= 100000 * 32);
    mp_live_destroy(&live);
}

/* An insert that fails for want of memory leaves the table as it was. */
static void test_no_memory(void)
{
    mp_live live;
    mp_live_init(&live, UINT32_MAX);
    uint32_t failed = 0;
    for (uint32_t i = 0; i < 9000; i++) {
        for (long after = 0;; after++) {
            mp_mem_fail_after(after);
            uint32_t id = mp_live_insert(&live, address_of(i), i, 0, 40);
            mp_mem_fail_after(-1);
            CHECK_UINT(mp_live_count(&live), i + (id != 0));
            if (id) break;
            failed++;
            CHECK_UINT(mp_live_find(&live, address_of(i)), 0);
            uint32_t next = mp_live_next(&live, i);
            CHECK_UINT(next, 0);
        }
    }
    CHECK(failed > 9000 / MP_SLAB_ITEMS);
    for (uint32_t i = 0; i < 9000; i++) {
        uint32_t id = mp_live_find(&live, address_of(i));
        if (CHECK(id != 0)) CHECK_UINT(mp_live_at(&live, id)->site, i);
    }
    mp_live_destroy(&live);
}

int main(void)
{
    test_sparse();
    for (uint64_t seed = 1; seed <= 3; seed++) {
        test_model(seed);
        test_cursors(seed);
    }
    test_rekey_among_themselves();
    test_cap();
    test_size();
    test_memory();
    test_no_memory();
    return check_report();
}
