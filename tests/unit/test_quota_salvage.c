/* SPDX-License-Identifier: MIT */
/* Damaged databases: never a crash, never a silent reset, never a wrong limit; and what can be read
 * is kept. */
#include <check.h>
#include <fcntl.h>
#include <glob.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "quota/private.h"

#define NR_IDS 300u

static char dir[64];
static char path[96];
static uint8_t *image; /* of a sound database, closed cleanly */
static size_t image_len;

/* Each id has limits, usage and grace of its own, so that a mix-up shows. */
static struct quota_limits limits_of(uint32_t id)
{
	return (struct quota_limits){id * 1000003ull + 1, id * 1000003ull + 2, id + 7,
				     id * 70ull + 9};
}

static uint32_t id_of(uint32_t i)
{
	return i * 2654435761u;
}

static void remove_all(void)
{
	glob_t found;
	char pattern[96];
	snprintf(pattern, sizeof(pattern), "%s/*", dir);
	if (glob(pattern, 0, NULL, &found) == 0) {
		for (size_t i = 0; i < found.gl_pathc; i++)
			unlink(found.gl_pathv[i]);
		globfree(&found);
	}
}

static size_t count_files(void)
{
	glob_t found;
	char pattern[96];
	snprintf(pattern, sizeof(pattern), "%s/*", dir);
	size_t nr = glob(pattern, 0, NULL, &found) == 0 ? found.gl_pathc : 0;
	if (nr)
		globfree(&found);
	return nr;
}

static uint8_t *read_file(const char *name, size_t *ret_len)
{
	struct stat st;
	_cleanup_close_ int fd = open(name, O_RDONLY);
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(fstat(fd, &st), 0);
	uint8_t *bytes = malloc((size_t)st.st_size + 1);
	ck_assert_int_eq(read(fd, bytes, (size_t)st.st_size + 1), st.st_size);
	*ret_len = (size_t)st.st_size;
	return bytes;
}

static void write_file(const void *bytes, size_t len)
{
	_cleanup_close_ int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(write(fd, bytes, len), (ssize_t)len);
}

static void setup(void)
{
	const struct quota_grace grace = {4321, 8765};
	struct quota *quota;
	char *why = NULL;
	bool clean;

	/* in memory where that can be: thousands of databases are made */
	strcpy(dir, access("/dev/shm", W_OK) == 0 ? "/dev/shm/test_quota.XXXXXX"
						  : "/tmp/test_quota.XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/quota.db", dir);
	ck_assert_int_eq(quota_open(path, &quota, &clean, &why), 0);
	for (uint32_t i = 0; i < NR_IDS; i++) {
		struct quota_limits limits = limits_of(id_of(i));
		ck_assert_int_eq(
			quota_set_limits(quota, (enum quota_kind)(i % 2), id_of(i), &limits), 0);
		quota_usage_add(quota, &(struct quota_owner){{id_of(i), id_of(i)}}, i, 1);
	}
	ck_assert_int_eq(quota_set_grace(quota, QUOTA_USER, &grace), 0);
	quota_usage_settle(quota);
	ck_assert_int_eq(quota_close(quota), 0);
	image = read_file(path, &image_len);
}

static void teardown(void)
{
	remove_all();
	rmdir(dir);
	free(image);
}

/* Every limit in @quota must be the one that was set. Returns how many there are. */
static unsigned check_limits(struct quota *quota)
{
	unsigned nr = 0;
	for (uint32_t i = 0; i < NR_IDS; i++) {
		struct quota_entry entry;
		struct quota_limits expected = limits_of(id_of(i)), none = {0};
		quota_get(quota, (enum quota_kind)(i % 2), id_of(i), &entry);
		if (memcmp(&entry.limits, &none, sizeof(none)) == 0)
			continue;
		ck_assert_mem_eq(&entry.limits, &expected, sizeof(expected));
		nr++;
	}
	return nr;
}

/* Opens a file that may be damaged: all is there, or it is refused and not touched. True if
 * refused. */
static bool open_or_refuse(const uint8_t *bytes, size_t len, size_t at)
{
	struct quota *quota = NULL;
	_cleanup_free_ char *why = NULL;
	bool clean;

	write_file(bytes, len);
	int r = quota_open(path, &quota, &clean, &why);
	if (r == 0) {
		ck_assert_msg(check_limits(quota) == NR_IDS, "damage at %zu lost limits in silence",
			      at);
		for (uint32_t i = 0; clean && i < NR_IDS; i++) {
			struct quota_entry entry;
			ck_assert_int_eq(quota_get(quota, QUOTA_USER, id_of(i), &entry), 1);
			ck_assert_msg(entry.usage.bytes == i,
				      "damage at %zu changed usage in silence", at);
		}
		quota_abandon(quota);
		return false;
	}
	size_t after_len;
	_cleanup_free_ uint8_t *after = read_file(path, &after_len);
	ck_assert_msg(r == -EUCLEAN && why, "damage at %zu: %d", at, r);
	ck_assert_ptr_null(quota);
	ck_assert_msg(after_len == len && memcmp(after, bytes, len) == 0,
		      "damage at %zu: file was changed", at);
	ck_assert_uint_eq(count_files(), 1);
	return true;
}

/* Salvages, and opens what came of it. Returns the limits kept. */
static unsigned salvage(const uint8_t *bytes, size_t len)
{
	struct quota *quota = NULL;
	char *why = NULL;
	bool clean = true;
	uint64_t kept = 0;
	char damaged[128];

	remove_all();
	write_file(bytes, len);
	ck_assert_int_eq(quota_salvage(path, &kept), 0);
	snprintf(damaged, sizeof(damaged), "%s.damaged-1", path);
	size_t old_len;
	_cleanup_free_ uint8_t *old = read_file(damaged, &old_len);
	ck_assert(old_len == len && memcmp(old, bytes, len) == 0);
	int r = quota_open(path, &quota, &clean, &why);
	ck_assert_msg(r == 0, "after salvage: %d %s", r, why ? why : "");
	ck_assert(!clean);
	unsigned nr = check_limits(quota);
	ck_assert_uint_eq(nr, kept);
	quota_abandon(quota);
	remove_all();
	return nr;
}

START_TEST(damage_to_any_byte_is_harmless_or_refused_and_never_silent)
{
	unsigned refused = 0, tried = 0;
	for (size_t at = (size_t)_i; at < image_len; at += 4 * 29) {
		image[at] ^= 0xff;
		refused += open_or_refuse(image, image_len, at);
		image[at] ^= 0xff;
		tried++;
	}
	/* the test itself: damage must be seen where it matters, and most of the file matters */
	ck_assert_uint_gt(refused, tried / 3);
}
END_TEST

START_TEST(one_flipped_bit_is_harmless_or_refused_and_never_silent)
{
	for (size_t at = (size_t)_i; at < image_len; at += 4 * 31) {
		uint8_t bit = (uint8_t)(1u << at % 8);
		image[at] ^= bit;
		open_or_refuse(image, image_len, at);
		image[at] ^= bit;
	}
}
END_TEST

START_TEST(the_first_hundred_bytes_may_be_anything)
{
	for (size_t at = 0; at < 100; at++) {
		for (unsigned value = 0; value < 256; value += 51) {
			uint8_t was = image[at];
			image[at] = (uint8_t)value;
			open_or_refuse(image, image_len, at);
			image[at] = was;
		}
	}
}
END_TEST

START_TEST(a_truncated_database_is_refused_at_any_length)
{
	for (size_t len = 0; len < image_len; len += len < 600 ? 7 : 997)
		ck_assert_msg(open_or_refuse(image, len, len), "%zu of %zu bytes were accepted",
			      len, image_len);
	ck_assert(open_or_refuse(image, image_len - 1, image_len - 1));
	ck_assert(!open_or_refuse(image, image_len, image_len));
}
END_TEST

START_TEST(a_database_with_something_behind_it_is_refused)
{
	image = realloc(image, image_len + 1);
	image[image_len] = 0;
	ck_assert(open_or_refuse(image, image_len + 1, image_len));
}
END_TEST

START_TEST(a_page_swapped_for_another_is_refused)
{
	size_t nr_pages = image_len / QUOTA_DB_PAGE_SIZE;
	for (size_t i = 1; i + 1 < nr_pages; i++) {
		_cleanup_free_ uint8_t *copy = malloc(image_len);
		memcpy(copy, image, image_len);
		memcpy(copy + i * QUOTA_DB_PAGE_SIZE, image + (i + 1) * QUOTA_DB_PAGE_SIZE,
		       QUOTA_DB_PAGE_SIZE);
		ck_assert(open_or_refuse(copy, image_len, i * QUOTA_DB_PAGE_SIZE));
	}
}
END_TEST

START_TEST(a_sound_database_is_salvaged_whole)
{
	ck_assert_uint_eq(salvage(image, image_len), NR_IDS);
}
END_TEST

START_TEST(any_page_may_be_lost_and_no_limit_is)
{
	for (size_t at = 0; at < image_len; at += QUOTA_DB_PAGE_SIZE) {
		_cleanup_free_ uint8_t *copy = malloc(image_len);
		memcpy(copy, image, image_len);
		memset(copy + at, _i ? 0xff : 0, QUOTA_DB_PAGE_SIZE);
		ck_assert_msg(salvage(copy, image_len) == NR_IDS, "without the page at %zu", at);
	}
}
END_TEST

START_TEST(any_damaged_byte_leaves_all_limits_to_be_salvaged)
{
	for (size_t at = 0; at < image_len; at += 1021) {
		image[at] ^= 0xff;
		ck_assert_msg(salvage(image, image_len) == NR_IDS, "with a damaged byte at %zu",
			      at);
		image[at] ^= 0xff;
	}
}
END_TEST

START_TEST(a_truncated_database_gives_what_is_left_of_it)
{
	unsigned last = 0;
	for (size_t len = 0; len <= image_len; len += QUOTA_DB_PAGE_SIZE / 2) {
		unsigned kept = salvage(image, len);
		ck_assert_uint_ge(kept, last);
		last = kept;
	}
	ck_assert_uint_eq(last, NR_IDS);
	ck_assert_uint_gt(salvage(image, image_len / 2), 0);
}
END_TEST

START_TEST(noise_is_salvaged_to_nothing_and_never_crashes)
{
	unsigned seed = (unsigned)_i;
	_cleanup_free_ uint8_t *noise = malloc(image_len);
	static const uint8_t types[] = {0x02, 0x0a, 0x0d};
	for (size_t at = 0; at < image_len; at++)
		noise[at] = (uint8_t)(rand_r(&seed) >> 8);
	for (size_t at = 0; at < image_len; at += QUOTA_DB_PAGE_SIZE)
		noise[at] = types[at / QUOTA_DB_PAGE_SIZE % 3];
	ck_assert_uint_eq(salvage(noise, image_len), 0);
}
END_TEST

START_TEST(the_newest_of_several_copies_is_kept)
{
	struct quota *quota;
	bool clean;
	uint64_t kept;
	const struct quota_limits newer = {11, 22, 33, 44}, none = {0};
	struct quota_entry entry;
	ck_assert_int_eq(quota_open(path, &quota, &clean, NULL), 0);
	ck_assert_int_eq(quota_set_limits(quota, QUOTA_USER, id_of(0), &newer), 0);
	ck_assert_int_eq(quota_set_limits(quota, QUOTA_USER, id_of(2), &none), 0);
	quota_abandon(quota);
	/* an old image behind the new one: every page of it is found, too */
	_cleanup_close_ int fd = open(path, O_WRONLY | O_APPEND);
	ck_assert_int_eq(write(fd, image, image_len), (ssize_t)image_len);
	ck_assert_int_eq(quota_salvage(path, &kept), 0);
	ck_assert_uint_eq(kept, NR_IDS - 1);
	ck_assert_int_eq(quota_open(path, &quota, &clean, NULL), 0);
	ck_assert_int_eq(quota_get(quota, QUOTA_USER, id_of(0), &entry), 1);
	ck_assert_mem_eq(&entry.limits, &newer, sizeof(newer));
	quota_get(quota, QUOTA_USER, id_of(2), &entry);
	ck_assert_mem_eq(&entry.limits, &none, sizeof(none));
	quota_abandon(quota);
}
END_TEST

START_TEST(grace_and_timers_are_kept_and_usage_is_not)
{
	struct quota *quota;
	bool clean;
	uint64_t kept;
	struct quota_grace grace;
	struct quota_entry before, after;
	ck_assert_int_eq(quota_open(path, &quota, &clean, NULL), 0);
	quota_usage_add(quota, &(struct quota_owner){{id_of(4), 0}}, 1ull << 60, 1);
	quota_usage_settle(quota);
	ck_assert_int_eq(quota_get(quota, QUOTA_USER, id_of(4), &before), 1);
	ck_assert_int_ne(before.bytes_expire, 0);
	ck_assert_int_eq(quota_close(quota), 0);
	ck_assert_int_eq(quota_salvage(path, &kept), 0);
	ck_assert_int_eq(quota_open(path, &quota, &clean, NULL), 0);
	ck_assert(!clean);
	quota_get_grace(quota, QUOTA_USER, &grace);
	ck_assert_uint_eq(grace.bytes_seconds, 4321);
	ck_assert_uint_eq(grace.inodes_seconds, 8765);
	ck_assert_int_eq(quota_get(quota, QUOTA_USER, id_of(4), &after), 1);
	ck_assert_int_eq(after.bytes_expire, before.bytes_expire);
	ck_assert_int_eq(after.usage.bytes, 0);
	quota_abandon(quota);
}
END_TEST

START_TEST(each_salvage_keeps_the_file_under_a_number_of_its_own)
{
	uint64_t kept;
	char name[128];
	for (int n = 1; n <= 3; n++) {
		ck_assert_int_eq(quota_salvage(path, &kept), 0);
		ck_assert_uint_eq(kept, NR_IDS);
		snprintf(name, sizeof(name), "%s.damaged-%d", path, n);
		ck_assert_int_eq(access(name, F_OK), 0);
	}
	ck_assert_uint_eq(count_files(), 4);
	unlink(path);
	ck_assert_int_eq(quota_salvage(path, &kept), -ENOENT);
}
END_TEST

START_TEST(a_journal_is_set_aside_with_its_database_and_read)
{
	char journal[128], aside[128];
	pid_t child = fork();
	if (child == 0) {
		struct quota *quota;
		bool clean;
		if (quota_open(path, &quota, &clean, NULL) != 0)
			_exit(1);
		lock_take(&quota->store->lock);
		int r = quota_store_begin_locked(quota->store);
		for (int64_t id = 0; r == 0 && id < 40000; id++) {
			struct quota_row row = {.row_kind = QUOTA_ROW_USAGE, .key = id << 16};
			r = quota_store_put_locked(quota->store, &row);
		}
		_exit(r == 0 ? 0 : 1);
	}
	int status;
	uint64_t kept;
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	snprintf(journal, sizeof(journal), "%s-journal", path);
	snprintf(aside, sizeof(aside), "%s.damaged-1-journal", path);
	ck_assert_int_eq(access(journal, F_OK), 0);
	ck_assert_int_eq(quota_salvage(path, &kept), 0);
	ck_assert_uint_eq(kept, NR_IDS);
	ck_assert_int_ne(access(journal, F_OK), 0);
	ck_assert_int_eq(access(aside, F_OK), 0);
}
END_TEST

static TCase *add_case(Suite *suite, const char *name)
{
	TCase *tcase = tcase_create(name);
	tcase_add_checked_fixture(tcase, setup, teardown);
	tcase_set_timeout(tcase, 200);
	suite_add_tcase(suite, tcase);
	return tcase;
}

int main(void)
{
	Suite *suite = suite_create("quota");

	TCase *tcase = add_case(suite, "quota_open");
	tcase_add_loop_test(tcase, damage_to_any_byte_is_harmless_or_refused_and_never_silent, 0,
			    4);
	tcase_add_loop_test(tcase, one_flipped_bit_is_harmless_or_refused_and_never_silent, 0, 4);
	tcase_add_test(tcase, the_first_hundred_bytes_may_be_anything);
	tcase_add_test(tcase, a_truncated_database_is_refused_at_any_length);
	tcase_add_test(tcase, a_database_with_something_behind_it_is_refused);
	tcase_add_test(tcase, a_page_swapped_for_another_is_refused);
	tcase = add_case(suite, "quota_salvage");
	tcase_add_test(tcase, a_sound_database_is_salvaged_whole);
	tcase_add_loop_test(tcase, any_page_may_be_lost_and_no_limit_is, 0, 2);
	tcase_add_test(tcase, any_damaged_byte_leaves_all_limits_to_be_salvaged);
	tcase_add_test(tcase, a_truncated_database_gives_what_is_left_of_it);
	tcase_add_loop_test(tcase, noise_is_salvaged_to_nothing_and_never_crashes, 0, 5);
	tcase_add_test(tcase, the_newest_of_several_copies_is_kept);
	tcase_add_test(tcase, grace_and_timers_are_kept_and_usage_is_not);
	tcase_add_test(tcase, each_salvage_keeps_the_file_under_a_number_of_its_own);
	tcase_add_test(tcase, a_journal_is_set_aside_with_its_database_and_read);
	SRunner *runner = srunner_create(suite);
	srunner_set_tap(runner, "-");
	srunner_run_all(runner, CK_SILENT);
	int failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
