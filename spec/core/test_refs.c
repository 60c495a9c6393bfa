/* Frames, classes and threads by address: their three states, against a model. */
#include "check.h"
#include "dice.h"
#include "mem.h"
#include "refs.h"

#include <stdlib.h>

#define IDS 900u
#define PLACES 600u

typedef struct {
    mp_refs refs;
    struct {
        mp_ref_state state;
        uint32_t refs, name;
        uint64_t address;
    } item[IDS + 1];     /* by number */
    uint32_t at[PLACES]; /* place -> number */
    uint64_t moved_by;
    uint32_t names;               /* given so far: each name once */
    uint64_t gone, expected_gone; /* sums of names, and how many, given back */
    uint32_t gone_count, expected_gone_count;
} model;

static uint64_t address_of(const model *m, uint32_t place)
{
    return UINT64_C(0x5500000000) + place * 40 + m->moved_by;
}

static void name_gone(void *owner, uint32_t name)
{
    model *m = owner;
    m->gone += name;
    m->gone_count++;
}

static uint32_t place_of(const model *m, uint32_t id)
{
    return (uint32_t)((m->item[id].address - address_of(m, 0)) / 40);
}

static void model_free(model *m, uint32_t id)
{
    m->item[id].state = MP_REF_FREE;
    m->expected_gone += m->item[id].name;
    m->expected_gone_count++;
}

static void add(model *m, uint32_t place)
{
    uint32_t id = mp_refs_add(&m->refs, address_of(m, place));
    if (!CHECK(id != 0 && id <= IDS)) exit(1);
    CHECK_UINT(m->item[id].state, MP_REF_FREE); /* nobody's number */
    m->item[id].state = MP_REF_PENDING;
    m->item[id].refs = 0;
    m->item[id].name = 0;
    m->item[id].address = address_of(m, place);
    m->at[place] = id;
}

static void name(model *m, uint32_t id)
{
    m->item[id].name = ++m->names;
    m->item[id].state = MP_REF_NAMED;
    mp_refs_name(&m->refs, id, m->names, (uint16_t)(m->names & 0xff));
    CHECK_UINT(mp_refs_at(&m->refs, id)->flags, m->names & 0xff);
}

static void model_die(model *m, uint32_t id)
{
    m->at[place_of(m, id)] = 0;
    m->item[id].address = 0;
    m->item[id].state = MP_REF_DEAD;
    if (m->item[id].refs == 0) model_free(m, id);
}

static void change(model *m, dice *d)
{
    uint32_t place = dice_roll(d, PLACES), id = 2 + dice_roll(d, IDS - 1); /* 1 is made up */
    mp_ref_state state = m->item[id].state;
    switch (dice_roll(d, 5)) {
    case 0:
        if (!m->at[place]) add(m, place);
        break;
    case 1:
        if (state == MP_REF_PENDING) name(m, id);
        break;
    case 2:
        if (state == MP_REF_FREE || state == MP_REF_DEAD) break;
        mp_refs_retain(&m->refs, id);
        m->item[id].refs++;
        break;
    case 3:
        if (state == MP_REF_FREE || m->item[id].refs == 0) break;
        mp_refs_release(&m->refs, id);
        if (--m->item[id].refs == 0 && state == MP_REF_DEAD) model_free(m, id);
        break;
    default:
        if (state != MP_REF_NAMED || dice_roll(d, 3)) break;
        mp_refs_die(&m->refs, id);
        model_die(m, id);
        return;
    }
}

static void check_all(const model *m)
{
    uint32_t dead = 0, pending = 0, with_address = 0, walked = 0, in_use = 0, before = 0;
    for (uint32_t id = 1; id <= IDS; id++) {
        if (m->item[id].state == MP_REF_FREE) continue;
        const mp_ref *ref = mp_refs_at(&m->refs, id);
        CHECK_UINT(ref->state, m->item[id].state);
        CHECK_UINT(ref->refs, m->item[id].refs);
        if (ref->state != MP_REF_PENDING) CHECK_UINT(ref->name, m->item[id].name);
        CHECK_UINT(ref->address, m->item[id].address);
        in_use++;
        dead += ref->state == MP_REF_DEAD;
        pending += ref->state == MP_REF_PENDING;
        with_address += m->item[id].address != 0;
    }
    CHECK_UINT(m->refs.slabs.in_use, in_use);
    CHECK_UINT(m->refs.dead, dead);
    for (uint32_t id = 0; (id = mp_refs_next(&m->refs, id)) != 0; walked++) {
        CHECK(id > before && m->item[id].address != 0);
        before = id;
    }
    CHECK_UINT(walked, with_address);
    for (uint32_t id = m->refs.pending, newer = 0; id; id = mp_refs_at(&m->refs, id)->link) {
        CHECK_UINT(m->item[id].state, MP_REF_PENDING);
        CHECK_UINT(mp_refs_at(&m->refs, id)->newer, newer);
        newer = id;
        pending--;
    }
    CHECK_UINT(pending, 0);
    for (uint32_t place = 0; place < PLACES; place++) {
        CHECK_UINT(mp_refs_find(&m->refs, address_of(m, place)), m->at[place]);
    }
    CHECK_UINT(m->gone, m->expected_gone);
    CHECK_UINT(m->gone_count, m->expected_gone_count);
}

static uint64_t up(uint64_t address)
{
    return address + (UINT64_C(1) << 36);
}

static void rekey(model *m)
{
    mp_mem_fail_after(0); /* the collector is moving objects: nothing may be allocated */
    mp_refs_rekey(&m->refs, up);
    mp_mem_fail_after(-1);
    m->moved_by += UINT64_C(1) << 36;
    for (uint32_t id = 1; id <= IDS; id++) {
        if (m->item[id].address) m->item[id].address += UINT64_C(1) << 36;
    }
}

static void die_all(model *m)
{
    mp_refs_die_all(&m->refs);
    for (uint32_t id = 1; id <= IDS; id++) {
        if (m->item[id].state == MP_REF_NAMED && m->item[id].address) model_die(m, id);
    }
}

static void test_model(uint64_t seed)
{
    model *m = calloc(1, sizeof *m);
    mp_refs_init(&m->refs, IDS, name_gone, m);
    /* Made-up ones have no address, are nobody's to find, and stay through it all. */
    uint32_t made_up = mp_refs_add_named(&m->refs, 1000000);
    CHECK_UINT(made_up, 1);
    m->item[1].state = MP_REF_NAMED;
    m->item[1].refs = 1;
    m->item[1].name = 1000000;
    CHECK_UINT(mp_refs_find(&m->refs, 0), 0);

    dice d = dice_new(seed);
    for (int round = 0; round < 12; round++) {
        for (int i = 0; i < 4000; i++) change(m, &d);
        check_all(m);
        if (round % 3 == 1) rekey(m);
        if (round % 5 == 2) die_all(m);
        check_all(m);
    }
    mp_refs_destroy(&m->refs);
    free(m);
}

/* One item through its life, as the comment of refs.h tells it. */
static void test_life(void)
{
    model *m = calloc(1, sizeof *m);
    mp_refs *refs = &m->refs;
    mp_refs_init(refs, 4, name_gone, m);
    uint32_t first = mp_refs_add(refs, 0x1000), second = mp_refs_add(refs, 0x2000);
    CHECK_UINT(mp_refs_at(refs, first)->state, MP_REF_PENDING);
    mp_refs_retain(refs, first);
    mp_refs_name(refs, first, 7, 0); /* not at the head of the list */
    CHECK_UINT(refs->pending, second);

    /* No address can be trusted: a named one loses its own, a pending one is pinned. */
    mp_refs_die_all(refs);
    CHECK_UINT(mp_refs_at(refs, first)->state, MP_REF_DEAD);
    CHECK_UINT(mp_refs_at(refs, second)->state, MP_REF_PENDING);
    CHECK_UINT(mp_refs_find(refs, 0x2000), second);
    CHECK_UINT(mp_refs_find(refs, 0x1000), 0);

    /* Another object at the address of the dead one is another item. */
    uint32_t third = mp_refs_add(refs, 0x1000);
    CHECK(third != first && third != second);
    CHECK_UINT(mp_refs_at(refs, first)->name, 7);
    CHECK_UINT(m->gone_count, 0);
    mp_refs_release(refs, first);
    CHECK_UINT(m->gone_count, 1);
    CHECK_UINT(m->gone, 7);
    CHECK_UINT(refs->dead, 0);

    /* Named and unreferenced: it waits to be met again; its death frees it. */
    mp_refs_name(refs, third, 9, 0);
    mp_refs_retain(refs, third);
    mp_refs_release(refs, third);
    CHECK_UINT(mp_refs_find(refs, 0x1000), third);
    CHECK_UINT(m->gone_count, 1);
    mp_refs_die(refs, third);
    CHECK_UINT(m->gone, 16);

    for (uint64_t i = 0; i < 3; i++) CHECK(mp_refs_add(refs, 0x3000 + i) != 0);
    CHECK_UINT(mp_refs_add(refs, 0x9000), 0); /* full */
    CHECK_UINT(mp_refs_add_named(refs, 1), 0);
    CHECK_UINT(mp_refs_find(refs, 0x9000), 0);
    CHECK(mp_refs_memsize(refs) >= 4 * sizeof(mp_ref));
    mp_refs_destroy(refs);
    free(m);
}

static void test_no_memory(void)
{
    mp_refs refs;
    mp_refs_init(&refs, UINT32_MAX, NULL, NULL);
    for (uint32_t i = 0; i < 2000; i++) {
        for (long after = 0;; after++) {
            mp_mem_fail_after(after);
            uint32_t id = mp_refs_add(&refs, 64 + i);
            mp_mem_fail_after(-1);
            CHECK_UINT(refs.slabs.in_use, i + (id != 0));
            if (id) break;
            CHECK_UINT(mp_refs_find(&refs, 64 + i), 0);
        }
    }
    uint32_t pending = 0;
    for (uint32_t id = refs.pending; id; id = mp_refs_at(&refs, id)->link) pending++;
    CHECK_UINT(pending, 2000);
    mp_refs_destroy(&refs);
}

int main(void)
{
    for (uint64_t seed = 1; seed <= 3; seed++) test_model(seed);
    test_life();
    test_no_memory();
    return check_report();
}
