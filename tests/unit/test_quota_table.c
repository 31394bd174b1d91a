/* SPDX-License-Identifier: MIT */
/* The table of ids: what an id costs in memory and in nodes looked at. Counters, not clocks. */
#include <check.h>
#include <malloc.h>

#include "quota/private.h"

#define NR_IDS 100000u

/* Ways in which ids come: dense, sub-uid ranges, powers of two apart, from the top down. */
static uint32_t id_of(int pattern, uint32_t i)
{
	switch (pattern) {
	case 0:
		return i;
	case 1:
		return 100000 + i / 10 * 65536 + i % 10;
	case 2:
		return i << 12 | i >> 20;
	default:
		return UINT32_MAX - i * 256;
	}
}

static struct quota *quota_with_ids(int pattern)
{
	struct quota *quota;

	ck_assert_int_eq(quota_new_volatile(&quota), 0);
	for (uint32_t i = 0; i < NR_IDS; i++) {
		const struct quota_owner owner = {{id_of(pattern, i), 0}};
		quota_usage_add(quota, &owner, i, 1);
	}
	return quota;
}

START_TEST(an_id_takes_at_most_200_bytes)
{
	struct mallinfo2 before = mallinfo2();
	struct quota *quota = quota_with_ids(_i);
	struct mallinfo2 after = mallinfo2();

	ck_assert_uint_le(quota_table_bytes(&quota->table) / NR_IDS, 200);
	/* the allocator agrees, where it tells (a sanitizer's does not); the fixed part (shards) is
	 * not an id's */
	uint64_t grown = after.uordblks + after.hblkhd - before.uordblks - before.hblkhd;
	if (grown > 0)
		ck_assert_uint_le((grown - sizeof(struct quota)) / NR_IDS, 200);
	quota_abandon(quota);
}
END_TEST

START_TEST(a_lookup_looks_at_two_nodes_or_fewer_on_average_however_many_ids_there_are)
{
	uint64_t ids, lookups, probes, lookups_before, probes_before;
	struct quota *quota = quota_with_ids(_i);

	quota_table_count(&quota->table, &ids, &lookups_before, &probes_before);
	ck_assert_uint_eq(ids, NR_IDS + 1);
	for (uint32_t i = 0; i < NR_IDS; i++) {
		struct quota_entry entry;
		ck_assert_int_eq(quota_get(quota, QUOTA_USER, id_of(_i, i), &entry), 1);
		ck_assert_int_eq(entry.usage.bytes, i);
	}
	quota_table_count(&quota->table, &ids, &lookups, &probes);
	ck_assert_uint_eq(lookups - lookups_before, NR_IDS);
	ck_assert_uint_le(probes - probes_before, 2 * NR_IDS);
	quota_abandon(quota);
}
END_TEST

START_TEST(a_charge_makes_one_lookup_per_kind)
{
	uint64_t ids, lookups, probes, lookups_before, probes_before;
	struct quota *quota = quota_with_ids(0);
	const struct quota_owner owner = {{77, 0}};
	struct quota_charge charge = {0};

	quota_table_count(&quota->table, &ids, &lookups_before, &probes_before);
	ck_assert_int_eq(quota_charge(quota, &owner, 4096, 1, 1, 0, &charge), 0);
	quota_table_count(&quota->table, &ids, &lookups, &probes);
	ck_assert_uint_eq(lookups - lookups_before, QUOTA_KINDS);
	ck_assert_uint_le(probes - probes_before, 2 * 8);
	quota_charge_release(&charge);
	quota_abandon(quota);
}
END_TEST

START_TEST(a_node_never_moves_while_the_table_grows)
{
	struct quota *quota = quota_with_ids(0);
	struct quota_shard *shard = quota_table_shard(&quota->table, QUOTA_USER, 7);
	struct quota_node *before, *after;

	{
		LOCK_SCOPE(&shard->lock);
		before = quota_shard_find_locked(shard, 7);
	}
	for (uint32_t id = NR_IDS; id < 4 * NR_IDS; id++)
		quota_usage_add(quota, &(struct quota_owner){{id, 0}}, 1, 0);
	{
		LOCK_SCOPE(&shard->lock);
		after = quota_shard_find_locked(shard, 7);
	}
	ck_assert_ptr_nonnull(before);
	ck_assert_ptr_eq(before, after);
	quota_abandon(quota);
}
END_TEST

START_TEST(locks_are_taken_once_each_and_in_ascending_order)
{
	struct quota *quota;
	struct quota_lock_set set = {0};
	ck_assert_int_eq(quota_new_volatile(&quota), 0);
	struct quota_table *table = &quota->table;

	quota_lock_set_add(&set, &table->shard[1][9]);
	quota_lock_set_add(&set, &table->shard[0][5]);
	quota_lock_set_add(&set, &table->shard[1][9]);
	quota_lock_set_add(&set, &table->shard[0][2]);
	quota_lock_set_take(&set);
	ck_assert_uint_eq(set.nr, 3);
	ck_assert_ptr_eq(set.shard[0], &table->shard[0][2]);
	ck_assert_ptr_eq(set.shard[1], &table->shard[0][5]);
	ck_assert_ptr_eq(set.shard[2], &table->shard[1][9]);
	ck_assert(lock_is_held(&table->shard[1][9].lock));
	quota_lock_set_release(&set);
	ck_assert(!lock_is_held(&table->shard[1][9].lock));
	quota_abandon(quota);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("quota");
	TCase *tcase = tcase_create("quota_table");

	tcase_set_timeout(tcase, 60);
	tcase_add_loop_test(tcase, an_id_takes_at_most_200_bytes, 0, 4);
	tcase_add_loop_test(
		tcase, a_lookup_looks_at_two_nodes_or_fewer_on_average_however_many_ids_there_are,
		0, 4);
	tcase_add_test(tcase, a_charge_makes_one_lookup_per_kind);
	tcase_add_test(tcase, a_node_never_moves_while_the_table_grows);
	tcase_add_test(tcase, locks_are_taken_once_each_and_in_ascending_order);
	suite_add_tcase(suite, tcase);
	SRunner *runner = srunner_create(suite);
	srunner_set_tap(runner, "-");
	srunner_run_all(runner, CK_SILENT);
	int failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
