/* SPDX-License-Identifier: MIT */
/* The switches: what they accept, how they print, that several are all set or none. */
#include "fusefs/private.h"

#include <check.h>
#include <errno.h>
#include <string.h>

static struct fs *fs_of_settings(void)
{
	struct fs *fs = calloc(1, sizeof(*fs));
	lock_init(&fs->settings_lock);
	fs_settings_init(fs);
	return fs;
}

/* What @key prints now, in @buf. */
static const char *shown(struct fs *fs, const char *key, char *buf, size_t len)
{
	json_object *settings = fs_settings_json(fs);
	const char *value = json_object_get_string(json_object_object_get(settings, key));
	snprintf(buf, len, "%s", value ? value : "(none)");
	json_object_put(settings);
	return buf;
}

START_TEST(defaults_are_those_of_the_interface)
{
	static const char *const defaults[][2] = {
		{ "rollback", "reserve" },
		{ "undo", "keep" },
		{ "block_size", "4K" },
		{ "dirty_bytes", "0" },
		{ "dirty_background_bytes", "0" },
		{ "dirty_expire_centisecs", "3000" },
		{ "dirty_writeback_centisecs", "500" },
		{ "congestion", "block" },
		{ "congestion_kb", "0" },
		{ "completion", "stream" },
		{ "restart_poll_ms", "200" },
		{ "pass_bytes", "0" },
		{ "device", "none" },
		{ "workers", "10" },
		{ "enforce", "on" },
		{ "clock_offset", "0" },
		{ "engine", "auto" },
	};
	_cleanup_free_ struct fs *fs = fs_of_settings();
	char buf[128];
	for (size_t i = 0; i < sizeof(defaults) / sizeof(defaults[0]); i++)
		ck_assert_str_eq(shown(fs, defaults[i][0], buf, sizeof(buf)), defaults[i][1]);
	ck_assert_uint_eq(fs->settings.wb.cache_bytes % WB_PAGE_SIZE, 0);
	ck_assert_uint_le(fs->settings.wb.cache_bytes, wb_cache_max_bytes() / 4);
}
END_TEST

static const char *const good[][3] = {
	{ "rollback", "list", "list" },
	{ "rollback", "bounded", "bounded" },
	{ "rollback", "ordered", "ordered" },
	{ "rollback", "reserve", "reserve" },
	{ "undo", "all", "all" },
	{ "undo", "keep", "keep" },
	{ "block_size", "64K", "64K" },
	{ "block_size", "16384", "16K" },
	{ "cache_bytes", "1M", "1M" },
	{ "cache_bytes", "5000000", "5000000" },
	{ "dirty_bytes", "8m", "8M" },
	{ "dirty_background_bytes", "0", "0" },
	{ "dirty_expire_centisecs", "30s", "3000" },
	{ "dirty_writeback_centisecs", "0", "0" },
	{ "congestion", "none", "none" },
	{ "congestion", "skip", "skip" },
	{ "congestion_kb", "8192", "8192" },
	{ "congestion_kb", "8M", "8192" },
	{ "completion", "batch", "batch" },
	{ "restart_poll_ms", "100", "100" },
	{ "restart_poll_ms", "1s", "1000" },
	{ "pass_bytes", "1M", "1M" },
	{ "device", "rate=64M", "rate=64M" },
	{ "device", "seek=8ms:rate=1K", "rate=1K:seek=8ms" },
	{ "device", "rate=64M:latency=2ms:seek=8ms:depth=32",
	  "rate=64M:latency=2ms:seek=8ms:depth=32" },
	{ "device", "latency=1s", "latency=1000ms" },
	{ "device", "none", "none" },
	{ "workers", "1", "1" },
	{ "workers", "1024", "1024" },
	{ "enforce", "root", "root" },
	{ "enforce", "off", "off" },
	{ "clock_offset", "+7d", "604800" },
	{ "clock_offset", "-90m", "-5400" },
	{ "clock_offset", "604800", "604800" },
	{ "engine", "pwrite", "pwrite" },
	{ "engine", "io_uring", "io_uring" },
};

START_TEST(good_values_are_taken_and_print_as_what_reads_back_the_same)
{
	_cleanup_free_ struct fs *fs = fs_of_settings();
	char buf[128];
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		char *why = NULL;
		for (int round = 0; round < 2; round++) {
			const char *value = round ? good[i][2] : good[i][1];
			ck_assert_msg(fs_settings_set(fs, good[i][0], value, true, &why) == 0, "%s",
				      why ? why : value);
			ck_assert_str_eq(shown(fs, good[i][0], buf, sizeof(buf)), good[i][2]);
		}
	}
}
END_TEST

static const char *const bad[][2] = {
	{ "rollback", "lists" },
	{ "rollback", "" },
	{ "rollback", "LIST" },
	{ "undo", "some" },
	{ "block_size", "12Q" },
	{ "block_size", "2K" },
	{ "block_size", "12K" },
	{ "block_size", "128K" },
	{ "cache_bytes", "12Q" },
	{ "cache_bytes", "-1" },
	{ "cache_bytes", "1023K" },
	{ "cache_bytes", "9999999T" },
	{ "cache_bytes", "1000T" },
	{ "dirty_bytes", "" },
	{ "dirty_bytes", "10%" },
	{ "dirty_background_bytes", "1.5M" },
	{ "dirty_expire_centisecs", "5 s" },
	{ "dirty_writeback_centisecs", "99999999999" },
	{ "congestion", "wait" },
	{ "congestion_kb", "x" },
	{ "completion", "stream,batch" },
	{ "restart_poll_ms", "-5" },
	{ "pass_bytes", "1MB" },
	{ "device", "" },
	{ "device", "fast" },
	{ "device", "rate=12Q" },
	{ "device", "rate=1M:" },
	{ "device", "rate=1M::seek=1ms" },
	{ "device", "speed=1M" },
	{ "device", "rate" },
	{ "device", "depth=-1" },
	{ "device", "depth=4294967296" },
	{ "device", "none:rate=1M" },
	{ "workers", "0" },
	{ "workers", "1025" },
	{ "workers", "ten" },
	{ "enforce", "yes" },
	{ "clock_offset", "+-7d" },
	{ "clock_offset", "7dd" },
	{ "clock_offset", "500ms" },
	{ "clock_offset", "+" },
	{ "clock_offset", "40000000h" },
	{ "engine", "aio" },
	{ "frobnicate", "1" },
	{ "", "" },
};

START_TEST(bad_values_are_refused_with_key_and_value_and_change_nothing)
{
	_cleanup_free_ struct fs *fs = fs_of_settings();
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		_cleanup_free_ char *why = NULL;
		char before[128], after[128];
		shown(fs, bad[i][0], before, sizeof(before));
		ck_assert_msg(fs_settings_set(fs, bad[i][0], bad[i][1], true, &why) < 0,
			      "%s=%s was taken", bad[i][0], bad[i][1]);
		ck_assert_ptr_nonnull(why);
		ck_assert_ptr_nonnull(strstr(why, bad[i][0]));
		if (fs_settings_is_key(bad[i][0]))
			ck_assert_ptr_nonnull(strstr(why, bad[i][1]));
		ck_assert_ptr_null(strchr(why, '\n'));
		ck_assert_str_eq(shown(fs, bad[i][0], after, sizeof(after)), before);
	}
}
END_TEST

START_TEST(of_several_changes_one_bad_value_sets_none)
{
	const struct fs_switch changes[] = { { "rollback", "list" },
					     { "congestion", "skip" },
					     { "restart_poll_ms", "soon" } };
	_cleanup_free_ struct fs *fs = fs_of_settings();
	_cleanup_free_ char *why = NULL;
	char buf[128];
	ck_assert_int_eq(fs_settings_change(fs, changes, 3, false, &why), -EINVAL);
	ck_assert_ptr_nonnull(strstr(why, "restart_poll_ms=soon"));
	ck_assert_str_eq(shown(fs, "rollback", buf, sizeof(buf)), "reserve");
	ck_assert_str_eq(shown(fs, "congestion", buf, sizeof(buf)), "block");
	ck_assert_int_eq(fs_settings_change(fs, changes, 2, false, &why), 0);
	ck_assert_str_eq(shown(fs, "rollback", buf, sizeof(buf)), "list");
	ck_assert_str_eq(shown(fs, "congestion", buf, sizeof(buf)), "skip");
}
END_TEST

START_TEST(undo_follows_rollback_until_it_is_set)
{
	static const char *const steps[][3] = {
		{ "rollback", "list", "all" },    { "rollback", "bounded", "all" },
		{ "rollback", "ordered", "all" }, { "rollback", "reserve", "keep" },
		{ "undo", "all", "all" },         { "rollback", "list", "all" },
		{ "undo", "keep", "keep" },       { "undo", "default", "all" },
	};
	_cleanup_free_ struct fs *fs = fs_of_settings();
	char buf[128], *why = NULL;
	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
		ck_assert_int_eq(fs_settings_set(fs, steps[i][0], steps[i][1], false, &why), 0);
		ck_assert_str_eq(shown(fs, "undo", buf, sizeof(buf)), steps[i][2]);
	}
}
END_TEST

START_TEST(what_is_fixed_at_mount_is_refused_later)
{
	static const char *const fixed[][2] = { { "block_size", "8K" },
						{ "workers", "3" },
						{ "engine", "pwrite" } };
	_cleanup_free_ struct fs *fs = fs_of_settings();
	for (size_t i = 0; i < 3; i++) {
		_cleanup_free_ char *why = NULL;
		ck_assert_int_lt(fs_settings_set(fs, fixed[i][0], fixed[i][1], false, &why), 0);
		ck_assert_ptr_nonnull(strstr(why, "at mount only"));
		ck_assert_int_eq(fs_settings_set(fs, fixed[i][0], fixed[i][1], true, &why), 0);
	}
}
END_TEST

START_TEST(every_switch_has_a_help_of_four_parts)
{
	unsigned count = 0;
	for (const char *help; (help = fs_settings_help(count)); count++) {
		unsigned tabs = 0;
		for (const char *p = help; *p; p++)
			tabs += *p == '\t';
		ck_assert_uint_eq(tabs, 3);
		char key[64];
		snprintf(key, sizeof(key), "%.*s", (int)strcspn(help, "\t"), help);
		ck_assert(fs_settings_is_key(key));
	}
	ck_assert_uint_eq(count, 18);
	ck_assert(!fs_settings_is_key("frobnicate"));
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("fusefs");
	TCase *tcase = tcase_create("settings");
	tcase_add_test(tcase, defaults_are_those_of_the_interface);
	tcase_add_test(tcase, good_values_are_taken_and_print_as_what_reads_back_the_same);
	tcase_add_test(tcase, bad_values_are_refused_with_key_and_value_and_change_nothing);
	tcase_add_test(tcase, of_several_changes_one_bad_value_sets_none);
	tcase_add_test(tcase, undo_follows_rollback_until_it_is_set);
	tcase_add_test(tcase, what_is_fixed_at_mount_is_refused_later);
	tcase_add_test(tcase, every_switch_has_a_help_of_four_parts);
	suite_add_tcase(suite, tcase);
	SRunner *runner = srunner_create(suite);
	srunner_set_tap(runner, "-");
	srunner_run_all(runner, CK_SILENT);
	int failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? 1 : 0;
}
