/* SPDX-License-Identifier: MIT */
/* The histogram against a sorted array: within 1/16, whatever the values and whoever adds them. */
#include "base/hist.h"

#include <check.h>
#include <pthread.h>
#include <stdlib.h>

#include "base/cleanup.h"

#define NR_VALUES 5000
#define NR_THREADS 4

static struct hist *hist_new(void)
{
	struct hist *hist = calloc(1, sizeof(*hist));
	ck_assert_ptr_nonnull(hist);
	return hist;
}

static int compare_u64(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
	return x < y ? -1 : x > y;
}

/* Any magnitude is as likely as any other, which durations come near. */
static uint64_t random_magnitude(uint64_t *state)
{
	*state = *state * 6364136223846793005ull + 1442695040888963407ull;
	return *state >> (*state >> 58);
}

START_TEST(an_empty_histogram_has_quantile_zero)
{
	_cleanup_free_ struct hist *hist = hist_new();
	ck_assert_uint_eq(hist_quantile(hist, 500), 0);
	ck_assert_uint_eq(hist_quantile(hist, 1000), 0);
}
END_TEST

START_TEST(small_values_are_exact)
{
	_cleanup_free_ struct hist *hist = hist_new();
	for (uint64_t value = 0; value < 16; value++)
		hist_add(hist, value);
	ck_assert_uint_eq(hist_quantile(hist, 500), 7);
	ck_assert_uint_eq(hist_quantile(hist, 1000), 15);
}
END_TEST

START_TEST(a_quantile_is_never_below_the_truth_and_at_most_a_sixteenth_above)
{
	static const unsigned permilles[] = { 1, 100, 500, 900, 990, 999, 1000 };
	static uint64_t values[NR_VALUES];
	_cleanup_free_ struct hist *hist = hist_new();
	uint64_t state = 42;

	for (size_t i = 0; i < NR_VALUES; i++) {
		values[i] = random_magnitude(&state);
		hist_add(hist, values[i]);
	}
	qsort(values, NR_VALUES, sizeof(values[0]), compare_u64);
	for (size_t i = 0; i < sizeof(permilles) / sizeof(permilles[0]); i++) {
		uint64_t truth = values[(NR_VALUES * permilles[i] + 999) / 1000 - 1];
		uint64_t shown = hist_quantile(hist, permilles[i]);
		ck_assert_uint_ge(shown, truth);
		ck_assert_uint_le(shown - truth, truth / 16);
	}
}
END_TEST

START_TEST(the_last_quantile_is_the_maximum_even_at_the_top_of_the_range)
{
	_cleanup_free_ struct hist *hist = hist_new();
	hist_add(hist, 1000001);
	ck_assert_uint_eq(hist_quantile(hist, 1000), 1000001);
	hist_add(hist, UINT64_MAX);
	ck_assert_uint_eq(hist_quantile(hist, 1000), UINT64_MAX);
	ck_assert_uint_eq(hist->count, 2);
}
END_TEST

START_TEST(reset_forgets_everything)
{
	_cleanup_free_ struct hist *hist = hist_new();
	hist_add(hist, 123456);
	hist_reset(hist);
	ck_assert_uint_eq(hist->count, 0);
	ck_assert_uint_eq(hist->sum, 0);
	ck_assert_uint_eq(hist->max, 0);
	ck_assert_uint_eq(hist_quantile(hist, 1000), 0);
}
END_TEST

static void *add_many(void *arg)
{
	struct hist *hist = arg;
	for (uint64_t value = 1; value <= NR_VALUES; value++)
		hist_add(hist, value);
	return NULL;
}

START_TEST(nothing_is_lost_when_threads_add_at_once)
{
	_cleanup_free_ struct hist *hist = hist_new();
	pthread_t threads[NR_THREADS];

	for (int i = 0; i < NR_THREADS; i++)
		ck_assert_int_eq(pthread_create(&threads[i], NULL, add_many, hist), 0);
	for (int i = 0; i < NR_THREADS; i++)
		pthread_join(threads[i], NULL);
	ck_assert_uint_eq(hist->count, NR_THREADS * NR_VALUES);
	ck_assert_uint_eq(hist->sum, NR_THREADS * (NR_VALUES * (NR_VALUES + 1ull) / 2));
	ck_assert_uint_eq(hist_quantile(hist, 1000), NR_VALUES);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("base");
	TCase *quantile = tcase_create("hist_quantile");
	tcase_add_test(quantile, an_empty_histogram_has_quantile_zero);
	tcase_add_test(quantile, small_values_are_exact);
	tcase_add_test(quantile, a_quantile_is_never_below_the_truth_and_at_most_a_sixteenth_above);
	tcase_add_test(quantile, the_last_quantile_is_the_maximum_even_at_the_top_of_the_range);
	suite_add_tcase(suite, quantile);
	TCase *add = tcase_create("hist_add");
	tcase_add_test(add, nothing_is_lost_when_threads_add_at_once);
	suite_add_tcase(suite, add);
	TCase *reset = tcase_create("hist_reset");
	tcase_add_test(reset, reset_forgets_everything);
	suite_add_tcase(suite, reset);

	SRunner *runner = srunner_create(suite);
	srunner_set_tap(runner, "-");
	srunner_run_all(runner, CK_SILENT);
	int failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
