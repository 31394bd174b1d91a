/* SPDX-License-Identifier: MIT */
/* The gate alone, and the flusher behind it: who sleeps, and what wakes it. */
#include "tests/unit/wb_fixture.h"

#include <sched.h>

#define P WB_PAGE_SIZE
#define MIB (1024 * 1024ull)

/* ---- the gate alone ---- */

START_TEST(congestion_has_a_quarter_of_hysteresis)
{
	struct wb_gate gate = { 0 };

	wb_gate_init(&gate);
	wb_gate_configure(&gate, WB_CONGESTION_SKIP, 400);
	ck_assert_uint_eq(atomic_load(&gate.on), 100);
	ck_assert_uint_eq(atomic_load(&gate.off), 75);
	wb_gate_add(&gate, 100);
	ck_assert(!atomic_load(&gate.congested));
	ck_assert_int_eq(wb_gate_enter(&gate), WB_GATE_OPEN);
	wb_gate_add(&gate, 1);
	ck_assert(atomic_load(&gate.congested));
	ck_assert_int_eq(wb_gate_enter(&gate), WB_GATE_SKIPPED);
	ck_assert(!wb_gate_sub(&gate, 26)); /* 75 is not below OFF */
	ck_assert_int_eq(wb_gate_enter(&gate), WB_GATE_SKIPPED);
	ck_assert(wb_gate_sub(&gate, 1));
	ck_assert_int_eq(wb_gate_enter(&gate), WB_GATE_OPEN);
	wb_gate_add(&gate, 20); /* 94: congested no more until above ON again */
	ck_assert_int_eq(wb_gate_enter(&gate), WB_GATE_OPEN);
	ck_assert_uint_eq(atomic_load(&gate.times_congested), 1);
	ck_assert_uint_eq(atomic_load(&gate.passes_skipped), 2);
	wb_gate_fini(&gate);
}
END_TEST

START_TEST(without_a_gate_nothing_is_congested)
{
	struct wb_gate gate = { 0 };

	wb_gate_init(&gate);
	wb_gate_configure(&gate, WB_CONGESTION_NONE, 4);
	wb_gate_add(&gate, 1000000);
	ck_assert_int_eq(wb_gate_enter(&gate), WB_GATE_OPEN);
	ck_assert_uint_eq(atomic_load(&gate.times_congested), 0);
	wb_gate_fini(&gate);
}
END_TEST

START_TEST(a_threshold_beyond_counting_is_one_that_is_never_met)
{
	struct wb_gate gate = { 0 };

	wb_gate_init(&gate);
	wb_gate_configure(&gate, WB_CONGESTION_SKIP, 1ull << 54);
	wb_gate_add(&gate, 1ull << 32);
	ck_assert_int_eq(wb_gate_enter(&gate), WB_GATE_OPEN);
	ck_assert_uint_gt(atomic_load(&gate.on) * WB_PAGE_SIZE, 1ull << 44);
	wb_gate_fini(&gate);
}
END_TEST

struct completer {
	struct wb_gate gate;
	_Atomic unsigned go, done;
};

static void *complete_all(void *arg)
{
	struct completer *c = arg;

	for (unsigned i = 1; i <= 200000; i++) {
		while (atomic_load(&c->go) != i)
			sched_yield();
		wb_gate_sub(&c->gate, 200);
		atomic_store(&c->done, i);
	}
	return NULL;
}

START_TEST(thresholds_that_move_while_the_last_write_completes_leave_no_congestion)
{
	struct completer c = { 0 };
	pthread_t thread;

	wb_gate_init(&c.gate);
	pthread_create(&thread, NULL, complete_all, &c);
	for (unsigned i = 1; i <= 200000; i++) {
		wb_gate_configure(&c.gate, WB_CONGESTION_NONE, 400);
		wb_gate_add(&c.gate, 200);
		atomic_store(&c.go, i);
		wb_gate_configure(&c.gate, WB_CONGESTION_BLOCK, 400);
		while (atomic_load(&c.done) != i)
			sched_yield();
		ck_assert(!atomic_load(&c.gate.congested));
	}
	pthread_join(thread, NULL);
	wb_gate_fini(&c.gate);
}
END_TEST

START_TEST(default_threshold_is_the_kernels_formula)
{
	uint64_t kb = wb_gate_default_kb();
	double pages = (double)sysconf(_SC_PHYS_PAGES);

	ck_assert_uint_le(kb, 256 * 1024);
	if (kb < 256 * 1024) /* 16 * sqrt(pages) pages, in KiB */
		ck_assert(((double)kb / 64 + 1) * ((double)kb / 64 + 1) > pages &&
			  (double)kb / 64 * ((double)kb / 64) <= pages);
	else
		ck_assert(pages >= 4096.0 * 4096.0);
}
END_TEST

struct waiter {
	struct wb_gate gate;
	_Atomic bool through;
};

static void *enter(void *arg)
{
	struct waiter *waiter = arg;

	ck_assert_int_eq(wb_gate_enter(&waiter->gate), WB_GATE_OPEN);
	atomic_store(&waiter->through, true);
	return NULL;
}

/* Each way by which a wait at the gate ends; the first is none. */
static void ease(struct waiter *waiter, int way)
{
	switch (way) {
	case 0:
		wb_gate_sub(&waiter->gate, 26);
		break;
	case 1:
		wb_gate_configure(&waiter->gate, WB_CONGESTION_SKIP, 400);
		break;
	case 2:
		wb_gate_configure(&waiter->gate, WB_CONGESTION_NONE, 400);
		break;
	case 3:
		wb_gate_configure(&waiter->gate, WB_CONGESTION_BLOCK, 4000);
		break;
	default:
		wb_gate_shutdown(&waiter->gate);
	}
}

START_TEST(a_wait_in_block_ends_on_easing_switch_and_shutdown)
{
	struct waiter waiter = { 0 };
	pthread_t thread;

	wb_gate_init(&waiter.gate);
	wb_gate_configure(&waiter.gate, WB_CONGESTION_BLOCK, 400);
	wb_gate_add(&waiter.gate, 101);
	pthread_create(&thread, NULL, enter, &waiter);
	while (atomic_load(&waiter.gate.waits) == 0)
		usleep(1000);
	wb_gate_sub(&waiter.gate, 1); /* 100: eased it is not */
	usleep(20000);
	ck_assert(!atomic_load(&waiter.through));
	ease(&waiter, _i);
	pthread_join(thread, NULL);
	ck_assert(atomic_load(&waiter.through));
	ck_assert_uint_ge(atomic_load(&waiter.gate.wait_ns), 10 * NSEC_PER_MSEC);
	wb_gate_fini(&waiter.gate);
}
END_TEST

/* ---- the flusher behind it ---- */

/* 8 MiB dirty, ON 1 MiB, passes of 1 MiB, a device of 16 MB/s in batches, no timer. One poll starts the flusher. */
static void burst(struct wb_fixture *fx, enum wb_congestion mode, unsigned timer_cs)
{
	static char data[MIB];
	struct wb_config config = fixture_config(0);

	config.congestion = mode;
	config.congestion_kb = 1024;
	config.pass_bytes = MIB;
	config.completion = WB_COMPLETION_BATCH;
	config.device.rate = 16 * MIB;
	config.dirty_writeback_centisecs = timer_cs;
	config.dirty_expire_centisecs = 100000;
	config.dirty_bytes = 32 * MIB;
	config.dirty_background_bytes = MIB;
	fixture_begin(fx, &config);
	for (unsigned i = 0; i < 8; i++)
		ck_assert_int_eq(wb_file_write(fx->file, i * MIB, data, MIB), 0);
	wb_throttle(fx->cache, P);
}

static struct wb_stats stats_of(struct wb_fixture *fx)
{
	struct wb_stats stats;
	wb_cache_get_stats(fx->cache, &stats);
	return stats;
}

START_TEST(skip_lets_the_device_idle_until_somebody_polls)
{
	struct wb_fixture fx;

	burst(&fx, WB_CONGESTION_SKIP, 0);
	usleep(400000); /* two passes at 16 MB/s take 125 ms */
	struct wb_stats s = stats_of(&fx);
	ck_assert_uint_eq(s.flusher.passes, 2);
	ck_assert_uint_ge(s.gate.passes_skipped, 1);
	ck_assert_uint_eq(s.gate.outstanding, 0);
	ck_assert(!s.gate.congested);
	ck_assert_uint_eq(s.cache.dirty, 6 * MIB / P);
	ck_assert_uint_ge(s.device.idle_ns, 200 * NSEC_PER_MSEC);
	wb_throttle(fx.cache, P);
	while (stats_of(&fx).flusher.passes < 4)
		usleep(1000);
	ck_assert_uint_le(stats_of(&fx).flusher.wakeups_poll, 2);
	fixture_end(&fx);
}
END_TEST

START_TEST(block_goes_on_by_itself_until_background_is_reached)
{
	struct wb_fixture fx;

	burst(&fx, WB_CONGESTION_BLOCK, 0);
	usleep(900000); /* 7 MiB at 16 MB/s take 440 ms */
	struct wb_stats s = stats_of(&fx);
	ck_assert_uint_le(s.cache.dirty, MIB / P);
	ck_assert_uint_le(s.flusher.wakeups_poll, 1);
	ck_assert_uint_eq(s.gate.passes_skipped, 0);
	ck_assert_uint_ge(s.gate.waits, 1);
	fixture_end(&fx);
}
END_TEST

START_TEST(the_timer_restarts_a_flusher_that_skipped)
{
	struct wb_fixture fx;

	burst(&fx, WB_CONGESTION_SKIP, 30);
	usleep(1000000);
	struct wb_stats s = stats_of(&fx);
	ck_assert_uint_ge(s.flusher.wakeups_timer, 2);
	ck_assert_uint_ge(s.flusher.passes, 4);
	ck_assert_uint_le(s.flusher.wakeups_poll, 1);
	fixture_end(&fx);
}
END_TEST

START_TEST(a_sync_goes_around_the_gate)
{
	struct wb_fixture fx;

	burst(&fx, _i == 0 ? WB_CONGESTION_SKIP : WB_CONGESTION_BLOCK, 0);
	while (stats_of(&fx).gate.times_congested == 0)
		usleep(1000);
	ck_assert_int_eq(wb_file_flush(fx.file, 0, UINT64_MAX), 0);
	ck_assert_uint_eq(stats_of(&fx).cache.dirty, 0);
	fixture_end(&fx);
}
END_TEST

START_TEST(a_pass_overshoots_by_no_more_than_its_length)
{
	struct wb_fixture fx;

	burst(&fx, WB_CONGESTION_BLOCK, 0);
	uint64_t most = 0;
	for (int i = 0; i < 300; i++) {
		uint64_t now = stats_of(&fx).gate.outstanding;
		most = now > most ? now : most;
		usleep(1000);
	}
	ck_assert_uint_gt(most, 256);
	ck_assert_uint_le(most, 512);
	fixture_end(&fx);
}
END_TEST

START_TEST(a_cache_is_freed_while_the_flusher_waits_at_the_gate)
{
	struct wb_fixture fx;

	burst(&fx, WB_CONGESTION_BLOCK, 0);
	while (stats_of(&fx).gate.waits == 0)
		usleep(1000);
	fixture_end(&fx); /* a deadlock would run into the test's time limit */
}
END_TEST

static Suite *make_suite(void)
{
	Suite *suite = suite_create("writeback");
	TCase *gate = tcase_create("wb_gate");
	TCase *flusher = tcase_create("wb_flusher");

	tcase_set_timeout(gate, 30);
	tcase_add_test(gate, congestion_has_a_quarter_of_hysteresis);
	tcase_add_test(gate, without_a_gate_nothing_is_congested);
	tcase_add_test(gate, default_threshold_is_the_kernels_formula);
	tcase_add_test(gate, a_threshold_beyond_counting_is_one_that_is_never_met);
	tcase_add_test(gate, thresholds_that_move_while_the_last_write_completes_leave_no_congestion);
	tcase_add_loop_test(gate, a_wait_in_block_ends_on_easing_switch_and_shutdown, 0, 5);
	suite_add_tcase(suite, gate);
	tcase_set_timeout(flusher, 30);
	tcase_add_test(flusher, skip_lets_the_device_idle_until_somebody_polls);
	tcase_add_test(flusher, block_goes_on_by_itself_until_background_is_reached);
	tcase_add_test(flusher, the_timer_restarts_a_flusher_that_skipped);
	tcase_add_loop_test(flusher, a_sync_goes_around_the_gate, 0, 2);
	tcase_add_test(flusher, a_pass_overshoots_by_no_more_than_its_length);
	tcase_add_test(flusher, a_cache_is_freed_while_the_flusher_waits_at_the_gate);
	suite_add_tcase(suite, flusher);
	return suite;
}

WB_TEST_MAIN(make_suite)
