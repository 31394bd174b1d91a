/* SPDX-License-Identifier: MIT */
/* Locks know their holder, guards end with their scope, and waits use the clock that never jumps. */
#include "base/lock.h"

#include <check.h>
#include <signal.h>
#include <stdlib.h>

struct shared {
	struct lock lock;
	struct cond cond;
	bool ready;
	int count;
};

static void shared_init(struct shared *shared)
{
	*shared = (struct shared){ 0 };
	lock_init(&shared->lock);
	cond_init(&shared->cond);
}

static void shared_fini(struct shared *shared)
{
	cond_fini(&shared->cond);
	lock_fini(&shared->lock);
}

START_TEST(a_guard_holds_the_lock_until_its_scope_ends)
{
	struct shared shared;
	shared_init(&shared);
	{
		LOCK_SCOPE(&shared.lock);
		ck_assert(lock_is_held(&shared.lock));
	}
	ck_assert(!lock_is_held(&shared.lock));
	ck_assert(lock_try(&shared.lock));
	lock_release(&shared.lock);
	shared_fini(&shared);
}
END_TEST

static void *other_thread_looks(void *arg)
{
	struct shared *shared = arg;
	/* Held, but not by us; and it cannot be had. */
	bool wrong = lock_is_held(&shared->lock) || lock_try(&shared->lock);
	return wrong ? shared : NULL;
}

START_TEST(only_the_holder_is_told_that_it_holds_the_lock)
{
	struct shared shared;
	pthread_t thread;
	void *wrong;
	shared_init(&shared);
	lock_take(&shared.lock);
	ck_assert_int_eq(pthread_create(&thread, NULL, other_thread_looks, &shared), 0);
	pthread_join(thread, &wrong);
	ck_assert_ptr_null(wrong);
	lock_release(&shared.lock);
	shared_fini(&shared);
}
END_TEST

START_TEST(releasing_a_lock_one_does_not_hold_aborts)
{
	struct shared shared;
	shared_init(&shared);
	lock_release(&shared.lock);
}
END_TEST

static void *add_under_lock(void *arg)
{
	struct shared *shared = arg;
	for (int i = 0; i < 20000; i++) {
		LOCK_SCOPE(&shared->lock);
		shared->count++;
	}
	return NULL;
}

START_TEST(the_lock_excludes)
{
	struct shared shared;
	pthread_t threads[4];
	shared_init(&shared);
	for (int i = 0; i < 4; i++)
		ck_assert_int_eq(pthread_create(&threads[i], NULL, add_under_lock, &shared), 0);
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	ck_assert_int_eq(shared.count, 80000);
	shared_fini(&shared);
}
END_TEST

static void *make_ready(void *arg)
{
	struct shared *shared = arg;
	LOCK_SCOPE(&shared->lock);
	shared->ready = true;
	cond_wake_all(&shared->cond);
	return NULL;
}

START_TEST(a_waiter_gives_the_lock_up_and_has_it_again_when_woken)
{
	struct shared shared;
	pthread_t thread;
	shared_init(&shared);
	lock_take(&shared.lock);
	ck_assert_int_eq(pthread_create(&thread, NULL, make_ready, &shared), 0);
	while (!shared.ready)
		cond_wait(&shared.cond, &shared.lock);
	ck_assert(lock_is_held(&shared.lock));
	lock_release(&shared.lock);
	pthread_join(thread, NULL);
	shared_fini(&shared);
}
END_TEST

START_TEST(a_wait_with_a_deadline_ends_at_it_and_not_before)
{
	struct shared shared;
	shared_init(&shared);
	uint64_t deadline_ns = clock_now_ns() + 30 * NSEC_PER_MSEC;
	lock_take(&shared.lock);
	while (cond_wait_until(&shared.cond, &shared.lock, deadline_ns))
		; /* woken for no reason */
	ck_assert(lock_is_held(&shared.lock));
	ck_assert_uint_ge(clock_now_ns(), deadline_ns);
	lock_release(&shared.lock);
	shared_fini(&shared);
}
END_TEST

START_TEST(nanoseconds_and_timespecs_convert_both_ways)
{
	struct timespec ts = timespec_of_ns(3 * NSEC_PER_SEC + 999999999);
	ck_assert_int_eq(ts.tv_sec, 3);
	ck_assert_int_eq(ts.tv_nsec, 999999999);
	ck_assert_uint_eq(timespec_ns(&ts), 3999999999ull);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("base");
	TCase *lock = tcase_create("lock");
	tcase_add_test(lock, a_guard_holds_the_lock_until_its_scope_ends);
	tcase_add_test(lock, only_the_holder_is_told_that_it_holds_the_lock);
	tcase_add_test_raise_signal(lock, releasing_a_lock_one_does_not_hold_aborts, SIGABRT);
	tcase_add_test(lock, the_lock_excludes);
	suite_add_tcase(suite, lock);
	TCase *cond = tcase_create("cond");
	tcase_add_test(cond, a_waiter_gives_the_lock_up_and_has_it_again_when_woken);
	tcase_add_test(cond, a_wait_with_a_deadline_ends_at_it_and_not_before);
	suite_add_tcase(suite, cond);
	TCase *clock = tcase_create("clock");
	tcase_add_test(clock, nanoseconds_and_timespecs_convert_both_ways);
	suite_add_tcase(suite, clock);

	SRunner *runner = srunner_create(suite);
	srunner_set_tap(runner, "-");
	srunner_run_all(runner, CK_SILENT);
	int failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
