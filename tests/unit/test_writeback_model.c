/* SPDX-License-Identifier: MIT */
/* The device's virtual clock, and the heap that orders what is due, without any input or output. */
#include "writeback/model.h"

#include <check.h>
#include <stdlib.h>

#include "base/clock.h"
#include "writeback/held.h"

#define MIB ((uint64_t)1 << 20)
#define START NSEC_PER_SEC

static struct wb_model model;

static void setup(void)
{
	ck_assert_int_eq(wb_model_init(&model), 0);
}

static void teardown(void)
{
	wb_model_fini(&model);
}

static void set(uint64_t rate, uint64_t latency_ns, uint64_t seek_ns, uint32_t depth)
{
	struct wb_device_model param = {
		.rate = rate, .latency_ns = latency_ns, .seek_ns = seek_ns, .depth = depth};
	wb_model_set(&model, &param);
}

static uint64_t cost_ns;

/* A write of file 3. */
static uint64_t due(uint64_t start_ns, uint64_t off, size_t len)
{
	uint64_t due_ns;
	wb_model_schedule(&model, start_ns, 3, off, len, &due_ns, &cost_ns);
	return due_ns;
}

START_TEST(without_a_model_a_write_is_due_when_it_arrives)
{
	ck_assert(wb_model_is_none(&model));
	ck_assert_uint_eq(due(START, 0, 4096), START);
	ck_assert_uint_eq(cost_ns, 0);
	ck_assert_uint_eq(due(5, 0, 4096), 5);
}
END_TEST

START_TEST(transfers_take_turns)
{
	set(1000, 0, 0, 0);
	ck_assert(!wb_model_is_none(&model) && wb_model_is_serial(&model));
	ck_assert_uint_eq(due(START, 0, 1), START + NSEC_PER_MSEC);
	ck_assert_uint_eq(due(START, 1, 2), START + 3 * NSEC_PER_MSEC);
	ck_assert_uint_eq(cost_ns, 2 * NSEC_PER_MSEC);
	/* After a pause the bus is free. */
	ck_assert_uint_eq(due(2 * START, 3, 1), 2 * START + NSEC_PER_MSEC);
}
END_TEST

START_TEST(busy_time_is_bytes_over_rate_to_the_nanosecond)
{
	static const uint64_t rates[] = {7, 333333333, 64 * MIB, 999999999999};
	for (unsigned r = 0; r < 4; r++) {
		set(rates[r], 0, 0, 0);
		uint64_t bytes = 0, busy_ns = 0, last = 0;
		for (unsigned i = 0; i < 10000; i++) {
			size_t len = 1 + (size_t)rand() % 40000;
			last = due(START, bytes, len);
			bytes += len;
			busy_ns += cost_ns;
		}
		uint64_t exact = (uint64_t)((unsigned __int128)bytes * NSEC_PER_SEC / rates[r]);
		ck_assert_uint_eq(busy_ns, exact);
		ck_assert_uint_eq(last, START + exact);
	}
}
END_TEST

START_TEST(latency_overlaps_and_is_added_after_the_transfer)
{
	set(1000, 50 * NSEC_PER_MSEC, 0, 0);
	ck_assert_uint_eq(due(START, 0, 1), START + 51 * NSEC_PER_MSEC);
	ck_assert_uint_eq(due(START, 1, 1), START + 52 * NSEC_PER_MSEC);
	ck_assert_uint_eq(cost_ns, NSEC_PER_MSEC);
	set(0, 50, 0, 0);
	ck_assert(!wb_model_is_none(&model) && !wb_model_is_serial(&model));
	for (unsigned i = 0; i < 100; i++)
		ck_assert_uint_eq(due(START, 0, 4096), START + 50);
}
END_TEST

START_TEST(a_write_waits_until_the_one_depth_before_it_is_done)
{
	set(0, 10, 0, 4);
	for (unsigned i = 0; i < 4000; i++)
		ck_assert_uint_eq(due(START, 0, 4096), START + 10 * (1 + i / 4));
	set(0, 10, 0, 1);
	ck_assert_uint_eq(due(START, 0, 1), START + 10);
	ck_assert_uint_eq(due(START + 5, 0, 1), START + 20);
	ck_assert_uint_eq(due(START + 50, 0, 1), START + 60);
}
END_TEST

START_TEST(depth_is_limited_to_the_deepest_modelled)
{
	set(0, 10, 0, UINT32_MAX);
	ck_assert_uint_eq(model.param.depth, WB_MODEL_MAX_DEPTH);
	for (unsigned i = 0; i < WB_MODEL_MAX_DEPTH; i++)
		ck_assert_uint_eq(due(START, 0, 1), START + 10);
	ck_assert_uint_eq(due(START, 0, 1), START + 20);
}
END_TEST

START_TEST(only_a_write_that_does_not_follow_seeks)
{
	uint64_t due_ns;
	set(0, 0, 8, 0);
	ck_assert(wb_model_is_serial(&model));
	ck_assert_uint_eq(due(START, 4096, 4096), START + 8);
	ck_assert_uint_eq(due(START, 8192, 4096), START + 8);
	ck_assert_uint_eq(cost_ns, 0);
	ck_assert_uint_eq(due(START, 4096, 4096), START + 16);
	wb_model_schedule(&model, START, 4, 8192, 1, &due_ns, &cost_ns);
	ck_assert_uint_eq(due_ns, START + 24);
	ck_assert_uint_eq(cost_ns, 8);
}
END_TEST

START_TEST(due_times_never_go_back_under_one_model)
{
	for (unsigned round = 0; round < 50; round++) {
		set((uint64_t)rand() % 1000000, (uint64_t)rand() % 1000, (uint64_t)rand() % 1000,
		    (uint32_t)rand() % 8);
		uint64_t now_ns = START, last = 0;
		for (unsigned i = 0; i < 1000; i++) {
			now_ns += (uint64_t)rand() % 3000;
			uint64_t t = due(now_ns, (uint64_t)rand() % 4 * 512, 512);
			ck_assert_uint_ge(t, last);
			ck_assert_uint_ge(t, now_ns);
			last = t;
		}
	}
}
END_TEST

START_TEST(another_model_starts_with_a_free_bus_and_free_slots)
{
	set(1, 0, 0, 1);
	ck_assert_uint_eq(due(START, 0, 1000), START + 1000 * NSEC_PER_SEC);
	set(1000, 0, 0, 1);
	ck_assert_uint_eq(due(START, 0, 1), START + NSEC_PER_MSEC);
}
END_TEST

START_TEST(times_beyond_all_measure_do_not_wrap)
{
	set(1, UINT64_MAX, UINT64_MAX, 2);
	for (unsigned i = 0; i < 10; i++)
		ck_assert_uint_eq(due(START, 0, SIZE_MAX), WB_MODEL_NEVER);
	set(1, 0, 0, 0);
	uint64_t last = 0;
	for (unsigned i = 0; i < 100; i++) {
		uint64_t t = due(START, 0, 1u << 30);
		ck_assert_uint_ge(t, last);
		last = t;
	}
	ck_assert_uint_eq(last, WB_MODEL_NEVER);
}
END_TEST

/* ---- held ---- */

#define NR_HELD 5000

START_TEST(held_writes_come_out_by_due_time_whatever_the_order_in)
{
	struct wb_io *io = calloc(NR_HELD, sizeof(*io));
	for (unsigned order = 0; order < 3; order++) {
		struct wb_held held = {NULL};
		uint64_t last = 0;
		ck_assert_ptr_null(wb_held_find_first(&held));
		for (unsigned i = 0; i < NR_HELD; i++) {
			io[i].due_ns = order == 0   ? i
				       : order == 1 ? NR_HELD - i
						    : (unsigned)rand() % 999;
			wb_held_add(&held, &io[i]);
		}
		for (unsigned i = 0; i < NR_HELD; i++) {
			struct wb_io *first = wb_held_find_first(&held);
			ck_assert_ptr_eq(wb_held_pop(&held), first);
			ck_assert(!list_is_linked(&first->link));
			ck_assert_uint_ge(first->due_ns, last);
			last = first->due_ns;
		}
		ck_assert_ptr_null(wb_held_find_first(&held));
	}
	free(io);
}
END_TEST

START_TEST(held_writes_stay_ordered_while_others_come_and_go)
{
	struct wb_io *io = calloc(NR_HELD, sizeof(*io));
	struct wb_held held = {NULL};
	uint64_t last = 0;
	unsigned in = 0, out = 0;
	while (out < NR_HELD) {
		if (in < NR_HELD && (in == out || rand() % 3)) {
			/* Never before what has been taken out. */
			io[in].due_ns = last + (unsigned)rand() % 1000;
			wb_held_add(&held, &io[in++]);
			continue;
		}
		struct wb_io *first = wb_held_pop(&held);
		ck_assert_uint_ge(first->due_ns, last);
		last = first->due_ns;
		out++;
	}
	ck_assert_ptr_null(held.root);
	free(io);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("writeback");
	TCase *tc = tcase_create("wb_model");
	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_add_test(tc, without_a_model_a_write_is_due_when_it_arrives);
	tcase_add_test(tc, transfers_take_turns);
	tcase_add_test(tc, busy_time_is_bytes_over_rate_to_the_nanosecond);
	tcase_add_test(tc, latency_overlaps_and_is_added_after_the_transfer);
	tcase_add_test(tc, a_write_waits_until_the_one_depth_before_it_is_done);
	tcase_add_test(tc, depth_is_limited_to_the_deepest_modelled);
	tcase_add_test(tc, only_a_write_that_does_not_follow_seeks);
	tcase_add_test(tc, due_times_never_go_back_under_one_model);
	tcase_add_test(tc, another_model_starts_with_a_free_bus_and_free_slots);
	tcase_add_test(tc, times_beyond_all_measure_do_not_wrap);
	suite_add_tcase(s, tc);
	tc = tcase_create("wb_held");
	tcase_add_test(tc, held_writes_come_out_by_due_time_whatever_the_order_in);
	tcase_add_test(tc, held_writes_stay_ordered_while_others_come_and_go);
	suite_add_tcase(s, tc);
	return s;
}

int main(void)
{
	SRunner *runner = srunner_create(suite());
	srunner_set_tap(runner, "-");
	srunner_run_all(runner, CK_SILENT);
	int failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed != 0;
}
