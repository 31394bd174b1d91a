/* SPDX-License-Identifier: MIT */
/* What survives: a clean close, a crash at any time, a full disk; and what is refused, untouched.
 */
#include <check.h>
#include <fcntl.h>
#include <glob.h>
#include <signal.h>
#include <sqlite3.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "quota/private.h"

static const struct quota_owner alice = {{1000, 100}};
static const struct quota_limits some = {1 << 20, 2 << 20, 10, 20};

static char dir[64];
static char path[96];

static void setup(void)
{
	strcpy(dir, "/tmp/test_quota_store.XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/quota.db", dir);
}

static void teardown(void)
{
	glob_t found;
	char pattern[96];
	snprintf(pattern, sizeof(pattern), "%s/*", dir);
	if (glob(pattern, 0, NULL, &found) == 0) {
		for (size_t i = 0; i < found.gl_pathc; i++)
			unlink(found.gl_pathv[i]);
		globfree(&found);
	}
	rmdir(dir);
}

/* Opens what must be sound. */
static struct quota *open_sound(bool expect_clean)
{
	struct quota *quota = NULL;
	char *why = NULL;
	bool clean = !expect_clean;
	int r = quota_open(path, &quota, &clean, &why);
	ck_assert_msg(r == 0, "quota_open: %d, %s", r, why ? why : "");
	ck_assert_int_eq(clean, expect_clean);
	return quota;
}

static void charge(struct quota *quota, const struct quota_owner *owner, uint64_t bytes,
		   uint64_t inodes)
{
	struct quota_charge c = {0};
	ck_assert_int_eq(quota_charge(quota, owner, bytes, inodes, 1, 0, &c), 0);
	quota_charge_take(&c);
}

static struct quota_entry entry(struct quota *quota, uint32_t id)
{
	struct quota_entry e;
	quota_get(quota, QUOTA_USER, id, &e);
	return e;
}

/* A new database, counted once, so that it can be closed cleanly. */
static struct quota *open_new(void)
{
	struct quota *quota = open_sound(false);
	quota_usage_settle(quota);
	return quota;
}

START_TEST(a_clean_close_keeps_limits_usage_grace_and_timers)
{
	const struct quota_grace grace = {1234, 5678};
	struct quota_grace grace_after;
	struct quota *quota = open_new();
	ck_assert_int_eq(quota_set_limits(quota, QUOTA_USER, 1000, &some), 0);
	ck_assert_int_eq(quota_set_limits(quota, QUOTA_GROUP, UINT32_MAX, &some), 0);
	ck_assert_int_eq(quota_set_grace(quota, QUOTA_GROUP, &grace), 0);
	charge(quota, &alice, (1 << 20) + 4096, 12);
	struct quota_entry before = entry(quota, 1000);
	ck_assert_int_ne(before.bytes_expire, 0);
	ck_assert_int_ne(before.inodes_expire, 0);
	ck_assert_int_eq(quota_close(quota), 0);

	quota = open_sound(true);
	struct quota_entry after = entry(quota, 1000);
	ck_assert_mem_eq(&before.limits, &after.limits, sizeof(before.limits));
	ck_assert_mem_eq(&before.usage, &after.usage, sizeof(before.usage));
	ck_assert_int_eq(before.bytes_expire, after.bytes_expire);
	ck_assert_int_eq(before.inodes_expire, after.inodes_expire);
	ck_assert_int_eq(quota_get(quota, QUOTA_GROUP, UINT32_MAX, &after), 1);
	ck_assert_mem_eq(&after.limits, &some, sizeof(some));
	quota_get_grace(quota, QUOTA_GROUP, &grace_after);
	ck_assert_mem_eq(&grace, &grace_after, sizeof(grace));
	quota_get_grace(quota, QUOTA_USER, &grace_after);
	ck_assert_uint_eq(grace_after.bytes_seconds, QUOTA_GRACE_DEFAULT_S);
	ck_assert_int_eq(quota_close(quota), 0);
	ck_assert_int_eq(access(path, F_OK), 0);
}
END_TEST

START_TEST(a_database_lies_alone_in_its_directory_when_closed)
{
	glob_t found;
	char pattern[96];
	ck_assert_int_eq(quota_close(open_new()), 0);
	snprintf(pattern, sizeof(pattern), "%s/*", dir);
	ck_assert_int_eq(glob(pattern, 0, NULL, &found), 0);
	ck_assert_uint_eq(found.gl_pathc, 1);
	globfree(&found);
}
END_TEST

START_TEST(limits_are_durable_when_the_process_ends_without_closing)
{
	pid_t child = fork();
	if (child == 0) {
		struct quota *quota = open_new();
		if (quota_set_limits(quota, QUOTA_USER, 1000, &some) != 0)
			_exit(1);
		charge(quota, &alice, 4096, 1);
		kill(getpid(), SIGKILL);
	}
	int status;
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	struct quota *quota = open_sound(false);
	struct quota_entry e = entry(quota, 1000);
	ck_assert_mem_eq(&e.limits, &some, sizeof(some));
	ck_assert_int_eq(e.usage.bytes, 0);
	quota_abandon(quota);
}
END_TEST

START_TEST(a_clean_database_is_unclean_as_soon_as_it_is_open)
{
	ck_assert_int_eq(quota_close(open_new()), 0);
	quota_abandon(open_sound(true));
	quota_abandon(open_sound(false));
}
END_TEST

START_TEST(a_close_without_the_recount_that_was_due_is_not_clean)
{
	quota_abandon(open_new());
	ck_assert_int_eq(quota_close(open_sound(false)), 0);
	quota_abandon(open_sound(false));
}
END_TEST

START_TEST(a_timer_survives_a_crash_and_the_recount_after_it)
{
	struct quota *quota = open_new();
	ck_assert_int_eq(quota_set_limits(quota, QUOTA_USER, 1000, &some), 0);
	charge(quota, &alice, 3 << 19, 12);
	int64_t bytes_expire = entry(quota, 1000).bytes_expire;
	ck_assert_int_ne(bytes_expire, 0);
	ck_assert_int_eq(quota_save(quota), 0);
	quota_abandon(quota);

	quota = open_sound(false);
	quota_set_clock_offset(quota, 100000);
	quota_usage_clear(quota);
	quota_usage_add(quota, &alice, 3 << 19, 5);
	quota_usage_settle(quota);
	ck_assert_int_eq(entry(quota, 1000).bytes_expire, bytes_expire);
	ck_assert_int_eq(entry(quota, 1000).inodes_expire, 0);
	ck_assert_int_eq(quota_close(quota), 0);
	quota = open_sound(true);
	ck_assert_int_eq(entry(quota, 1000).usage.bytes, 3 << 19);
	ck_assert_int_eq(entry(quota, 1000).usage.inodes, 5);
	quota_abandon(quota);
}
END_TEST

START_TEST(a_timer_that_new_limits_start_is_durable_with_them)
{
	struct quota *quota = open_new();
	charge(quota, &alice, 3 << 19, 1);
	ck_assert_int_eq(quota_set_limits(quota, QUOTA_USER, 1000, &some), 0);
	int64_t expire = entry(quota, 1000).bytes_expire;
	quota_abandon(quota);
	quota = open_sound(false);
	ck_assert_int_ne(expire, 0);
	/* Worked out twice, and a second may have begun in between: limits.c. */
	ck_assert_int_ge(entry(quota, 1000).bytes_expire, expire - 1);
	ck_assert_int_le(entry(quota, 1000).bytes_expire, expire);
	quota_abandon(quota);
}
END_TEST

START_TEST(a_save_writes_only_what_has_changed)
{
	struct quota *quota = open_new();
	for (uint32_t id = 0; id < 1000; id++)
		charge(quota, &(struct quota_owner){{id, 0}}, 4096, 1);
	ck_assert_int_eq(quota_save(quota), 0);
	int64_t stamp = quota->store->stamp;
	charge(quota, &(struct quota_owner){{5, 0}}, 4096, 1);
	ck_assert_int_eq(quota_save(quota), 0);
	ck_assert_int_eq(quota->store->stamp - stamp, 2);
	quota_abandon(quota);
}
END_TEST

START_TEST(a_transaction_that_was_killed_half_way_is_undone)
{
	struct quota *quota = open_new();
	for (uint32_t id = 0; id < 100; id++)
		ck_assert_int_eq(quota_set_limits(quota, QUOTA_USER, id, &some), 0);
	quota_abandon(quota);
	pid_t child = fork();
	if (child == 0) {
		quota = open_sound(false);
		lock_take(&quota->store->lock);
		/* more than SQLite's cache holds, so that part of it is in the file already */
		int r = quota_store_begin_locked(quota->store);
		for (uint32_t id = 0; r == 0 && id < 60000; id++) {
			struct quota_row row = {
				.row_kind = QUOTA_ROW_LIMITS, .key = id, .value = {7, 7, 7, 7}};
			r = quota_store_put_locked(quota->store, &row);
		}
		_exit(r == 0 ? 0 : 1);
	}
	int status;
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	char journal[128];
	struct stat st;
	snprintf(journal, sizeof(journal), "%s-journal", path);
	ck_assert_int_eq(stat(journal, &st), 0);
	ck_assert_int_eq(stat(path, &st), 0);
	ck_assert_int_gt(st.st_size, 1 << 20);

	quota = open_sound(false);
	struct quota_entry *entries;
	size_t nr;
	ck_assert_int_eq(quota_list(quota, QUOTA_USER, &entries, &nr), 0);
	ck_assert_uint_eq(nr, 100);
	for (size_t i = 0; i < nr; i++)
		ck_assert_mem_eq(&entries[i].limits, &some, sizeof(some));
	free(entries);
	quota_abandon(quota);
}
END_TEST

START_TEST(when_the_disk_is_full_limits_stay_as_they_were_and_come_through_later)
{
	const struct quota_limits more = {1, 2, 3, 4};
	struct quota *quota = open_new();
	struct rlimit limit, none;
	ck_assert_int_eq(quota_set_limits(quota, QUOTA_USER, 1000, &some), 0);
	charge(quota, &alice, 4096, 1);
	signal(SIGXFSZ, SIG_IGN);
	ck_assert_int_eq(getrlimit(RLIMIT_FSIZE, &limit), 0);
	none = (struct rlimit){.rlim_cur = 100, .rlim_max = limit.rlim_max};
	ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &none), 0);
	int set = quota_set_limits(quota, QUOTA_USER, 1000, &more), save = quota_save(quota);
	ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
	ck_assert_int_lt(set, 0);
	ck_assert_int_lt(save, 0);
	struct quota_entry e = entry(quota, 1000);
	ck_assert_mem_eq(&e.limits, &some, sizeof(some));
	/* what could not be saved is saved the next time */
	ck_assert_int_eq(quota_close(quota), 0);
	quota = open_sound(true);
	ck_assert_int_eq(entry(quota, 1000).usage.bytes, 4096);
	ck_assert_int_eq(quota_set_limits(quota, QUOTA_USER, 1000, &more), 0);
	quota_abandon(quota);
}
END_TEST

START_TEST(a_database_in_a_directory_that_is_missing_is_an_error_of_the_world)
{
	struct quota *quota = NULL;
	char *why = NULL;
	bool clean;
	ck_assert_int_eq(quota_open("/tmp/no-such-directory-here/quota.db", &quota, &clean, &why),
			 -ENOENT);
	ck_assert_int_eq(quota_open(dir, &quota, &clean, &why), -EISDIR);
	ck_assert_ptr_null(quota);
	ck_assert_ptr_null(why);
}
END_TEST

/* ---- beside others ---- */

#define NR_CHARGES 3000

static void *charge_many(void *arg)
{
	for (int i = 0; i < NR_CHARGES; i++)
		charge(arg, &alice, 2, 1);
	return NULL;
}

START_TEST(limits_are_set_listed_and_saved_while_others_charge)
{
	struct quota *quota = open_new();
	pthread_t threads[3];
	struct quota_limits limits = {0};

	for (int i = 0; i < 3; i++)
		ck_assert_int_eq(pthread_create(&threads[i], NULL, charge_many, quota), 0);
	for (unsigned i = 1; i <= 10; i++) {
		struct quota_entry *entries;
		size_t nr;
		limits.bytes_hard = 1ull << 30 | i;
		ck_assert_int_eq(quota_set_limits(quota, QUOTA_USER, 1000, &limits), 0);
		ck_assert_int_eq(quota_save(quota), 0);
		ck_assert_int_eq(quota_list(quota, QUOTA_USER, &entries, &nr), 0);
		ck_assert_uint_eq(nr, 1);
		ck_assert_uint_eq(entries[0].limits.bytes_hard, limits.bytes_hard);
		free(entries);
	}
	for (int i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
	ck_assert_int_eq(quota_close(quota), 0);
	quota = open_sound(true);
	struct quota_entry e = entry(quota, 1000);
	ck_assert_uint_eq(e.limits.bytes_hard, limits.bytes_hard);
	ck_assert_int_eq(e.usage.bytes, 3 * 2 * NR_CHARGES);
	ck_assert_int_eq(e.usage.inodes, 3 * NR_CHARGES);
	quota_abandon(quota);
}
END_TEST

/* ---- foreign files ---- */

static void write_file(const void *bytes, size_t len)
{
	_cleanup_fclose_ FILE *file = fopen(path, "w");
	ck_assert_ptr_nonnull(file);
	ck_assert_uint_eq(fwrite(bytes, 1, len, file), len);
}

static void refused(const char *because)
{
	struct quota *quota = NULL;
	_cleanup_free_ char *why = NULL;
	struct stat before, after;
	bool clean;
	ck_assert_int_eq(stat(path, &before), 0);
	ck_assert_int_eq(quota_open(path, &quota, &clean, &why), -EUCLEAN);
	ck_assert_ptr_null(quota);
	ck_assert_ptr_nonnull(why);
	ck_assert_msg(strstr(why, because) != NULL, "\"%s\" does not say \"%s\"", why, because);
	ck_assert_int_eq(stat(path, &after), 0);
	ck_assert_int_eq(before.st_size, after.st_size);
	ck_assert_int_eq(before.st_mtim.tv_nsec, after.st_mtim.tv_nsec);
}

START_TEST(an_empty_file_is_a_truncated_one)
{
	write_file("", 0);
	refused("empty");
}
END_TEST

START_TEST(a_text_is_refused)
{
	char text[5000];
	write_file("hello", 5);
	refused("truncated, or no database");
	memset(text, 'x', sizeof(text));
	write_file(text, sizeof(text));
	refused("signature");
}
END_TEST

static void sql(const char *statements)
{
	sqlite3 *db;
	ck_assert_int_eq(sqlite3_open(path, &db), SQLITE_OK);
	ck_assert_int_eq(sqlite3_exec(db, statements, NULL, NULL, NULL), SQLITE_OK);
	ck_assert_int_eq(sqlite3_close(db), SQLITE_OK);
}

START_TEST(somebody_else_s_database_is_refused)
{
	sql("CREATE TABLE t(a); INSERT INTO t VALUES(1);");
	refused("application id 0x00000000");
}
END_TEST

START_TEST(a_later_version_is_refused)
{
	ck_assert_int_eq(quota_close(open_new()), 0);
	sql("PRAGMA user_version=2");
	refused("user_version");
}
END_TEST

START_TEST(another_schema_is_refused)
{
	ck_assert_int_eq(quota_close(open_new()), 0);
	sql("CREATE TABLE more(a)");
	refused("schema");
}
END_TEST

START_TEST(a_value_changed_by_another_hand_is_refused)
{
	struct quota *quota = open_new();
	ck_assert_int_eq(quota_set_limits(quota, QUOTA_USER, 1000, &some), 0);
	ck_assert_int_eq(quota_close(quota), 0);
	sql("UPDATE limits SET bytes_hard = bytes_hard + 1");
	refused("sum");
}
END_TEST

START_TEST(a_state_that_is_neither_is_refused)
{
	ck_assert_int_eq(quota_close(open_new()), 0);
	sql("UPDATE meta SET state = 'dirty'");
	refused("closed cleanly");
}
END_TEST

START_TEST(a_write_ahead_log_is_refused_before_one_is_made)
{
	char wal[128];
	ck_assert_int_eq(quota_close(open_new()), 0);
	sql("PRAGMA journal_mode=WAL; PRAGMA wal_checkpoint(TRUNCATE);");
	refused("journal mode");
	snprintf(wal, sizeof(wal), "%s-wal", path);
	ck_assert_int_ne(access(wal, F_OK), 0);
}
END_TEST

static TCase *add_case(Suite *suite, const char *name)
{
	TCase *tcase = tcase_create(name);
	tcase_add_checked_fixture(tcase, setup, teardown);
	tcase_set_timeout(tcase, 120);
	suite_add_tcase(suite, tcase);
	return tcase;
}

int main(void)
{
	Suite *suite = suite_create("quota");

	TCase *tcase = add_case(suite, "quota_close");
	tcase_add_test(tcase, a_clean_close_keeps_limits_usage_grace_and_timers);
	tcase_add_test(tcase, a_database_lies_alone_in_its_directory_when_closed);
	tcase_add_test(tcase, a_clean_database_is_unclean_as_soon_as_it_is_open);
	tcase_add_test(tcase, a_close_without_the_recount_that_was_due_is_not_clean);
	tcase = add_case(suite, "quota_set_limits");
	tcase_add_test(tcase, limits_are_durable_when_the_process_ends_without_closing);
	tcase_add_test(tcase, a_timer_survives_a_crash_and_the_recount_after_it);
	tcase_add_test(tcase, a_timer_that_new_limits_start_is_durable_with_them);
	tcase_add_test(tcase, a_transaction_that_was_killed_half_way_is_undone);
	tcase_add_test(tcase,
		       when_the_disk_is_full_limits_stay_as_they_were_and_come_through_later);
	tcase = add_case(suite, "quota_save");
	tcase_add_test(tcase, a_save_writes_only_what_has_changed);
	tcase_add_test(tcase, limits_are_set_listed_and_saved_while_others_charge);
	tcase = add_case(suite, "quota_open");
	tcase_add_test(tcase, a_database_in_a_directory_that_is_missing_is_an_error_of_the_world);
	tcase_add_test(tcase, an_empty_file_is_a_truncated_one);
	tcase_add_test(tcase, a_text_is_refused);
	tcase_add_test(tcase, somebody_else_s_database_is_refused);
	tcase_add_test(tcase, a_later_version_is_refused);
	tcase_add_test(tcase, another_schema_is_refused);
	tcase_add_test(tcase, a_value_changed_by_another_hand_is_refused);
	tcase_add_test(tcase, a_state_that_is_neither_is_refused);
	tcase_add_test(tcase, a_write_ahead_log_is_refused_before_one_is_made);
	SRunner *runner = srunner_create(suite);
	srunner_set_tap(runner, "-");
	srunner_run_all(runner, CK_SILENT);
	int failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
