/* SPDX-License-Identifier: MIT */
/* The ordered index against a table of what should be in it. */
#include "tests/unit/wb_fixture.h"

#define SPAN 5000u

struct table {
	uint32_t id[SPAN];
	unsigned count;
};

static void add(struct wb_fixture *fx, struct table *table, unsigned at)
{
	uint32_t id;

	ck_assert_uint_eq(wb_page_alloc(fx->cache, 1, false, &id), 1);
	wb_page_attach_locked(fx->file, id, at);
	table->id[at] = id;
	table->count++;
}

static void del(struct wb_fixture *fx, struct table *table, unsigned at)
{
	wb_page_drop_locked(fx->file, table->id[at]);
	table->id[at] = 0;
	table->count--;
}

/* Everything an index can be asked, compared; counted here because an assertion each would be slow. */
static unsigned differences(struct wb_fixture *fx, struct table *table)
{
	unsigned wrong = 0;
	uint32_t next = 0;

	for (unsigned at = SPAN; at-- > 0;) {
		if (table->id[at])
			next = table->id[at];
		wrong += wb_index_find_locked(fx->file, at) != table->id[at];
		wrong += wb_index_from_locked(fx->file, at) != next;
	}
	uint32_t id = wb_index_from_locked(fx->file, 0), last = 0;
	for (unsigned at = 0; at < SPAN; at++) {
		if (!table->id[at])
			continue;
		wrong += id != table->id[at];
		wrong += id && wb_index_prev(fx->cache, id) != last;
		last = id;
		id = id ? wb_index_next(fx->cache, id) : 0;
	}
	return wrong + (id != 0);
}

static unsigned depth(struct wb_cache *cache, uint32_t id)
{
	if (!id)
		return 0;
	unsigned left = depth(cache, wb_page(cache, id)->left), right = depth(cache, wb_page(cache, id)->right);
	return 1 + (left > right ? left : right);
}

START_TEST(random_insertions_and_removals_keep_order_and_balance)
{
	struct wb_config config = fixture_config(0);
	struct wb_fixture fx;
	static struct table table;
	unsigned seed = (unsigned)getpid();

	fixture_begin(&fx, &config);
	memset(&table, 0, sizeof(table));
	lock_take(&fx.file->lock);
	for (unsigned round = 0; round < 40; round++) {
		for (unsigned i = 0; i < 2000; i++) {
			unsigned at = (unsigned)rand_r(&seed) % SPAN;
			/* Rounds of growth and of decay. */
			if (!table.id[at] && (unsigned)rand_r(&seed) % 8 < (round % 8 < 4 ? 7 : 1))
				add(&fx, &table, at);
			else if (table.id[at])
				del(&fx, &table, at);
		}
		ck_assert_msg(differences(&fx, &table) == 0, "seed %u", seed);
		/* 2 log2(n + 1) at most. */
		unsigned levels = depth(fx.cache, fx.file->root);
		ck_assert_uint_le(1u << (levels / 2), table.count + 1);
	}
	lock_release(&fx.file->lock);
	fixture_end(&fx);
}
END_TEST

START_TEST(ascending_and_descending_orders_stay_balanced)
{
	struct wb_config config = fixture_config(0);
	struct wb_fixture fx;
	static struct table table;

	fixture_begin(&fx, &config);
	memset(&table, 0, sizeof(table));
	lock_take(&fx.file->lock);
	for (unsigned i = 0; i < SPAN; i++)
		add(&fx, &table, _i ? SPAN - 1 - i : i);
	ck_assert_uint_eq(differences(&fx, &table), 0);
	ck_assert_uint_le(depth(fx.cache, fx.file->root), 26);
	for (unsigned i = 0; i < SPAN - 10; i++)
		del(&fx, &table, _i ? i : SPAN - 1 - i);
	ck_assert_uint_eq(differences(&fx, &table), 0);
	lock_release(&fx.file->lock);
	fixture_end(&fx);
}
END_TEST

START_TEST(bookkeeping_is_one_cache_line_a_page)
{
	ck_assert_uint_le(sizeof(struct wb_page), 64);
}
END_TEST

static Suite *make_suite(void)
{
	Suite *suite = suite_create("writeback");
	TCase *tc = tcase_create("wb_index");

	tcase_set_timeout(tc, 60);
	tcase_add_test(tc, random_insertions_and_removals_keep_order_and_balance);
	tcase_add_loop_test(tc, ascending_and_descending_orders_stay_balanced, 0, 2);
	tcase_add_test(tc, bookkeeping_is_one_cache_line_a_page);
	suite_add_tcase(suite, tc);
	return suite;
}

WB_TEST_MAIN(make_suite)
