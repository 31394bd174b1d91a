/* SPDX-License-Identifier: MIT */
/* Sizes and durations: every digit is checked, nothing wraps, what is printed can be read again. */
#include "base/sizes.h"

#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

START_TEST(parse_u64_takes_the_whole_range)
{
	uint64_t value = 7;
	ck_assert_int_eq(parse_u64("0", &value), 0);
	ck_assert_uint_eq(value, 0);
	ck_assert_int_eq(parse_u64("18446744073709551615", &value), 0);
	ck_assert_uint_eq(value, UINT64_MAX);
}
END_TEST

START_TEST(parse_u64_refuses_what_is_not_all_digits_and_leaves_the_value)
{
	static const char *const bad[] = { "", "-1", "+1", " 1", "1 ", "1x", "0x10", "1.5" };
	uint64_t value = 7;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		ck_assert_msg(parse_u64(bad[i], &value) == -EINVAL, "'%s' was taken", bad[i]);
	ck_assert_int_eq(parse_u64("18446744073709551616", &value), -ERANGE);
	ck_assert_uint_eq(value, 7);
}
END_TEST

START_TEST(parse_s64_takes_one_sign)
{
	int64_t value = 7;
	ck_assert_int_eq(parse_s64("-86400", &value), 0);
	ck_assert_int_eq(value, -86400);
	ck_assert_int_eq(parse_s64("+5", &value), 0);
	ck_assert_int_eq(value, 5);
	ck_assert_int_eq(parse_s64("--5", &value), -EINVAL);
	ck_assert_int_eq(parse_s64("-", &value), -EINVAL);
	ck_assert_int_eq(parse_s64("9223372036854775808", &value), -ERANGE);
	ck_assert_int_eq(value, 5);
}
END_TEST

START_TEST(parse_size_counts_powers_of_1024)
{
	static const struct {
		const char *text;
		uint64_t unit, bytes;
	} cases[] = {
		{ "0", 1, 0 },		    { "12", 1, 12 },	   { "12", 1024, 12288 },
		{ "4K", 1, 4096 },	    { "4k", 1024, 4096 },  { "64M", 1, 64ull << 20 },
		{ "3G", 1024, 3ull << 30 }, { "1T", 1, 1ull << 40 },
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint64_t bytes = 1;
		ck_assert_int_eq(parse_size(cases[i].text, cases[i].unit, &bytes), 0);
		ck_assert_uint_eq(bytes, cases[i].bytes);
	}
}
END_TEST

START_TEST(parse_size_refuses_unknown_suffixes_and_overflow)
{
	static const char *const bad[] = { "12Q", "K", "4KK", "4KB", "4 K", "-4K", "1.5M", "" };
	uint64_t bytes = 7;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		ck_assert_msg(parse_size(bad[i], 1, &bytes) == -EINVAL, "'%s' was taken", bad[i]);
	ck_assert_int_eq(parse_size("16777216T", 1, &bytes), -ERANGE);
	ck_assert_int_eq(parse_size("18446744073709551615", 1024, &bytes), -ERANGE);
	ck_assert_uint_eq(bytes, 7);
}
END_TEST

START_TEST(parse_duration_knows_units_of_time_and_of_quota_tools)
{
	static const struct {
		const char *text;
		uint64_t ns;
	} cases[] = {
		{ "250", 250 * NSEC_PER_MSEC },
		{ "250ms", 250 * NSEC_PER_MSEC },
		{ "2s", 2 * NSEC_PER_SEC },
		{ "3m", 180 * NSEC_PER_SEC },
		{ "1h", 3600 * NSEC_PER_SEC },
		{ "7days", 7 * 86400 * NSEC_PER_SEC },
		{ "12hours", 12 * 3600 * NSEC_PER_SEC },
		{ "30minutes", 1800 * NSEC_PER_SEC },
		{ "45seconds", 45 * NSEC_PER_SEC },
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint64_t ns = 1;
		ck_assert_int_eq(parse_duration(cases[i].text, NSEC_PER_MSEC, &ns), 0);
		ck_assert_uint_eq(ns, cases[i].ns);
	}
}
END_TEST

START_TEST(parse_duration_refuses_what_it_does_not_know)
{
	uint64_t ns = 7;
	ck_assert_int_eq(parse_duration("5fortnights", NSEC_PER_SEC, &ns), -EINVAL);
	ck_assert_int_eq(parse_duration("days", NSEC_PER_SEC, &ns), -EINVAL);
	ck_assert_int_eq(parse_duration("5s5", NSEC_PER_SEC, &ns), -EINVAL);
	ck_assert_int_eq(parse_duration("300000days", NSEC_PER_SEC, &ns), -ERANGE);
	ck_assert_uint_eq(ns, 7);
}
END_TEST

START_TEST(parse_bool_takes_four_pairs_of_words)
{
	bool value = false;
	ck_assert_int_eq(parse_bool("on", &value), 0);
	ck_assert(value);
	ck_assert_int_eq(parse_bool("0", &value), 0);
	ck_assert(!value);
	ck_assert_int_eq(parse_bool("On", &value), -EINVAL);
	ck_assert_int_eq(parse_bool("", &value), -EINVAL);
}
END_TEST

START_TEST(format_size_prints_what_parse_size_reads_back)
{
	char text[24];
	for (unsigned shift = 0; shift < 64; shift++) {
		uint64_t values[] = { 1ull << shift, (1ull << shift) - 1, 3ull << (shift % 62) };
		for (size_t i = 0; i < 3; i++) {
			uint64_t bytes = 0;
			ck_assert_int_eq(
				parse_size(format_size(values[i], text, sizeof(text)), 1, &bytes), 0);
			ck_assert_uint_eq(bytes, values[i]);
		}
	}
	ck_assert_str_eq(format_size(64ull << 20, text, sizeof(text)), "64M");
	ck_assert_str_eq(format_size(1536, text, sizeof(text)), "1536");
}
END_TEST

START_TEST(format_size_human_rounds_to_what_fits_four_columns)
{
	char text[24];
	ck_assert_str_eq(format_size_human(0, text, sizeof(text)), "0");
	ck_assert_str_eq(format_size_human(999, text, sizeof(text)), "999");
	ck_assert_str_eq(format_size_human(1536, text, sizeof(text)), "1.5K");
	ck_assert_str_eq(format_size_human(812 << 10, text, sizeof(text)), "812K");
	for (unsigned shift = 0; shift < 64; shift++)
		ck_assert_uint_le(strlen(format_size_human(UINT64_MAX >> shift, text, sizeof(text))), 4);
}
END_TEST

START_TEST(rounding_to_units_is_exact_at_the_edges)
{
	ck_assert_uint_eq(div_round_up(0, 4096), 0);
	ck_assert_uint_eq(div_round_up(1, 4096), 1);
	ck_assert_uint_eq(div_round_up(4096, 4096), 1);
	ck_assert_uint_eq(div_round_up(UINT64_MAX, 2), 1ull << 63);
	ck_assert_uint_eq(round_down_pow2(8191, 4096), 4096);
	ck_assert_uint_eq(round_up_pow2(4097, 4096), 8192);
	ck_assert_uint_eq(round_up_pow2(4096, 4096), 4096);
}
END_TEST

int main(void)
{
	const struct {
		const char *name;
		const TTest *tests[3];
	} cases[] = {
		{ "parse_u64",
		  { parse_u64_takes_the_whole_range,
		    parse_u64_refuses_what_is_not_all_digits_and_leaves_the_value } },
		{ "parse_s64", { parse_s64_takes_one_sign } },
		{ "parse_size",
		  { parse_size_counts_powers_of_1024,
		    parse_size_refuses_unknown_suffixes_and_overflow } },
		{ "parse_duration",
		  { parse_duration_knows_units_of_time_and_of_quota_tools,
		    parse_duration_refuses_what_it_does_not_know } },
		{ "parse_bool", { parse_bool_takes_four_pairs_of_words } },
		{ "format_size",
		  { format_size_prints_what_parse_size_reads_back,
		    format_size_human_rounds_to_what_fits_four_columns } },
		{ "rounding", { rounding_to_units_is_exact_at_the_edges } },
	};
	Suite *suite = suite_create("base");
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		TCase *tcase = tcase_create(cases[i].name);
		for (size_t j = 0; j < 3 && cases[i].tests[j]; j++)
			tcase_add_test(tcase, cases[i].tests[j]);
		suite_add_tcase(suite, tcase);
	}
	SRunner *runner = srunner_create(suite);
	srunner_set_tap(runner, "-");
	srunner_run_all(runner, CK_SILENT);
	int failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
