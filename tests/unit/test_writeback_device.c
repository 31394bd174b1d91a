/* SPDX-License-Identifier: MIT */
/* When the device says that writes are done, and what it counts; every test on both engines. */
#include "tests/unit/writeback_device.h"

#include <pthread.h>

/* ---- the model ---- */

START_TEST(busy_time_is_bytes_over_rate)
{
	static const uint64_t rates[] = {20000000, 64u << 20, 333333333};
	uint64_t total = 0;
	if (!begin(_i))
		return;
	for (unsigned r = 0; r < 3; r++) {
		unsigned nr = (unsigned)(rates[r] / 5 / PAGE); /* 200 ms */
		set_model(rates[r], 0, 0, 0, WB_COMPLETION_STREAM);
		wb_device_reset_stats(device);
		uint64_t begin_ns = clock_now_ns();
		struct write *write = submit_pages(0, nr);
		wait_done(total += nr);
		uint64_t took_ns = clock_now_ns() - begin_ns;
		double exact = (double)nr * PAGE * 1e9 / (double)rates[r];
		ck_assert_double_eq_tol((double)stats().busy_ns, exact, exact / 100);
		ck_assert_uint_eq(stats().bytes, (uint64_t)nr * PAGE);
		ck_assert_double_ge((double)took_ns, exact - 1000);
		/* The virtual clock knows of no late wake-up. */
		ck_assert_uint_eq(write[nr - 1].io.due_ns - write[0].io.arrive_ns, (uint64_t)exact);
		free(write);
	}
}
END_TEST

START_TEST(a_write_is_done_when_due_and_not_before_and_in_order)
{
	unsigned nr = 300;
	if (!begin(_i))
		return;
	set_model(20000000, 5 * MS, MS / 10, 8, WB_COMPLETION_STREAM);
	struct write *write = submit_pages(0, nr);
	wait_done(nr);
	for (unsigned i = 0; i < nr; i++) {
		ck_assert_uint_ge(write[i].done_ns, write[i].io.due_ns);
		ck_assert(i == 0 || write[i].io.due_ns >= write[i - 1].io.due_ns);
		ck_assert(i == 0 || write[i].done_ns >= write[i - 1].done_ns);
	}
	/* Wake-ups are by the clock: the middle one of 300 was not late by a tick of some poll. */
	unsigned punctual = 0;
	for (unsigned i = 0; i < nr; i++)
		punctual += write[i].done_ns - write[i].io.due_ns < 10 * MS;
	ck_assert_uint_gt(punctual, nr / 2);
	free(write);
}
END_TEST

START_TEST(latency_overlaps_up_to_the_depth)
{
	if (!begin(_i))
		return;
	set_model(0, 40 * MS, 0, 4, WB_COMPLETION_STREAM);
	struct write *write = submit_pages(0, 16);
	wait_done(16);
	for (unsigned i = 0; i < 16; i++)
		ck_assert_uint_eq(write[i].io.due_ns - write[0].io.arrive_ns,
				  40 * MS * (1 + i / 4));
	ck_assert_uint_ge(write[15].done_ns - write[0].io.arrive_ns, 160 * MS);
	/* No turns to add up: busy while something is in flight. */
	ck_assert_uint_ge(stats().busy_ns, 160 * MS);
	ck_assert_uint_le(stats().busy_ns, clock_now_ns() - write[0].io.arrive_ns);
	free(write);
}
END_TEST

START_TEST(every_seek_takes_its_time_and_a_sequence_takes_one)
{
	if (!begin(_i))
		return;
	set_model(0, 0, 2 * MS, 0, WB_COMPLETION_STREAM);
	struct write *write = submit_pages(0, 50);
	wait_done(50);
	ck_assert_uint_eq(stats().busy_ns, 2 * MS);
	free(write);
	write = calloc(20, sizeof(*write));
	for (unsigned i = 0; i < 20; i++)
		write_init(&write[i], fd, (uint64_t)(40 - 2 * i) * PAGE, PAGE);
	submit(write, 20);
	wait_done(70);
	ck_assert_uint_eq(stats().busy_ns, 2 * MS * 21);
	free(write);
}
END_TEST

START_TEST(without_a_model_busy_is_the_time_with_writes_in_flight)
{
	if (!begin(_i))
		return;
	uint64_t begin_ns = clock_now_ns();
	struct write *write = submit_pages(0, 200);
	wait_done(200);
	uint64_t busy_ns = stats().busy_ns;
	ck_assert_uint_gt(busy_ns, 0);
	ck_assert_uint_le(busy_ns, clock_now_ns() - begin_ns);
	usleep(20000);
	ck_assert_uint_eq(stats().busy_ns, busy_ns);
	free(write);
}
END_TEST

/* ---- batches ---- */

START_TEST(a_batch_is_done_together_and_the_next_is_what_was_queued_meanwhile)
{
	if (!begin(_i))
		return;
	/* 25 ms a page. */
	set_model(PAGE * 40, 0, 0, 0, WB_COMPLETION_BATCH);
	struct write *a = submit_pages(0, 10);
	usleep(10000);
	struct write *b = submit_pages(0, 4);
	usleep(10000);
	struct write *c = submit_pages(0, 2);
	ck_assert_uint_eq(stats().inflight, 16);
	wait_done(1);
	uint64_t end_ns = a[0].io.arrive_ns + 250 * MS;
	ck_assert_uint_eq(a[9].io.due_ns, end_ns);
	ck_assert_uint_ge(a[0].done_ns, end_ns);
	usleep(10000);
	struct write *d = submit_pages(0, 1); /* while b and c are served */
	wait_done(17);
	for (unsigned i = 0; i < 10; i++)
		ck_assert_uint_eq(a[i].order, i);
	/* From the very end of the first on, not from its late wake-up. */
	ck_assert_uint_eq(b[0].io.due_ns, end_ns + 25 * MS);
	ck_assert_uint_eq(c[1].io.due_ns, end_ns + 150 * MS);
	for (unsigned i = 0; i < 4; i++)
		ck_assert_uint_ge(b[i].done_ns, c[1].io.due_ns);
	ck_assert_uint_eq(c[1].order, 15);
	ck_assert_uint_eq(d[0].order, 16);
	if (d[0].io.arrive_ns < end_ns + 150 * MS)
		ck_assert_uint_eq(d[0].io.due_ns, end_ns + 175 * MS);
	ck_assert_uint_eq(stats().busy_ns, 425 * MS);
	free(a);
	free(b);
	free(c);
	free(d);
}
END_TEST

START_TEST(a_batch_for_an_idle_device_starts_when_it_is_submitted)
{
	if (!begin(_i))
		return;
	set_model(0, 30 * MS, 0, 0, WB_COMPLETION_BATCH);
	for (unsigned round = 0; round < 3; round++) {
		struct write *write = submit_pages(0, 5);
		wait_done((round + 1) * 5);
		for (unsigned i = 0; i < 5; i++) {
			ck_assert_uint_eq(write[i].io.due_ns, write[i].io.arrive_ns + 30 * MS);
			ck_assert_uint_ge(write[i].done_ns, write[i].io.due_ns);
		}
		free(write);
		usleep(5000);
	}
}
END_TEST

static _Atomic bool blocked;

/* Keeps the device's thread, as a machine that is too busy would. */
static void block_done(struct wb_io *io)
{
	write_done(io);
	while (blocked)
		usleep(1000);
}

START_TEST(a_late_thread_finds_the_batches_that_a_punctual_one_would_have_found)
{
	struct write a;
	if (!begin(_i))
		return;
	set_model(0, 100 * MS, 0, 0, WB_COMPLETION_BATCH);
	blocked = true;
	write_init(&a, fd, 0, PAGE);
	a.io.done = block_done;
	submit(&a, 1);
	struct write *b = submit_pages(0, 1);
	wait_done(1);
	/* b is served for 100 ms from the end of a on; nobody will look when it ends. */
	struct write *c = submit_pages(0, 1);
	usleep(120000);
	struct write *d = submit_pages(0, 1);
	blocked = false;
	wait_done(4);
	ck_assert_uint_eq(b[0].io.due_ns, a.io.due_ns + 100 * MS);
	ck_assert_uint_eq(c[0].io.due_ns, b[0].io.due_ns + 100 * MS);
	/* d came after the end of b: it is not of c's batch. */
	ck_assert_uint_gt(d[0].io.arrive_ns, b[0].io.due_ns);
	ck_assert_uint_eq(d[0].io.due_ns, c[0].io.due_ns + 100 * MS);
	free(b);
	free(c);
	free(d);
}
END_TEST

START_TEST(batches_without_a_model_are_done_when_all_of_them_are_answered)
{
	struct write *write[50];
	if (!begin(_i))
		return;
	set_model(0, 0, 0, 0, WB_COMPLETION_BATCH);
	for (unsigned i = 0; i < 50; i++)
		write[i] = submit_pages((uint64_t)i * 40 * PAGE, 40);
	wait_done(50 * 40);
	/* All of one submission are of one batch, and batches keep their order. */
	for (unsigned i = 0; i < 50; i++)
		for (unsigned j = 0; j < 40; j++)
			ck_assert_uint_eq(write[i][j].order, i * 40 + j);
	for (unsigned i = 0; i < 50; i++)
		free(write[i]);
}
END_TEST

START_TEST(breaking_a_batch_up_lets_every_write_go_at_its_own_time)
{
	if (!begin(_i))
		return;
	set_model(PAGE * 25, 0, 0, 0, WB_COMPLETION_BATCH);
	struct write *a = submit_pages(0, 10); /* 40 ms each */
	struct write *b = submit_pages(0, 1);
	usleep(50000);
	ck_assert_uint_eq(stats().inflight, 11);
	set_model(PAGE * 25, 0, 0, 0, WB_COMPLETION_STREAM);
	wait_done(11);
	for (unsigned i = 0; i < 10; i++)
		ck_assert_uint_eq(a[i].io.due_ns, a[0].io.arrive_ns + (i + 1) * 40 * MS);
	ck_assert_uint_lt(a[0].done_ns, a[9].io.due_ns);
	/* What had not started comes after them. */
	ck_assert_uint_eq(b[0].io.due_ns, a[9].io.due_ns + 40 * MS);
	free(a);
	free(b);
}
END_TEST

/* ---- idle ---- */

START_TEST(idle_time_needs_pages_that_wait_and_a_device_with_nothing_to_do)
{
	if (!begin(_i))
		return;
	usleep(20000);
	ck_assert_uint_eq(stats().idle_ns, 0);

	uint64_t outer_ns = clock_now_ns();
	wb_device_set_waiting(device, true);
	uint64_t inner_ns = clock_now_ns();
	usleep(30000);
	uint64_t open_ns = stats().idle_ns; /* the interval is still open */
	ck_assert_uint_ge(open_ns, 30 * MS);
	usleep(10000);
	inner_ns = clock_now_ns() - inner_ns;
	wb_device_set_waiting(device, false);
	outer_ns = clock_now_ns() - outer_ns;
	uint64_t idle_ns = stats().idle_ns;
	ck_assert_uint_ge(idle_ns, inner_ns);
	ck_assert_uint_le(idle_ns, outer_ns);
	usleep(20000);
	ck_assert_uint_eq(stats().idle_ns, idle_ns);

	/* Held writes are in flight. */
	set_model(0, 60 * MS, 0, 0, WB_COMPLETION_STREAM);
	uint64_t begin_ns = clock_now_ns();
	wb_device_set_waiting(device, true);
	struct write *write = submit_pages(0, 1);
	wait_done(1);
	wb_device_set_waiting(device, false);
	ck_assert_uint_le(stats().idle_ns - idle_ns, clock_now_ns() - begin_ns - 60 * MS);
	wb_device_reset_stats(device);
	ck_assert_uint_eq(stats().idle_ns, 0);
	free(write);
}
END_TEST

START_TEST(a_device_that_hardly_moves_can_be_replaced)
{
	if (!begin(_i % 2))
		return;
	enum wb_completion completion = _i < 2 ? WB_COMPLETION_STREAM : WB_COMPLETION_BATCH;
	set_model(1, 0, 0, 0, completion); /* a page takes more than an hour */
	struct write *first = submit_pages(0, 4), *second = submit_pages(4 * PAGE, 4);
	usleep(50000);
	ck_assert_uint_eq(stats().writes, 0);
	uint64_t start_ns = clock_now_ns();
	set_model(64 << 20, 0, 0, 0, completion);
	wait_done(8);
	ck_assert_uint_lt(clock_now_ns() - start_ns, 5 * NSEC_PER_SEC);
	/* What was not served to its end did not keep the old device busy. */
	ck_assert_uint_lt(stats().busy_ns, NSEC_PER_SEC);
	free(first);
	free(second);
}
END_TEST

START_TEST(counters_reset_while_writes_are_in_flight_count_what_is_done_later)
{
	if (!begin(_i))
		return;
	set_model(PAGE * 1000, 0, 0, 0, WB_COMPLETION_STREAM);
	struct write *write = submit_pages(0, 40);
	wait_done(10);
	wb_device_reset_stats(device);
	ck_assert_uint_le(stats().writes, 30);
	ck_assert_uint_gt(stats().inflight, 0);
	wait_done(40);
	ck_assert_uint_le(stats().writes, 30);
	ck_assert_uint_eq(stats().busy_ns, stats().writes * MS);
	ck_assert_uint_eq(stats().inflight, 0);
	free(write);
}
END_TEST

/* ---- everything at once ---- */

#define NR_THREADS 4
#define BATCHES 150

struct submitter {
	pthread_t thread;
	unsigned seed;
	uint64_t nr;
	struct write *write;
};

static void *submitter_main(void *arg)
{
	struct submitter *me = arg;
	for (unsigned b = 0; b < BATCHES; b++) {
		unsigned nr = 1 + (unsigned)rand_r(&me->seed) % 64;
		for (unsigned i = 0; i < nr; i++)
			write_init(&me->write[me->nr + i], fd,
				   (uint64_t)rand_r(&me->seed) % 1024 * PAGE, PAGE);
		submit(&me->write[me->nr], nr);
		me->nr += nr;
		usleep((useconds_t)rand_r(&me->seed) % 10000);
	}
	return NULL;
}

static void switch_at_random(void)
{
	static const struct wb_device_model models[] = {
		{0},
		{.rate = 200u << 20},
		{.rate = 50u << 20, .latency_ns = 3 * MS, .depth = 64},
		{.latency_ns = 20 * MS},
		{.latency_ns = MS / 10, .depth = 2},
		{.rate = 400u << 20, .seek_ns = MS / 50, .depth = 500},
	};
	wb_device_set_model(device, &models[rand() % 6],
			    rand() % 2 ? WB_COMPLETION_BATCH : WB_COMPLETION_STREAM);
	wb_device_set_waiting(device, rand() % 2);
	if (rand() % 10 == 0)
		wb_device_reset_stats(device);
}

START_TEST(no_write_is_lost_while_model_and_completion_change)
{
	struct submitter submitter[NR_THREADS];
	uint64_t nr = 0, end_ns = clock_now_ns() + 900 * MS;
	if (!begin(_i))
		return;
	for (unsigned i = 0; i < NR_THREADS; i++) {
		submitter[i] = (struct submitter){.seed = i};
		submitter[i].write = calloc(BATCHES * 64, sizeof(struct write));
		pthread_create(&submitter[i].thread, NULL, submitter_main, &submitter[i]);
	}
	while (clock_now_ns() < end_ns) {
		switch_at_random();
		usleep(3000);
	}
	for (unsigned i = 0; i < NR_THREADS; i++) {
		pthread_join(submitter[i].thread, NULL);
		nr += submitter[i].nr;
	}
	wait_done(nr);
	for (unsigned i = 0; i < NR_THREADS; i++) {
		for (uint64_t w = 0; w < submitter[i].nr; w++) {
			ck_assert_int_eq(submitter[i].write[w].io.res, 0);
			ck_assert_uint_ge(submitter[i].write[w].done_ns,
					  submitter[i].write[w].io.due_ns);
		}
		free(submitter[i].write);
	}
	ck_assert_uint_eq(nr_done, nr);
}
END_TEST

static void add_time_cases(Suite *s)
{
	TCase *tc = new_tcase(s, "wb_device_set_model");
	add_both(tc, busy_time_is_bytes_over_rate);
	add_both(tc, a_write_is_done_when_due_and_not_before_and_in_order);
	add_both(tc, latency_overlaps_up_to_the_depth);
	add_both(tc, every_seek_takes_its_time_and_a_sequence_takes_one);
	add_both(tc, without_a_model_busy_is_the_time_with_writes_in_flight);
	add_both(tc, a_batch_is_done_together_and_the_next_is_what_was_queued_meanwhile);
	add_both(tc, a_batch_for_an_idle_device_starts_when_it_is_submitted);
	add_both(tc, a_late_thread_finds_the_batches_that_a_punctual_one_would_have_found);
	add_both(tc, batches_without_a_model_are_done_when_all_of_them_are_answered);
	add_both(tc, breaking_a_batch_up_lets_every_write_go_at_its_own_time);
	add_both(tc, no_write_is_lost_while_model_and_completion_change);
	tc = new_tcase(s, "wb_device_set_waiting");
	add_both(tc, idle_time_needs_pages_that_wait_and_a_device_with_nothing_to_do);
	tc = new_tcase(s, "wb_device_reset_stats");
	add_both(tc, counters_reset_while_writes_are_in_flight_count_what_is_done_later);
	tcase_add_loop_test(tc, a_device_that_hardly_moves_can_be_replaced, 0, 4);
}

int main(void)
{
	Suite *s = suite_create("writeback");
	add_time_cases(s);
	SRunner *runner = srunner_create(s);
	srunner_set_tap(runner, "-");
	srunner_run_all(runner, CK_SILENT);
	int failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed != 0;
}
