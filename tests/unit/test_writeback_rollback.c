/* SPDX-License-Identifier: MIT */
/* What each rollback visits and frees, counted exactly. */
#include "tests/unit/wb_fixture.h"

#define PAGES 1000u
#define P WB_PAGE_SIZE

static char buf[64 * P];

/* A file of PAGES written and clean pages, whose backing is as long. */
static void prepare(struct wb_fixture *fx)
{
	struct wb_config config = fixture_config(0);

	fixture_begin(fx, &config);
	for (unsigned i = 0; i < PAGES; i += 50)
		ck_assert_int_eq(wb_file_write(fx->file, (uint64_t)i * P, buf, 50 * P), 0);
	ck_assert_int_eq(wb_file_sync(fx->file, true), 0);
	ck_assert_uint_eq(wb_file_resident(fx->file), PAGES);
}

static struct wb_rollback_result undo(struct wb_fixture *fx, enum wb_rollback how, uint64_t size, uint64_t write_size,
				      uint64_t block_size)
{
	struct wb_rollback_result result;
	ck_assert_int_eq(wb_file_rollback(fx->file, how, size, write_size, block_size, &result), 0);
	ck_assert_uint_eq(wb_file_size(fx->file), size);
	return result;
}

START_TEST(list_visits_every_resident_page_to_free_none)
{
	struct wb_fixture fx;
	prepare(&fx);
	struct wb_rollback_result r = undo(&fx, WB_ROLLBACK_LIST, PAGES * P, (PAGES + 1) * P, P);
	ck_assert_uint_eq(r.pages_visited, PAGES);
	ck_assert_uint_eq(r.pages_freed, 0);
	ck_assert(r.by_list);
	fixture_end(&fx);
}
END_TEST

START_TEST(list_visits_all_to_free_what_the_write_made)
{
	struct wb_fixture fx;
	prepare(&fx);
	ck_assert_int_eq(wb_file_write(fx.file, PAGES * P, buf, 20 * P), 0);
	struct wb_rollback_result r = undo(&fx, WB_ROLLBACK_LIST, PAGES * P, (PAGES + 21) * P, P);
	ck_assert_uint_eq(r.pages_visited, PAGES + 20);
	ck_assert_uint_eq(r.pages_freed, 20);
	ck_assert_uint_eq(wb_file_resident(fx.file), PAGES);
	fixture_end(&fx);
}
END_TEST

START_TEST(bounded_looks_up_each_page_of_the_claim)
{
	struct wb_fixture fx;
	prepare(&fx);
	ck_assert_int_eq(wb_file_write(fx.file, PAGES * P, buf, 20 * P), 0);
	struct wb_rollback_result r = undo(&fx, WB_ROLLBACK_BOUNDED, PAGES * P, (PAGES + 21) * P, P);
	ck_assert_uint_eq(r.pages_visited, 21);
	ck_assert_uint_eq(r.pages_freed, 20);
	ck_assert(!r.by_list);
	fixture_end(&fx);
}
END_TEST

START_TEST(bounded_walks_the_list_up_to_four_times_the_range)
{
	struct wb_fixture fx;
	prepare(&fx);
	/* 1000 resident: a claim of 250 pages is at the edge, of 249 beyond it. */
	struct wb_rollback_result r = undo(&fx, WB_ROLLBACK_BOUNDED, PAGES * P, (PAGES + 250) * P, P);
	ck_assert(r.by_list);
	ck_assert_uint_eq(r.pages_visited, PAGES);
	r = undo(&fx, WB_ROLLBACK_BOUNDED, PAGES * P, (PAGES + 249) * P, P);
	ck_assert(!r.by_list);
	ck_assert_uint_eq(r.pages_visited, 249);
	fixture_end(&fx);
}
END_TEST

START_TEST(bounded_leaves_no_page_of_an_unaligned_block_behind)
{
	struct wb_fixture fx;
	prepare(&fx);
	/* Blocks of 16 pages; the refused write ended one page into its block, whose pages all exist. */
	uint64_t at = 1008ull * P;
	ck_assert_int_eq(wb_file_truncate(fx.file, at), 0);
	ck_assert_int_eq(wb_file_create_pages(fx.file, at, 16 * P), 0);
	ck_assert_uint_eq(wb_file_resident(fx.file), PAGES + 16);
	struct wb_rollback_result r = undo(&fx, WB_ROLLBACK_BOUNDED, at, at + P, 16 * P);
	ck_assert_uint_eq(r.pages_freed, 16);
	ck_assert_uint_eq(r.pages_visited, 16);
	ck_assert_uint_eq(wb_file_resident(fx.file), PAGES);
	fixture_end(&fx);
}
END_TEST

START_TEST(ordered_visits_what_it_frees)
{
	struct wb_fixture fx;
	prepare(&fx);
	ck_assert_int_eq(wb_file_write(fx.file, PAGES * P, buf, 20 * P), 0);
	struct wb_rollback_result r = undo(&fx, WB_ROLLBACK_ORDERED, PAGES * P, (PAGES + 21) * P, P);
	ck_assert_uint_eq(r.pages_visited, 20);
	ck_assert_uint_eq(r.pages_freed, 20);
	r = undo(&fx, WB_ROLLBACK_ORDERED, PAGES * P, (PAGES + 1) * P, P);
	ck_assert_uint_eq(r.pages_visited, 0);
	fixture_end(&fx);
}
END_TEST

START_TEST(nothing_is_walked_when_the_claim_ends_in_the_last_page)
{
	struct wb_fixture fx;
	prepare(&fx);
	ck_assert_int_eq(wb_file_truncate(fx.file, PAGES * P - 100), 0);
	struct wb_rollback_result r = undo(&fx, WB_ROLLBACK_LIST, PAGES * P - 100, PAGES * P - 10, P);
	ck_assert_uint_eq(r.pages_visited, 0);
	fixture_end(&fx);
}
END_TEST

START_TEST(undone_bytes_are_zero_when_the_file_grows_again)
{
	struct wb_fixture fx;
	unsigned char model[2 * P] = { 0 };
	prepare(&fx);
	ck_assert_int_eq(wb_file_truncate(fx.file, 0), 0);
	memset(buf, 'x', sizeof(buf));
	ck_assert_int_eq(wb_file_write(fx.file, 0, buf, 100), 0);
	ck_assert_int_eq(wb_file_write(fx.file, 100, buf, P), 0);
	undo(&fx, WB_ROLLBACK_BOUNDED, 100, 2 * P, P);
	ck_assert_int_eq(wb_file_truncate(fx.file, 2 * P), 0);
	ck_assert_int_eq(wb_file_sync(fx.file, true), 0);
	memset(model, 'x', 100);
	memset(buf, 0, sizeof(buf));
	fixture_backing_is(&fx, model, sizeof(model));
	fixture_end(&fx);
}
END_TEST

START_TEST(the_undo_waits_for_output_in_flight_and_cuts_the_backing)
{
	struct wb_fixture fx;
	struct wb_config config = fixture_config(0);
	struct stat st;

	config.device = (struct wb_device_model){ .latency_ns = 50 * NSEC_PER_MSEC };
	fixture_begin(&fx, &config);
	ck_assert_int_eq(wb_file_write(fx.file, 0, buf, 32 * P), 0);
	uint64_t start_ns = clock_now_ns();
	wb_file_write_behind(fx.file, 0, 32 * P);
	struct wb_rollback_result r = undo(&fx, WB_ROLLBACK_LIST, 8 * P, 32 * P, P);
	ck_assert_uint_ge(clock_now_ns() - start_ns, 50 * NSEC_PER_MSEC);
	ck_assert_uint_eq(r.pages_visited, 32);
	ck_assert_uint_eq(r.pages_freed, 24);
	ck_assert_uint_lt(r.lock_held_ns, r.time_ns);
	ck_assert_int_eq(stat(fx.path, &st), 0);
	ck_assert_int_eq((int)st.st_size, 8 * (int)P);
	fixture_end(&fx);
}
END_TEST

static Suite *make_suite(void)
{
	Suite *suite = suite_create("writeback");
	TCase *tc = tcase_create("wb_file_rollback");

	tcase_add_test(tc, list_visits_every_resident_page_to_free_none);
	tcase_add_test(tc, list_visits_all_to_free_what_the_write_made);
	tcase_add_test(tc, bounded_looks_up_each_page_of_the_claim);
	tcase_add_test(tc, bounded_walks_the_list_up_to_four_times_the_range);
	tcase_add_test(tc, bounded_leaves_no_page_of_an_unaligned_block_behind);
	tcase_add_test(tc, ordered_visits_what_it_frees);
	tcase_add_test(tc, nothing_is_walked_when_the_claim_ends_in_the_last_page);
	tcase_add_test(tc, undone_bytes_are_zero_when_the_file_grows_again);
	tcase_add_test(tc, the_undo_waits_for_output_in_flight_and_cuts_the_backing);
	suite_add_tcase(suite, tc);
	return suite;
}

WB_TEST_MAIN(make_suite)
