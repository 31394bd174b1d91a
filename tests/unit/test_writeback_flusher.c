/* SPDX-License-Identifier: MIT */
/* The flusher alone: when it works without being asked. */
#include "tests/unit/wb_fixture.h"

#define MIB (1024 * 1024ull)

static struct wb_stats stats_of(struct wb_fixture *fx)
{
	struct wb_stats stats;
	wb_cache_get_stats(fx->cache, &stats);
	return stats;
}

/* Whether no more than @pages are dirty within @ms. */
static bool falls_to(struct wb_fixture *fx, uint64_t pages, unsigned ms)
{
	for (unsigned i = 0; i < ms && stats_of(fx).cache.dirty > pages; i++)
		usleep(1000);
	return stats_of(fx).cache.dirty <= pages;
}

START_TEST(a_period_that_is_set_while_it_sleeps_counts_from_then)
{
	struct wb_config config = fixture_config(_i);
	struct wb_fixture fx;

	config.dirty_writeback_centisecs = 0;
	config.dirty_expire_centisecs = 1;
	fixture_begin(&fx, &config);
	ck_assert_int_eq(wb_file_write(fx.file, 0, "x", 1), 0);
	ck_assert(!falls_to(&fx, 0, 100));
	config.dirty_writeback_centisecs = 5;
	ck_assert_int_eq(wb_cache_configure(fx.cache, &config), 0);
	ck_assert(falls_to(&fx, 0, 3000));
	fixture_end(&fx);
}
END_TEST

START_TEST(what_shall_never_expire_does_not)
{
	struct wb_config config = fixture_config(_i);
	struct wb_fixture fx;

	config.dirty_writeback_centisecs = 1;
	config.dirty_expire_centisecs = UINT32_MAX;
	fixture_begin(&fx, &config);
	ck_assert_int_eq(wb_file_write(fx.file, 0, "x", 1), 0);
	ck_assert(!falls_to(&fx, 0, 200));
	fixture_end(&fx);
}
END_TEST

START_TEST(what_failed_is_tried_again_before_it_expires)
{
	struct wb_config config = fixture_config(_i);
	struct wb_fixture fx;

	config.dirty_writeback_centisecs = 10;
	fixture_begin(&fx, &config);
	ck_assert_int_eq(wb_file_write(fx.file, 0, "x", 1), 0);
	int bad = open(fx.path, O_RDONLY), good = dup(fx.file->fd);
	dup2(bad, fx.file->fd);
	ck_assert_int_eq(wb_file_flush(fx.file, 0, UINT64_MAX), -EBADF);
	dup2(good, fx.file->fd);
	ck_assert(falls_to(&fx, 0, 3000));
	while (wb_file_is_dirty(fx.file))
		usleep(1000); /* in flight */
	fixture_backing_is(&fx, (const unsigned char *)"x", 1);
	close(bad);
	close(good);
	fixture_end(&fx);
}
END_TEST

START_TEST(pages_written_to_in_flight_go_again_without_being_asked_for)
{
	struct wb_config config = fixture_config(_i);
	struct wb_fixture fx;
	static char data[4 * MIB];

	config.device.rate = 16 * MIB;
	config.dirty_writeback_centisecs = 0;
	config.dirty_bytes = 32 * MIB;
	config.dirty_background_bytes = MIB;
	config.restart_poll_ms = 60000;
	config.congestion = WB_CONGESTION_BLOCK;
	config.congestion_kb = 16 * 1024;
	fixture_begin(&fx, &config);
	ck_assert_int_eq(wb_file_write(fx.file, 0, data, sizeof(data)), 0);
	wb_throttle(fx.cache, 1);
	ck_assert(falls_to(&fx, 0, 1000)); /* all of it is in flight */
	ck_assert_int_eq(wb_file_write(fx.file, 0, data, sizeof(data)), 0);
	ck_assert_uint_gt(stats_of(&fx).cache.writeback, 0);
	wb_throttle(fx.cache, 1);
	ck_assert(falls_to(&fx, MIB / WB_PAGE_SIZE, 3000));
	fixture_end(&fx);
}
END_TEST

static Suite *make_suite(void)
{
	Suite *suite = suite_create("writeback");
	TCase *tc = tcase_create("flusher");

	tcase_set_timeout(tc, 60);
	tcase_add_loop_test(tc, a_period_that_is_set_while_it_sleeps_counts_from_then, 0, 2);
	tcase_add_loop_test(tc, what_shall_never_expire_does_not, 0, 2);
	tcase_add_loop_test(tc, what_failed_is_tried_again_before_it_expires, 0, 2);
	tcase_add_loop_test(tc, pages_written_to_in_flight_go_again_without_being_asked_for, 0, 2);
	suite_add_tcase(suite, tc);
	return suite;
}

WB_TEST_MAIN(make_suite)
