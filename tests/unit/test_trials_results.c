/* SPDX-License-Identifier: MIT */
/* Figures become metrics, metrics a table, expectations verdicts; what was not measured is never a pass. */
#include "trials/private.h"

#include <check.h>
#include <errno.h>
#include <math.h>
#include <string.h>

static const char text[] = "[trial]\nname = t\ntitle = tea & <biscuits>\n[workload w]\n[variant sick]\n[variant well]\n"
			   "[metric rate]\ntitle = calls/s\nvalue = run.w.calls / run.seconds\nreference = 20 / 170\n"
			   "[metric gone]\nvalue = run.never.measured\n"
			   "[table main]\ntitle = The table\nvariants = sick well\nrows = rate gone\nratio = sick / well\n"
			   "[chart c]\nvalue = w.calls\nrate = yes\n"
			   "[expect]\ndrops = sick.rate / well.rate <= 1/8.5\nkeeps = sick.rate >= well.rate\n"
			   "unmeasured = sick.gone >= 0\nabsent = sick.run.nothing >= 0\n";

static const struct trial_pairs no_settings;

static struct trial *results_new(struct trial_results *results)
{
	struct trial *trial = NULL;
	char *why = NULL;
	ck_assert_int_eq(trial_parse(text, &no_settings, &trial, &why), 0);
	results->trial = trial;
	for (size_t v = 0; v < 2; v++) {
		trial_figures_set(&results->figures[v], "run.w.calls", v ? 340 : 40);
		trial_figures_set(&results->figures[v], "run.seconds", 2);
	}
	ck_assert_int_eq(trial_results_judge(results), 0);
	return trial;
}

/* What @print writes, in a buffer. */
static const char *printed(const struct trial_results *results,
			   void (*print)(const struct trial_results *results, FILE *out), char buf[8192])
{
	FILE *out = fmemopen(buf, 8192, "w");
	print(results, out);
	fclose(out);
	return buf;
}

START_TEST(counters_are_subtracted_and_gauges_are_not)
{
	_cleanup_(trial_figures_fini) struct trial_figures before = { 0 }, after = { 0 }, delta = { 0 };
	trial_figures_set(&before, "device.bytes", 100);
	trial_figures_set(&before, "cache.pages", 100);
	trial_figures_set(&after, "device.bytes", 150);
	trial_figures_set(&after, "cache.pages", 70);
	trial_figures_set(&after, "gate.waits", 3);
	ck_assert_int_eq(trial_figures_delta(&delta, "p", &before, &after), 0);
	double value;
	ck_assert_int_eq(trial_figures_get(&delta, "p.device.bytes", &value), 0);
	ck_assert_double_eq(value, 50);
	ck_assert_int_eq(trial_figures_get(&delta, "p.cache.pages", &value), 0);
	ck_assert_double_eq(value, 70);
	ck_assert_int_eq(trial_figures_get(&delta, "p.gate.waits", &value), 0);
	ck_assert_double_eq(value, 3);
	ck_assert_int_eq(trial_figures_get(&delta, "p.nothing", &value), -ENOENT);
	ck_assert(trial_figure_is_gauge("ops.write.p99_ns") && !trial_figure_is_gauge("ops.write.count"));
}
END_TEST

START_TEST(json_is_flattened_by_its_path)
{
	_cleanup_json_ json_object *object =
		json_tokener_parse("{\"a\":{\"b\":1,\"c\":{\"d\":2.5}},\"yes\":true,\"text\":\"x\"}");
	_cleanup_(trial_figures_fini) struct trial_figures figures = { 0 };
	ck_assert_int_eq(trial_figures_flatten(&figures, "", object), 0);
	double value;
	ck_assert_uint_eq(figures.count, 3);
	ck_assert_int_eq(trial_figures_get(&figures, "a.c.d", &value), 0);
	ck_assert_double_eq(value, 2.5);
	ck_assert_int_eq(trial_figures_get(&figures, "yes", &value), 0);
	ck_assert_double_eq(value, 1);
}
END_TEST

START_TEST(a_thousand_figures_are_found_again)
{
	_cleanup_(trial_figures_fini) struct trial_figures figures = { 0 };
	char name[32];
	for (unsigned i = 0; i < 1000; i++) {
		snprintf(name, sizeof(name), "f.%u", i * 7919 % 1000);
		ck_assert_int_eq(trial_figures_set(&figures, name, i), 0);
	}
	ck_assert_uint_eq(figures.count, 1000);
	for (unsigned i = 0; i < 1000; i++) {
		double value;
		snprintf(name, sizeof(name), "f.%u", i * 7919 % 1000);
		ck_assert_int_eq(trial_figures_get(&figures, name, &value), 0);
		ck_assert_double_eq(value, i);
	}
}
END_TEST

START_TEST(verdicts_follow_from_figures_alone)
{
	_cleanup_(trial_results_fini) struct trial_results results = { 0 };
	_cleanup_trial_ struct trial *trial = results_new(&results);
	ck_assert_double_eq(trial_results_value(&results, "sick", "rate"), 20);
	ck_assert_double_eq_tol(trial_results_ratio(&results, &trial->tables[0], "rate"), 20.0 / 170, 1e-12);
	ck_assert(isnan(trial_results_value(&results, "sick", "gone")));
	ck_assert(results.verdicts[0].value.holds);
	ck_assert(!results.verdicts[1].value.holds);
	ck_assert(!results.passed);
}
END_TEST

START_TEST(what_was_not_measured_fails)
{
	_cleanup_(trial_results_fini) struct trial_results results = { 0 };
	_cleanup_trial_ struct trial *trial = results_new(&results);
	ck_assert(!results.verdicts[2].value.holds);
	ck_assert(!results.verdicts[3].value.holds);
	ck_assert_ptr_nonnull(strstr(results.verdicts[3].why, "sick.run.nothing"));
}
END_TEST

START_TEST(the_table_has_variants_ratio_and_reference_side_by_side)
{
	_cleanup_(trial_results_fini) struct trial_results results = { 0 };
	_cleanup_trial_ struct trial *trial = results_new(&results);
	char buf[8192];
	const char *table = printed(&results, trial_print_tables, buf);
	ck_assert_ptr_nonnull(strstr(table, "The table\n"));
	ck_assert_ptr_nonnull(strstr(table, "           sick  well  sick / well   reference\n"));
	ck_assert_ptr_nonnull(strstr(table, "  calls/s  20.0   170        0.118   20 / 170\n"));
	ck_assert_ptr_nonnull(strstr(table, "  gone        -     -            -\n"));
	const char *verdicts = printed(&results, trial_print_verdicts, buf);
	ck_assert_ptr_nonnull(strstr(verdicts, "PASS  drops"));
	ck_assert_ptr_nonnull(strstr(verdicts, "FAIL  keeps"));
	ck_assert_ptr_nonnull(strstr(verdicts, "FAILED: 1 of 4"));
}
END_TEST

START_TEST(the_json_has_metrics_figures_and_verdicts)
{
	_cleanup_(trial_results_fini) struct trial_results results = { 0 };
	_cleanup_trial_ struct trial *trial = results_new(&results);
	_cleanup_json_ json_object *object = trial_results_json(&results);
	const char *json = json_object_to_json_string_ext(object, JSON_C_TO_STRING_PLAIN);
	ck_assert_ptr_nonnull(strstr(json, "\"sick\":{\"metrics\":{\"gone\":null,\"rate\":20}"));
	ck_assert_ptr_nonnull(strstr(json, "\"passed\":false"));
	ck_assert_ptr_nonnull(strstr(json, "\"name\":\"drops\""));
}
END_TEST

START_TEST(the_page_escapes_what_it_shows)
{
	_cleanup_(trial_results_fini) struct trial_results results = { 0 };
	_cleanup_trial_ struct trial *trial = results_new(&results);
	static char buf[1 << 16];
	FILE *out = fmemopen(buf, sizeof(buf), "w");
	ck_assert_int_eq(trial_write_html(&results, out), 0);
	fclose(out);
	ck_assert_ptr_nonnull(strstr(buf, "tea &amp; &lt;biscuits&gt;"));
	ck_assert_ptr_null(strstr(buf, "<biscuits>"));
	ck_assert_ptr_null(strstr(buf, "http"));
	ck_assert_ptr_nonnull(strstr(buf, "</html>"));
}
END_TEST

START_TEST(the_chart_draws_a_rate_per_variant)
{
	_cleanup_(trial_results_fini) struct trial_results results = { 0 };
	_cleanup_trial_ struct trial *trial = results_new(&results);
	size_t column = 0;
	char name[64];
	while (trial_column_name(trial, column, name, sizeof(name)) && strcmp(name, "w.calls") != 0)
		column++;
	results.samples = calloc(100, sizeof(*results.samples));
	for (uint32_t i = 0; i < 100; i++) {
		struct trial_sample *sample = &results.samples[results.nr_samples++];
		*sample = (struct trial_sample){ .variant = i / 50, .time_ns = i % 50 * 10000000ull };
		sample->values[column] = i % 50 * (i / 50 ? 17.0 : 2.0);
	}
	static char buf[1 << 16];
	FILE *out = fmemopen(buf, sizeof(buf), "w");
	trial_write_chart(&results, &trial->charts[0], out);
	fclose(out);
	ck_assert_ptr_nonnull(strstr(buf, "<polyline"));
	ck_assert_ptr_nonnull(strstr(buf, ">well</text>"));
	ck_assert_ptr_nonnull(strstr(buf, ">1700</text>")); /* 17 calls in 10 ms is the top of the axis */
}
END_TEST

START_TEST(numbers_are_shown_with_three_digits_and_a_unit)
{
	static const struct {
		enum trial_format format;
		double value;
		const char *text;
	} cases[] = {
		{ TRIAL_FORMAT_NUMBER, 0, "0" },	     { TRIAL_FORMAT_NUMBER, 0.118, "0.118" },
		{ TRIAL_FORMAT_NUMBER, 1.234, "1.23" },	     { TRIAL_FORMAT_NUMBER, 20, "20.0" },
		{ TRIAL_FORMAT_NUMBER, 262144, "262144" },   { TRIAL_FORMAT_COUNT, 262144, "262144" },
		{ TRIAL_FORMAT_TIME, 5400000, "5.40 ms" },   { TRIAL_FORMAT_TIME, 950, "950 ns" },
		{ TRIAL_FORMAT_TIME, 2e9, "2.00 s" },	     { TRIAL_FORMAT_PERCENT, 0.3217, "32.2 %" },
		{ TRIAL_FORMAT_MBYTES, 64e6, "64.0" },	     { TRIAL_FORMAT_NUMBER, NAN, "-" },
		{ TRIAL_FORMAT_BYTES, 4294967296.0, "4.0G" }, { TRIAL_FORMAT_COUNT, INFINITY, "-" },
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char buf[64];
		const char *shown = trial_format_value(cases[i].format, cases[i].value, buf, sizeof(buf));
		if (cases[i].format == TRIAL_FORMAT_BYTES)
			ck_assert_ptr_nonnull(strchr(shown, 'G'));
		else
			ck_assert_str_eq(shown, cases[i].text);
	}
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("trials");
	TCase *tcase = tcase_create("trial_results");
	tcase_add_test(tcase, counters_are_subtracted_and_gauges_are_not);
	tcase_add_test(tcase, json_is_flattened_by_its_path);
	tcase_add_test(tcase, a_thousand_figures_are_found_again);
	tcase_add_test(tcase, verdicts_follow_from_figures_alone);
	tcase_add_test(tcase, what_was_not_measured_fails);
	tcase_add_test(tcase, the_table_has_variants_ratio_and_reference_side_by_side);
	tcase_add_test(tcase, the_json_has_metrics_figures_and_verdicts);
	tcase_add_test(tcase, the_page_escapes_what_it_shows);
	tcase_add_test(tcase, the_chart_draws_a_rate_per_variant);
	tcase_add_test(tcase, numbers_are_shown_with_three_digits_and_a_unit);
	suite_add_tcase(suite, tcase);
	SRunner *runner = srunner_create(suite);
	srunner_set_tap(runner, "-");
	srunner_run_all(runner, CK_SILENT);
	int failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed != 0;
}
