/* SPDX-License-Identifier: MIT */
/* Where writers pause, for how long, and how often. */
#include "tests/unit/wb_fixture.h"

#define MIB (1024 * 1024ull)

/* 8 MiB may be dirty, the device takes 16 MB/s; @dirty MiB are, and nothing is on its way. */
static void begin(struct wb_fixture *fx, unsigned dirty, struct wb_config *config)
{
	static char data[MIB];

	config->device.rate = 16 * MIB;
	config->dirty_writeback_centisecs = 0;
	config->dirty_bytes = 8 * MIB;
	config->dirty_background_bytes = 4 * MIB;
	fixture_begin(fx, config);
	for (unsigned i = 0; i < dirty; i++)
		ck_assert_int_eq(wb_file_write(fx->file, i * MIB, data, MIB), 0);
}

static struct wb_stats stats_of(struct wb_fixture *fx)
{
	struct wb_stats stats;
	wb_cache_get_stats(fx->cache, &stats);
	return stats;
}

START_TEST(below_background_nobody_is_held_or_woken)
{
	struct wb_config config = fixture_config(0);
	struct wb_fixture fx;

	begin(&fx, 3, &config);
	wb_throttle(fx.cache, MIB);
	ck_assert_uint_eq(stats_of(&fx).throttle.pauses, 0);
	ck_assert_uint_eq(stats_of(&fx).flusher.passes, 0);
	fixture_end(&fx);
}
END_TEST

START_TEST(above_background_the_flusher_is_woken_and_the_writer_runs_free)
{
	struct wb_config config = fixture_config(0);
	struct wb_fixture fx;

	begin(&fx, 5, &config);
	wb_throttle(fx.cache, MIB);
	ck_assert_uint_eq(stats_of(&fx).throttle.pauses, 0);
	while (stats_of(&fx).flusher.passes == 0)
		usleep(1000);
	fixture_end(&fx);
}
END_TEST

START_TEST(at_the_limit_a_writer_waits_for_room_and_does_not_spin)
{
	struct wb_config config = fixture_config(0);
	struct wb_fixture fx;

	/* The write's own pages are what goes beyond the limit: 8 MiB are dirty, and one more is asked for. */
	begin(&fx, 8, &config);
	uint64_t start_ns = clock_now_ns();
	wb_throttle(fx.cache, MIB);
	struct wb_stats s = stats_of(&fx);
	ck_assert_uint_ge(clock_now_ns() - start_ns, 30 * NSEC_PER_MSEC); /* 1 MiB at 16 MB/s: 62 ms */
	ck_assert_uint_ge(s.throttle.pauses, 1);
	ck_assert_uint_le(s.throttle.pauses, 100);
	ck_assert_uint_le(s.cache.dirty + s.cache.writeback, 7 * MIB / WB_PAGE_SIZE);
	fixture_end(&fx);
}
END_TEST

START_TEST(a_pause_lasts_at_most_200_ms)
{
	struct wb_config config = fixture_config(0);
	struct wb_fixture fx;

	begin(&fx, 8, &config);
	config.device.rate = 1 * MIB; /* a second a MiB */
	ck_assert_int_eq(wb_cache_configure(fx.cache, &config), 0);
	wb_throttle(fx.cache, MIB);
	struct wb_stats s = stats_of(&fx);
	ck_assert_uint_ge(s.throttle.pauses, s.throttle.pause_ns / (250 * NSEC_PER_MSEC));
	config.device.rate = 0;
	ck_assert_int_eq(wb_cache_configure(fx.cache, &config), 0);
	fixture_end(&fx);
}
END_TEST

START_TEST(a_write_larger_than_the_limit_passes_when_all_else_is_clean)
{
	struct wb_config config = fixture_config(0);
	struct wb_fixture fx;

	begin(&fx, 6, &config);
	config.dirty_background_bytes = 4096;
	ck_assert_int_eq(wb_cache_configure(fx.cache, &config), 0);
	ck_assert_int_eq(wb_file_flush(fx.file, 0, UINT64_MAX), 0);
	wb_throttle(fx.cache, 64 * MIB);
	fixture_end(&fx);
}
END_TEST

START_TEST(what_is_dirty_below_the_background_threshold_holds_nobody)
{
	struct wb_config config = fixture_config(0);
	struct wb_fixture fx;

	/* 3 MiB are dirty, which the flusher leaves alone for 30 seconds; the write is as long as the limit. */
	begin(&fx, 3, &config);
	uint64_t start_ns = clock_now_ns();
	wb_throttle(fx.cache, 8 * MIB);
	wb_throttle(fx.cache, 64 * MIB);
	ck_assert_uint_lt(clock_now_ns() - start_ns, 5 * NSEC_PER_SEC);
	fixture_end(&fx);
}
END_TEST

struct small_writer {
	struct wb_fixture *fx;
	_Atomic bool stop;
};

static void *write_small(void *arg)
{
	struct small_writer *writer = arg;
	static char data[WB_PAGE_SIZE];

	for (uint64_t i = 0; !atomic_load(&writer->stop); i++) {
		wb_throttle(writer->fx->cache, sizeof(data));
		wb_file_write(writer->fx->file, i % 4096 * sizeof(data), data, sizeof(data));
	}
	return NULL;
}

START_TEST(small_writes_do_not_take_the_room_of_a_large_one)
{
	struct wb_config config = fixture_config(0);
	struct wb_fixture fx;
	struct small_writer writer = { .fx = &fx };
	pthread_t thread;

	begin(&fx, 8, &config);
	pthread_create(&thread, NULL, write_small, &writer);
	usleep(50000);
	uint64_t start_ns = clock_now_ns();
	/* 4 MiB at 16 MB/s: a quarter of a second a time. */
	for (int i = 0; i < 3; i++)
		wb_throttle(fx.cache, 4 * MIB);
	ck_assert_uint_lt(clock_now_ns() - start_ns, 5 * NSEC_PER_SEC);
	atomic_store(&writer.stop, true);
	pthread_join(thread, NULL);
	fixture_end(&fx);
}
END_TEST

static void *end_soon(void *arg)
{
	usleep(50000);
	wb_cache_shutdown_begin(arg);
	return NULL;
}

START_TEST(shutdown_lets_a_held_writer_go)
{
	struct wb_config config = fixture_config(0);
	struct wb_fixture fx;
	pthread_t thread;

	begin(&fx, 8, &config);
	config.device.rate = 64 * 1024; /* the device stands nearly still */
	ck_assert_int_eq(wb_cache_configure(fx.cache, &config), 0);
	pthread_create(&thread, NULL, end_soon, fx.cache);
	uint64_t start_ns = clock_now_ns();
	wb_throttle(fx.cache, MIB);
	ck_assert_uint_lt(clock_now_ns() - start_ns, 2 * NSEC_PER_SEC);
	pthread_join(thread, NULL);
	config.device.rate = 0;
	ck_assert_int_eq(wb_cache_configure(fx.cache, &config), 0);
	_exit(0); /* what was given a due time at 64 KiB/s keeps it */
}
END_TEST

static Suite *make_suite(void)
{
	Suite *suite = suite_create("writeback");
	TCase *tc = tcase_create("wb_throttle");

	tcase_set_timeout(tc, 60);
	tcase_add_test(tc, below_background_nobody_is_held_or_woken);
	tcase_add_test(tc, above_background_the_flusher_is_woken_and_the_writer_runs_free);
	tcase_add_test(tc, at_the_limit_a_writer_waits_for_room_and_does_not_spin);
	tcase_add_test(tc, a_pause_lasts_at_most_200_ms);
	tcase_add_test(tc, a_write_larger_than_the_limit_passes_when_all_else_is_clean);
	tcase_add_test(tc, what_is_dirty_below_the_background_threshold_holds_nobody);
	tcase_add_test(tc, small_writes_do_not_take_the_room_of_a_large_one);
	tcase_add_test(tc, shutdown_lets_a_held_writer_go);
	suite_add_tcase(suite, tc);
	return suite;
}

WB_TEST_MAIN(make_suite)
