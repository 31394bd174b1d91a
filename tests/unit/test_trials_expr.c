/* SPDX-License-Identifier: MIT */
/* Expressions: arithmetic, units, chains of comparisons, and every way to be wrong. */
#include "trials/private.h"

#include <check.h>
#include <errno.h>
#include <math.h>
#include <string.h>

static int lookup(void *context, const char *name, double *ret_value)
{
	if (strcmp(name, "skip.mb_s") == 0)
		*ret_value = 126;
	else if (strcmp(name, "block.mb_s") == 0)
		*ret_value = 184;
	else if (strcmp(name, "zero") == 0)
		*ret_value = 0;
	else if (strcmp(name, "list.used.1000") == 0)
		*ret_value = 4096;
	else
		return -ENOENT;
	return 0;
}

static struct trial_value eval(const char *text)
{
	struct trial_value value = { 0 };
	char why[128] = "";
	int r = trial_eval(text, lookup, NULL, &value, why, sizeof(why));
	ck_assert_msg(r == 0, "'%s': %d, %s", text, r, why);
	return value;
}

START_TEST(arithmetic_binds_as_in_school)
{
	static const struct {
		const char *text;
		double value;
	} cases[] = {
		{ "1 + 2 * 3", 7 },	   { "(1 + 2) * 3", 9 },     { "8 / 4 / 2", 1 },
		{ "10 - 4 - 3", 3 },	   { "-2 * -3", 6 },	     { "1/8.5", 1 / 8.5 },
		{ "512K/4K", 128 },	   { "2G", 0x1p31 },	     { "15%", 0.15 },
		{ "1e3", 1000 },	   { "min(3, 1, 2)", 1 },    { "max(3, 1, 7)", 7 },
		{ "abs(2 - 5)", 3 },	   { "list.used.1000", 4096 }, { "skip.mb_s - 26", 100 },
		{ "max(min(5, 9), 2)", 5 }, { " 4 ", 4 },
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct trial_value value = eval(cases[i].text);
		ck_assert_msg(fabs(value.value - cases[i].value) < 1e-12, "%s = %g", cases[i].text,
			      value.value);
		ck_assert(!value.is_verdict);
	}
}
END_TEST

START_TEST(every_relation_holds_when_it_should_and_only_then)
{
	static const char *const good[] = { "1 < 2",  "2 <= 2", "3 > 2",       "2 >= 2",
					    "2 == 2", "1 != 2", "1 < 2 <= 2", "1 < 2 and 3 > 2" };
	static const char *const bad[] = { "2 < 2",  "3 <= 2", "2 > 2",	      "1 >= 2",	       "1 == 2",
					   "2 != 2", "1 < 2 < 2", "3 < 2 < 4", "1 < 2 and 2 > 3", "2 < 1 and 1 < 2" };
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
		ck_assert_msg(eval(good[i]).holds && eval(good[i]).is_verdict, "%s", good[i]);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		ck_assert_msg(!eval(bad[i]).holds, "%s", bad[i]);
}
END_TEST

START_TEST(a_chain_shows_the_operand_that_was_measured)
{
	struct trial_value value = eval("0.60 <= skip.mb_s / block.mb_s <= 0.76");
	ck_assert(value.holds);
	ck_assert_double_eq_tol(value.value, 126.0 / 184, 1e-12);
	ck_assert_double_eq_tol(eval("skip.mb_s < 1").value, 126, 1e-12);
	ck_assert(!eval("0.70 <= skip.mb_s / block.mb_s").holds);
}
END_TEST

START_TEST(a_division_by_zero_has_no_value_and_proves_nothing)
{
	ck_assert(isnan(eval("1 / zero").value));
	ck_assert(isnan(eval("min(1, 1 / zero)").value));
	ck_assert(isnan(eval("max(1 / zero, 1)").value));
	ck_assert(!eval("1 / zero <= 1").holds);
	ck_assert(!eval("1 / zero >= 1").holds);
	ck_assert(!eval("1 / zero != 1").holds);
	ck_assert(!eval("1 / zero == 1 / zero").holds);
}
END_TEST

START_TEST(what_is_no_expression_is_refused_with_its_place)
{
	static const char *const bad[] = { "",	     "1 +",	"(1",	    "1 2",	"* 2",	   "min()",
					   "min(1",  "sqrt(4)", "abs(1, 2)", "12Q",	"1..2",	   "1 < ",
					   "1 and 2", "zero & 2",	"1 < 2 and 3", "0x", "1e999" };
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct trial_value value;
		char why[128] = "";
		int r = trial_eval(bad[i], lookup, NULL, &value, why, sizeof(why));
		ck_assert_msg(r == -EINVAL, "'%s': %d", bad[i], r);
		ck_assert_msg(*why, "'%s' without a reason", bad[i]);
	}
}
END_TEST

START_TEST(an_unknown_figure_is_named)
{
	struct trial_value value;
	char why[128];
	ck_assert_int_eq(trial_eval("1 < skip.nothing", lookup, NULL, &value, why, sizeof(why)), -ENOENT);
	ck_assert_ptr_nonnull(strstr(why, "skip.nothing"));
}
END_TEST

START_TEST(nesting_has_a_limit)
{
	char text[4096];
	memset(text, '(', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	struct trial_value value;
	char why[128];
	ck_assert_int_eq(trial_eval(text, lookup, NULL, &value, why, sizeof(why)), -EINVAL);
	memset(text, '-', sizeof(text) - 1);
	ck_assert_int_eq(trial_eval(text, lookup, NULL, &value, why, sizeof(why)), -EINVAL);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("trials");
	TCase *tcase = tcase_create("trial_eval");
	tcase_add_test(tcase, arithmetic_binds_as_in_school);
	tcase_add_test(tcase, every_relation_holds_when_it_should_and_only_then);
	tcase_add_test(tcase, a_chain_shows_the_operand_that_was_measured);
	tcase_add_test(tcase, a_division_by_zero_has_no_value_and_proves_nothing);
	tcase_add_test(tcase, what_is_no_expression_is_refused_with_its_place);
	tcase_add_test(tcase, an_unknown_figure_is_named);
	tcase_add_test(tcase, nesting_has_a_limit);
	suite_add_tcase(suite, tcase);
	SRunner *runner = srunner_create(suite);
	srunner_set_tap(runner, "-");
	srunner_run_all(runner, CK_SILENT);
	int failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed != 0;
}
