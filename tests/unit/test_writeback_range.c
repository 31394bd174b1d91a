/* SPDX-License-Identifier: MIT */
/* Changing a file's length beside readers and write-back, and syncing beside failures. */
#include "tests/unit/wb_fixture.h"

#include <errno.h>

#define P WB_PAGE_SIZE
#define PAGES 64

struct reader {
	struct wb_file *file;
	_Atomic bool stop;
};

static void *read_for_ever(void *arg)
{
	struct reader *reader = arg;
	struct wb_read *read = malloc(sizeof(*read));

	while (!atomic_load(&reader->stop)) {
		if (wb_file_read(reader->file, 0, PAGES * P, read) == 0)
			wb_read_release(read);
	}
	free(read);
	return NULL;
}

/* Whether the bytes [from, to) are all @byte. */
static bool bytes_are(struct wb_fixture *fx, size_t from, size_t to, char byte)
{
	static struct wb_read read;
	bool same = true;

	ck_assert_int_eq(wb_file_read(fx->file, from, to - from, &read), 0);
	ck_assert_uint_eq(read.len, to - from);
	for (unsigned i = 0; i < read.nr_iov; i++) {
		for (size_t at = 0; at < read.iov[i].iov_len; at++)
			same = same && ((char *)read.iov[i].iov_base)[at] == byte;
	}
	wb_read_release(&read);
	return same;
}

/* A file that is written, shortened by @shorten and made long again, with pages coming and going all the time. */
static void shorten_beside_readers(int engine, void (*shorten)(struct wb_fixture *fx, uint64_t size))
{
	struct wb_config config = fixture_config(engine);
	struct wb_fixture fx;
	struct reader reader = { 0 };
	pthread_t thread[2];
	static char data[PAGES * P];

	config.cache_bytes = 16 * PAGES * P;
	config.dirty_writeback_centisecs = 1;
	config.dirty_expire_centisecs = 0;
	fixture_begin(&fx, &config);
	reader.file = fx.file;
	for (int i = 0; i < 2; i++)
		pthread_create(&thread[i], NULL, read_for_ever, &reader);
	uint64_t end_ns = clock_now_ns() + 2 * NSEC_PER_SEC;
	for (unsigned i = 1; clock_now_ns() < end_ns; i++) {
		uint64_t size = i * 7919 % (PAGES * P);
		memset(data, 'a', sizeof(data));
		ck_assert_int_eq(wb_file_write(fx.file, 0, data, sizeof(data)), 0);
		/* Partly in flight, partly dirty, or dropped and to be read again. */
		wb_file_write_behind(fx.file, i % PAGES * P, PAGES * P);
		if (i % 3 == 0)
			ck_assert_int_eq(wb_file_invalidate(fx.file, 0, PAGES * P), 0);
		shorten(&fx, size);
		ck_assert_int_eq(wb_file_truncate(fx.file, PAGES * P), 0);
		ck_assert(size == 0 || bytes_are(&fx, 0, size, 'a'));
		ck_assert(bytes_are(&fx, size, PAGES * P, 0));
	}
	atomic_store(&reader.stop, true);
	for (int i = 0; i < 2; i++)
		pthread_join(thread[i], NULL);
	fixture_end(&fx);
}

static void by_truncate(struct wb_fixture *fx, uint64_t size)
{
	ck_assert_int_eq(wb_file_truncate(fx->file, size), 0);
}

static void by_rollback(struct wb_fixture *fx, uint64_t size)
{
	struct wb_rollback_result result;

	ck_assert_int_eq(wb_file_rollback(fx->file, (enum wb_rollback)(size % 3), size, PAGES * P, P, &result), 0);
}

START_TEST(readers_do_not_bring_back_what_a_truncation_cut_off)
{
	shorten_beside_readers(_i, by_truncate);
}
END_TEST

START_TEST(readers_do_not_bring_back_what_a_rollback_undid)
{
	shorten_beside_readers(_i, by_rollback);
}
END_TEST

START_TEST(a_truncation_that_the_backing_refused_changes_nothing)
{
	struct wb_config config = fixture_config(_i);
	struct wb_fixture fx;
	static char data[3 * P];

	memset(data, 'k', sizeof(data));
	fixture_begin(&fx, &config);
	ck_assert_int_eq(wb_file_write(fx.file, 0, data, sizeof(data)), 0);
	ck_assert_int_eq(wb_file_sync(fx.file, false), 0);
	int bad = open(fx.path, O_RDONLY), good = dup(fx.file->fd);
	dup2(bad, fx.file->fd);
	ck_assert_int_lt(wb_file_truncate(fx.file, 100), 0);
	ck_assert_int_lt(wb_file_truncate(fx.file, 10 * P), 0);
	dup2(good, fx.file->fd);
	ck_assert_uint_eq(wb_file_size(fx.file), sizeof(data));
	ck_assert(bytes_are(&fx, 0, sizeof(data), 'k'));
	fixture_backing_is(&fx, (unsigned char *)data, sizeof(data));
	close(bad);
	close(good);
	fixture_end(&fx);
}
END_TEST

START_TEST(an_fsync_that_the_backing_failed_is_told_to_every_opener)
{
	struct wb_config config = fixture_config(_i);
	struct wb_fixture fx;
	int pipes[2];

	fixture_begin(&fx, &config);
	uint32_t first = wb_file_error_sample(fx.file), second = first;
	ck_assert_int_eq(pipe(pipes), 0);
	dup2(pipes[0], fx.file->fd); /* cannot be synced */
	ck_assert_int_eq(wb_file_sync(fx.file, true), -EINVAL);
	ck_assert_int_eq(wb_file_error(fx.file, &first), -EINVAL);
	ck_assert_int_eq(wb_file_error(fx.file, &second), -EINVAL);
	ck_assert_int_eq(wb_file_error(fx.file, &second), 0);
	close(pipes[0]);
	close(pipes[1]);
	fixture_end(&fx);
}
END_TEST

START_TEST(a_sync_of_many_files_waits_for_them_together)
{
	struct wb_config config = fixture_config(_i % 2);
	struct wb_fixture fx;
	struct wb_file *files[50];

	config.device.latency_ns = 50 * NSEC_PER_MSEC;
	config.completion = _i < 2 ? WB_COMPLETION_STREAM : WB_COMPLETION_BATCH;
	fixture_begin(&fx, &config);
	for (uint64_t i = 0; i < 50; i++) {
		ck_assert_int_eq(wb_file_new(fx.cache, i + 2, 0, &fixture_ops, &fx, &files[i]), 0);
		ck_assert(!wb_file_get(files[i]));
		wb_file_set_fd(files[i], fixture_open(fx.path));
		ck_assert_int_eq(wb_file_write(files[i], i * P, "x", 1), 0);
	}
	uint64_t start_ns = clock_now_ns();
	ck_assert_int_eq(wb_cache_sync(fx.cache), 0);
	ck_assert_uint_lt(clock_now_ns() - start_ns, NSEC_PER_SEC);
	for (uint64_t i = 0; i < 50; i++)
		wb_file_free(files[i]);
	fixture_end(&fx);
}
END_TEST

static Suite *make_suite(void)
{
	Suite *suite = suite_create("writeback");
	TCase *tc = tcase_create("wb_file_truncate");

	tcase_set_timeout(tc, 60);
	tcase_add_loop_test(tc, readers_do_not_bring_back_what_a_truncation_cut_off, 0, 2);
	tcase_add_loop_test(tc, readers_do_not_bring_back_what_a_rollback_undid, 0, 2);
	tcase_add_loop_test(tc, a_truncation_that_the_backing_refused_changes_nothing, 0, 2);
	tcase_add_loop_test(tc, an_fsync_that_the_backing_failed_is_told_to_every_opener, 0, 2);
	tcase_add_loop_test(tc, a_sync_of_many_files_waits_for_them_together, 0, 4);
	suite_add_tcase(suite, tc);
	return suite;
}

WB_TEST_MAIN(make_suite)
