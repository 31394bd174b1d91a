/* SPDX-License-Identifier: MIT */
/* Trial files: what a good one becomes, and one line for each way to be bad. */
#include "trials/private.h"

#include <check.h>
#include <errno.h>
#include <string.h>

#include "base/clock.h"

#define HEAD "[trial]\nname = t\n[workload w]\nuid = 1000\n"
#define TAIL "[variant a]\n"

static const struct trial_pairs no_settings;

static struct trial *parse(const char *text, const struct trial_pairs *settings)
{
	struct trial *trial = NULL;
	char *why = NULL;
	int r = trial_parse(text, settings, &trial, &why);
	ck_assert_msg(r == 0, "%d: %s", r, why ? why : "?");
	return trial;
}

/* The line said about @text, which must be refused. */
static const char *refusal(const char *text, const struct trial_pairs *settings, char buf[512])
{
	struct trial *trial = NULL;
	char *why = NULL;
	int r = trial_parse(text, settings, &trial, &why);
	ck_assert_msg(r == -EINVAL, "taken (%d): %s", r, text);
	ck_assert_ptr_nonnull(why);
	ck_assert_ptr_null(strchr(why, '\n'));
	snprintf(buf, 512, "%s", why);
	free(why);
	return buf;
}

START_TEST(a_full_file_becomes_what_it_says)
{
	_cleanup_trial_ struct trial *trial = parse(
		"[trial]\nname = t\ntitle = a title\ndescription = one\n  two\nsample = 20ms\n"
		"[parameters]\nsize = 1G\n"
		"[mount]\nrollback = list\ndevice = rate=64M:latency=2ms\n"
		"[quota 1000]\nhard = ${size}+200K\ninodes_soft = 5\n[quota group:7]\nsoft = 1M\n"
		"# a comment\n; another\n"
		"[workload w]\nuid = 1000\ngid = 7\nfile = data\nfiles = 2\nwriters = 4\nwrite_size = 512K\n"
		"pattern = random\nspan = ${size}\nprefill = fallocate\nignore_errors = yes\nduration = 1500ms\n"
		"calls = 9\nrate = 32M\nfsync_at_end = on\n"
		"[workload c]\ncommand = fio --name=x --directory=$MOUNT\n"
		"[phase p]\nrun = w c\nduration = 2\nuntil = refused\nquota.1000 = 2M\ntune.congestion = skip\n"
		"[variant a]\n[variant b]\nrollback = bounded\nw.rate = 1M\n"
		"[metric m]\nvalue = p.w.calls / p.seconds\nformat = time\nreference = 170\n"
		"[table main]\nvariants = a b\nrows = m\nratio = a / b\n"
		"[chart c1]\nvalue = w.calls\nrate = yes\n"
		"[expect]\nx = a.m <= b.m\n",
		&no_settings);
	ck_assert_str_eq(trial->description, "one two");
	ck_assert_uint_eq(trial->sample_ns, 20 * NSEC_PER_MSEC);
	ck_assert_str_eq(trial_pairs_get(&trial->mount, "device"), "rate=64M:latency=2ms");
	ck_assert_str_eq(trial->limits[0].bytes_hard, "1G+200K");
	ck_assert_str_eq(trial->limits[1].id, "group:7");
	const struct trial_workload *w = &trial->workloads[0];
	ck_assert_uint_eq(w->uid, 1000);
	ck_assert_uint_eq(w->write_size, 512 << 10);
	ck_assert_int_eq(w->pattern, TRIAL_RANDOM);
	ck_assert_int_eq(w->prefill, TRIAL_PREFILL_FALLOCATE);
	ck_assert(w->ignore_errors && w->fsync_at_end);
	ck_assert_uint_eq(w->duration_ns, 1500 * NSEC_PER_MSEC);
	ck_assert_int_eq(trial->workloads[1].program, TRIAL_COMMAND);
	ck_assert_uint_eq(trial->phases[0].workloads, 3);
	ck_assert_uint_eq(trial->phases[0].duration_ns, 2 * NSEC_PER_SEC);
	ck_assert_int_eq(trial->phases[0].until, TRIAL_UNTIL_REFUSED);
	ck_assert_uint_eq(trial->nr_changes, 2);
	ck_assert(trial->changes[1].is_tune);
	ck_assert_str_eq(trial->changes[1].key, "congestion");
	ck_assert_int_eq(trial->metrics[0].format, TRIAL_FORMAT_TIME);
}
END_TEST

START_TEST(a_variant_changes_a_copy_and_not_the_trial)
{
	_cleanup_trial_ struct trial *trial = parse(
		HEAD "[mount]\nrollback = list\n[variant b]\nrollback = bounded\nw.rate = 1M\n", &no_settings);
	_cleanup_trial_ struct trial *plan = NULL;
	char *why = NULL;
	ck_assert_int_eq(trial_plan_new(trial, &trial->variants[0], &plan, &why), 0);
	ck_assert_str_eq(trial_pairs_get(&plan->mount, "rollback"), "bounded");
	ck_assert_uint_eq(plan->workloads[0].rate, 1 << 20);
	ck_assert_str_eq(trial_pairs_get(&trial->mount, "rollback"), "list");
	ck_assert_uint_eq(trial->workloads[0].rate, 0);
}
END_TEST

START_TEST(a_variant_replaces_what_a_phase_tunes)
{
	_cleanup_trial_ struct trial *trial = parse(
		HEAD "[phase p]\nrun = w\ntune.completion = batch\nquota.1000 = 1M\n"
		     "[variant a]\np.tune.completion = stream\np.tune.congestion = skip\np.duration = 4s\n",
		&no_settings);
	_cleanup_trial_ struct trial *plan = NULL;
	char *why = NULL;
	ck_assert_int_eq(trial_plan_new(trial, &trial->variants[0], &plan, &why), 0);
	ck_assert_uint_eq(trial->nr_changes, 2);
	ck_assert_uint_eq(plan->nr_changes, 3);
	ck_assert_str_eq(trial->changes[0].value, "batch");
	ck_assert_str_eq(plan->changes[0].value, "stream");
	ck_assert_str_eq(plan->changes[2].key, "congestion");
	ck_assert_uint_eq(plan->phases[0].duration_ns, 4 * NSEC_PER_SEC);
}
END_TEST

START_TEST(a_setting_wins_over_the_file)
{
	struct trial_pairs settings = { .count = 3,
					.items = { { "size", "2G" }, { "rollback", "ordered" }, { "w.writers", "3" } } };
	_cleanup_trial_ struct trial *trial = parse("[trial]\nname = t\n[parameters]\nsize = 1G\n"
						    "[mount]\nrollback = list\n"
						    "[workload w]\nspan = ${size}\n" TAIL,
						    &settings);
	ck_assert_uint_eq(trial->workloads[0].span, 2ull << 30);
	ck_assert_uint_eq(trial->workloads[0].writers, 3);
	ck_assert_str_eq(trial_pairs_get(&trial->mount, "rollback"), "ordered");
}
END_TEST

START_TEST(without_phases_everything_runs_once)
{
	_cleanup_trial_ struct trial *trial = parse(HEAD "duration = 3s\n" TAIL, &no_settings);
	ck_assert_uint_eq(trial->nr_phases, 1);
	ck_assert_str_eq(trial->phases[0].name, "run");
	ck_assert_uint_eq(trial->phases[0].workloads, 1);
	ck_assert_int_eq(trial->phases[0].until, TRIAL_UNTIL_DONE);
	_cleanup_trial_ struct trial *endless = parse(HEAD TAIL, &no_settings);
	ck_assert_int_eq(endless->phases[0].until, TRIAL_UNTIL_TIME);
	ck_assert_uint_eq(endless->phases[0].duration_ns, 10 * NSEC_PER_SEC);
}
END_TEST

START_TEST(what_is_wrong_is_named)
{
	static const struct {
		const char *text, *said;
	} cases[] = {
		{ "", "name" },
		{ "nonsense\n", "line 1" },
		{ "x = 1\n", "before any section" },
		{ "[wokload w]\n", "wokload w" },
		{ "[trial]\nname = t\nnam = u\n", "nam" },
		{ "[workload]\n", "unknown section [workload]" },
		{ "[workload 9]\n", "9" },
		{ "[workload a-b]\n", "a-b" },
		{ "[variant\n", "[variant" },
		{ HEAD "[workload w]\n" TAIL, "twice" },
		{ HEAD "uuid = 1\n" TAIL, "uuid" },
		{ HEAD "write_size = 12Q\n" TAIL, "12Q" },
		{ HEAD "write_size = 0\n" TAIL, "out of range" },
		{ HEAD "write_size = 2G\n" TAIL, "out of range" },
		{ HEAD "writers = 65\n" TAIL, "out of range" },
		{ HEAD "writers = x\n" TAIL, "\"x\"" },
		{ HEAD "duration = soon\n" TAIL, "soon" },
		{ HEAD "ignore_errors = perhaps\n" TAIL, "perhaps" },
		{ HEAD "pattern = zigzag\n" TAIL, "zigzag" },
		{ HEAD "pattern = random\n" TAIL, "span" },
		{ HEAD "span = 1K\nwrite_size = 4K\n" TAIL, "span" },
		{ "[trial]\nname = t\nnice = -21\n", "out of range" },
		{ "[trial]\nname = t\nnice = low\n", "\"low\"" },
		{ HEAD "gid = nosuchgroup\n" TAIL, "nosuchgroup" },
		{ HEAD "uid = 4294967295\n" TAIL, "4294967295" },
		{ HEAD "file = ../x\n" TAIL, "../x" },
		{ HEAD "file = a ; a comment\n" TAIL, "line of its own" },
		{ HEAD "command = true\nwriters = 2\n" TAIL, "no writers" },
		{ HEAD, "no [variant NAME]" },
		{ "[trial]\nname = t\n" TAIL, "no [workload NAME]" },
		{ HEAD "[quota 1000]\nhard = much\n" TAIL, "much" },
		{ HEAD "[quota a-b]\n" TAIL, "a-b" },
		{ HEAD "[mount]\na = 1\na = 2\n" TAIL, "twice" },
		{ HEAD "[mount]\na = ${b}\n" TAIL, "\"b\"" },
		{ HEAD "[phase p]\nrun = v\n" TAIL, "\"v\"" },
		{ HEAD "[phase p]\nuntil = refused\n" TAIL, "nothing runs" },
		{ HEAD "[phase p]\nquota.1000 = much\n" TAIL, "much" },
		{ HEAD "[phase w]\n" TAIL, "both" },
		{ HEAD "[variant a]\nw.rat = 1\n", "w.rat" },
		{ HEAD "[variant a]\nv.rate = 1\n", "v.rate" },
		{ HEAD "[variant a]\nw.rate = 1x\n", "1x" },
		{ HEAD TAIL "[metric m]\n", "no value" },
		{ HEAD TAIL "[metric m]\nvalue = nothing.x\n", "nothing.x" },
		{ HEAD TAIL "[metric m]\nvalue = m\n", "\"m\"" },
		{ HEAD TAIL "[metric m]\nvalue = run.x < 1\n", "comparison" },
		{ HEAD TAIL "[metric m]\nvalue = run.x\nformat = roman\n", "roman" },
		{ HEAD TAIL "[table t]\n", "needs" },
		{ HEAD TAIL "[table t]\nvariants = a\nrows = n\n", "\"n\"" },
		{ HEAD TAIL "[metric m]\nvalue = run.x\n[table t]\nvariants = z\nrows = m\n", "\"z\"" },
		{ HEAD TAIL "[metric m]\nvalue = run.x\n[table t]\nvariants = a\nrows = m\nratio = a\n", "ratio" },
		{ HEAD TAIL "[chart c]\nvalue = nothing\n", "nothing" },
		{ HEAD TAIL "[expect]\nx = a.run.y\n", "compares nothing" },
		{ HEAD TAIL "[expect]\nx = z.run.y < 1\n", "z.run.y" },
		{ HEAD TAIL "[expect]\nx = a.run.y <\n", "at the end" },
		{ HEAD TAIL "[expect]\nx = 1 < 2\nx = 1 < 2\n", "twice" },
		{ HEAD TAIL "[expect]\n9x = 1 < 2\n", "9x" },
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char why[512];
		refusal(cases[i].text, &no_settings, why);
		ck_assert_msg(strstr(why, cases[i].said), "\"%s\" does not name \"%s\" in:\n%s", why,
			      cases[i].said, cases[i].text);
	}
}
END_TEST

START_TEST(a_setting_of_nothing_is_refused)
{
	struct trial_pairs settings = { .count = 1, .items = { { "w.nothing", "1" } } };
	char why[512];
	ck_assert_ptr_nonnull(strstr(refusal(HEAD TAIL, &settings, why), "w.nothing"));
	settings.items[0] = (struct trial_pair){ "w.rate", "12Q" };
	ck_assert_ptr_nonnull(strstr(refusal(HEAD TAIL, &settings, why), "12Q"));
}
END_TEST

START_TEST(a_line_that_inih_would_cut_is_refused)
{
	char text[512], why[512];
	snprintf(text, sizeof(text), HEAD "command = %0200d\n" TAIL, 0);
	ck_assert_ptr_nonnull(strstr(refusal(text, &no_settings, why), "line 5"));
}
END_TEST

START_TEST(the_built_in_files_are_sound)
{
	size_t count = 0;
	for (const struct trial_builtin *builtin = trial_builtins; builtin->name; builtin++, count++) {
		_cleanup_trial_ struct trial *trial = parse(builtin->text, &no_settings);
		ck_assert_str_eq(trial->name, builtin->name);
		ck_assert_uint_gt(trial->nr_expects, 0);
	}
	ck_assert_uint_eq(count, 2);
}
END_TEST

START_TEST(sums_of_sizes_are_checked)
{
	uint64_t bytes;
	ck_assert_int_eq(trial_parse_sum("4G+200K", &bytes), 0);
	ck_assert_uint_eq(bytes, (4ull << 30) + (200 << 10));
	ck_assert_int_eq(trial_parse_sum("4G+", &bytes), -EINVAL);
	ck_assert_int_eq(trial_parse_sum("4G-1", &bytes), -EINVAL);
	ck_assert_int_eq(trial_parse_sum("16777215T+16777215T", &bytes), -ERANGE);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("trials");
	TCase *tcase = tcase_create("trial_parse");
	tcase_add_test(tcase, a_full_file_becomes_what_it_says);
	tcase_add_test(tcase, a_variant_changes_a_copy_and_not_the_trial);
	tcase_add_test(tcase, a_variant_replaces_what_a_phase_tunes);
	tcase_add_test(tcase, a_setting_wins_over_the_file);
	tcase_add_test(tcase, without_phases_everything_runs_once);
	tcase_add_test(tcase, what_is_wrong_is_named);
	tcase_add_test(tcase, a_setting_of_nothing_is_refused);
	tcase_add_test(tcase, a_line_that_inih_would_cut_is_refused);
	tcase_add_test(tcase, the_built_in_files_are_sound);
	tcase_add_test(tcase, sums_of_sizes_are_checked);
	suite_add_tcase(suite, tcase);
	SRunner *runner = srunner_create(suite);
	srunner_set_tap(runner, "-");
	srunner_run_all(runner, CK_SILENT);
	int failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed != 0;
}
