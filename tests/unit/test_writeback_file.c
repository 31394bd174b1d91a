/* SPDX-License-Identifier: MIT */
/* A file of the cache against a plain array of bytes, on both engines. */
#include "tests/unit/wb_fixture.h"

#include <errno.h>
#include <sys/resource.h>

#include "base/sizes.h"

#define P WB_PAGE_SIZE
#define FILE_MAX_BYTES (3u << 20)

/* ---- random operations against a model ---- */

struct model {
	unsigned char *bytes;
	size_t size;
	unsigned seed;
};

static unsigned rnd(struct model *m, unsigned below)
{
	return (unsigned)rand_r(&m->seed) % below;
}

static void do_write(struct wb_fixture *fx, struct model *m)
{
	static unsigned char data[200000];
	size_t off = rnd(m, FILE_MAX_BYTES - sizeof(data)), len = 1 + rnd(m, rnd(m, 2) ? 6000 : sizeof(data) - 1);

	if (rnd(m, 2))
		off &= ~(size_t)(P - 1);
	if (rnd(m, 2))
		len = (len + P - 1) & ~(size_t)(P - 1);
	if (len > sizeof(data))
		len = sizeof(data);
	for (size_t i = 0; i < len; i++)
		data[i] = (unsigned char)rand_r(&m->seed);
	ck_assert_int_eq(wb_file_write(fx->file, off, data, len), 0);
	memcpy(m->bytes + off, data, len);
	if (off + len > m->size)
		m->size = off + len;
}

static void do_read(struct wb_fixture *fx, struct model *m)
{
	static struct wb_read read;
	size_t off = rnd(m, FILE_MAX_BYTES), len = 1 + rnd(m, 300000);
	size_t want = off >= m->size ? 0 : (size_t)min_u64(len, m->size - off);

	ck_assert_int_eq(wb_file_read(fx->file, off, len, &read), 0);
	ck_assert_uint_eq(read.len, want);
	size_t at = off;
	for (unsigned i = 0; i < read.nr_iov; i++) {
		ck_assert_int_eq(memcmp(read.iov[i].iov_base, m->bytes + at, read.iov[i].iov_len), 0);
		at += read.iov[i].iov_len;
	}
	ck_assert_uint_eq(at - off, want);
	wb_read_release(&read);
}

static void do_truncate(struct wb_fixture *fx, struct model *m)
{
	size_t size = rnd(m, FILE_MAX_BYTES);

	ck_assert_int_eq(wb_file_truncate(fx->file, size), 0);
	if (size < m->size)
		memset(m->bytes + size, 0, m->size - size);
	m->size = size;
}

static void do_rollback(struct wb_fixture *fx, struct model *m)
{
	struct wb_rollback_result result;
	size_t size = m->size - rnd(m, m->size > 100000 ? 100000 : (unsigned)m->size + 1);

	ck_assert_int_eq(wb_file_rollback(fx->file, (enum wb_rollback)rnd(m, 3), size, m->size, P, &result), 0);
	memset(m->bytes + size, 0, m->size - size);
	m->size = size;
}

static void step(struct wb_fixture *fx, struct model *m)
{
	switch (rnd(m, 16)) {
	case 0:
		do_truncate(fx, m);
		break;
	case 1:
		do_rollback(fx, m);
		break;
	case 2:
		ck_assert_int_eq(wb_file_sync(fx->file, true), 0);
		fixture_backing_is(fx, m->bytes, m->size);
		break;
	case 3:
		ck_assert_int_eq(wb_file_invalidate(fx->file, rnd(m, FILE_MAX_BYTES), rnd(m, FILE_MAX_BYTES)), 0);
		break;
	case 4:
		wb_file_write_behind(fx->file, rnd(m, FILE_MAX_BYTES), 1 + rnd(m, 100000));
		break;
	case 5:
		ck_assert_int_eq(wb_file_flush(fx->file, rnd(m, FILE_MAX_BYTES), 1 + rnd(m, 100000)), 0);
		break;
	case 6:
	case 7:
	case 8:
		do_read(fx, m);
		break;
	default:
		do_write(fx, m);
	}
}

START_TEST(random_operations_leave_what_an_array_would)
{
	struct wb_config config = fixture_config(_i % 2);
	struct wb_fixture fx;
	struct model m = { .bytes = calloc(1, FILE_MAX_BYTES + 1), .seed = (unsigned)(getpid() + _i) };
	unsigned seed = m.seed;

	/* Half of the runs with a cache smaller than the file: reclaim all the time. */
	config.cache_bytes = _i < 2 ? 16 << 20 : 1 << 20;
	config.dirty_writeback_centisecs = 1;
	config.dirty_expire_centisecs = 1;
	config.completion = _i % 3 == 0 ? WB_COMPLETION_BATCH : WB_COMPLETION_STREAM;
	fixture_begin(&fx, &config);
	for (unsigned i = 0; i < 600; i++)
		step(&fx, &m);
	ck_assert_int_eq(wb_file_sync(fx.file, true), 0);
	fixture_backing_is(&fx, m.bytes, m.size);
	struct wb_stats stats;
	wb_cache_get_stats(fx.cache, &stats);
	ck_assert_msg(stats.cache.pages <= stats.cache.limit_pages, "seed %u", seed);
	ck_assert_uint_eq(stats.cache.pages, wb_file_resident(fx.file));
	ck_assert_uint_eq(stats.cache.dirty, 0);
	ck_assert_uint_eq(stats.gate.outstanding, 0);
	free(m.bytes);
	fixture_end(&fx);
}
END_TEST

/* ---- single facts ---- */

START_TEST(the_backing_has_the_exact_size_after_fsync)
{
	static const size_t sizes[] = { 1, 100, P - 1, P, P + 1, 5 * P + 7, 512 * 1024 + 3 };
	static unsigned char data[600000];

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		struct wb_config config = fixture_config(_i);
		struct wb_fixture fx;
		memset(data, (int)i + 1, sizeof(data));
		fixture_begin(&fx, &config);
		ck_assert_int_eq(wb_file_write(fx.file, 0, data, sizes[i]), 0);
		ck_assert_int_eq(wb_file_sync(fx.file, false), 0);
		fixture_backing_is(&fx, data, sizes[i]);
		fixture_end(&fx);
	}
}
END_TEST

START_TEST(a_whole_page_is_overwritten_without_reading_it)
{
	struct wb_config config = fixture_config(_i);
	struct wb_fixture fx;
	static unsigned char data[4 * P];

	fixture_begin(&fx, &config);
	ck_assert_int_eq(wb_file_write(fx.file, 0, data, sizeof(data)), 0);
	ck_assert_int_eq(wb_file_invalidate(fx.file, 0, sizeof(data)), 0);
	/* The descriptor now refuses to read: a fill would fail. */
	lock_take(&fx.file->lock);
	int fd = open(fx.path, O_WRONLY);
	dup2(fd, fx.file->fd);
	close(fd);
	lock_release(&fx.file->lock);
	ck_assert_int_eq(wb_file_write(fx.file, P, data, 2 * P), 0);
	ck_assert_int_eq(wb_file_write(fx.file, 10, data, 5), -EBADF);
	fixture_end(&fx);
}
END_TEST

START_TEST(owner_is_told_once_per_round)
{
	struct wb_config config = fixture_config(_i);
	struct wb_fixture fx;

	fixture_begin(&fx, &config);
	for (int round = 1; round <= 3; round++) {
		for (int i = 0; i < 5; i++)
			ck_assert_int_eq(wb_file_write(fx.file, (uint64_t)i * P, "x", 1), 0);
		ck_assert_int_eq(wb_file_sync(fx.file, true), 0);
		for (int i = 0; i < 1000 && atomic_load(&fx.clean_calls) < round; i++)
			usleep(1000);
		ck_assert_int_eq(atomic_load(&fx.clean_calls), round);
		ck_assert_int_ge(atomic_load(&fx.dirty_calls), 1);
	}
	ck_assert_int_eq(atomic_load(&fx.dirty_calls), atomic_load(&fx.clean_calls));
	fixture_end(&fx);
}
END_TEST

START_TEST(a_failed_write_stays_dirty_and_is_reported_once_per_opener)
{
	struct wb_config config = fixture_config(_i);
	struct wb_fixture fx;
	static unsigned char data[8 * P];

	config.dirty_writeback_centisecs = 0;
	fixture_begin(&fx, &config);
	uint32_t first = wb_file_error_sample(fx.file), second = first;
	memset(data, 'k', sizeof(data));
	ck_assert_int_eq(wb_file_write(fx.file, 0, data, sizeof(data)), 0);
	/* The world fails: both descriptors refuse to write. */
	int fd = open(fx.path, O_RDONLY);
	int good = dup(fx.file->fd), good_direct = dup(fx.file->fd_direct);
	dup2(fd, fx.file->fd);
	dup2(fd, fx.file->fd_direct);
	ck_assert_int_eq(wb_file_sync(fx.file, true), -EBADF);
	ck_assert(wb_file_is_dirty(fx.file));
	uint32_t late = wb_file_error_sample(fx.file);
	ck_assert_int_eq(wb_file_error(fx.file, &first), -EBADF);
	ck_assert_int_eq(wb_file_error(fx.file, &first), 0);
	ck_assert_int_eq(wb_file_error(fx.file, &second), -EBADF);
	/* Sampled before anybody was told: still to come. */
	ck_assert_int_eq(wb_file_error(fx.file, &late), -EBADF);
	uint32_t later = wb_file_error_sample(fx.file);
	ck_assert_int_eq(wb_file_error(fx.file, &later), 0);
	/* It heals: nothing was lost. */
	dup2(good, fx.file->fd);
	dup2(good_direct, fx.file->fd_direct);
	ck_assert_int_eq(wb_file_sync(fx.file, true), 0);
	fixture_backing_is(&fx, data, sizeof(data));
	close(fd);
	close(good);
	close(good_direct);
	fixture_end(&fx);
}
END_TEST

struct endless {
	struct wb_fixture *fx;
	_Atomic bool stop;
	uint64_t writes;
};

static void *write_for_ever(void *arg)
{
	struct endless *endless = arg;
	static unsigned char data[16 * P];

	for (uint64_t i = 0; !atomic_load(&endless->stop); i++) {
		wb_throttle(endless->fx->cache, sizeof(data));
		wb_file_write(endless->fx->file, i % 64 * sizeof(data), data, sizeof(data));
		endless->writes++;
	}
	return NULL;
}

START_TEST(a_sync_ends_beside_an_endless_writer)
{
	struct wb_config config = fixture_config(_i);
	struct wb_fixture fx;
	struct endless endless = { .fx = &fx };
	struct wb_stats before, after;
	pthread_t thread;

	/* 4 MiB dirty at 64 MB/s: 63 ms, whatever comes meanwhile. */
	config.device.rate = 64000000;
	config.dirty_writeback_centisecs = 0;
	fixture_begin(&fx, &config);
	pthread_create(&thread, NULL, write_for_ever, &endless);
	usleep(100000);
	for (int i = 0; i < 5; i++) {
		wb_cache_get_stats(fx.cache, &before);
		ck_assert_int_eq(wb_file_flush(fx.file, 0, UINT64_MAX), 0);
		wb_cache_get_stats(fx.cache, &after);
		/* At most what was dirty or in flight, and as much again that was written to while in flight. */
		ck_assert_uint_le(after.device.bytes - before.device.bytes, 3 * 64ull * 16 * P);
	}
	atomic_store(&endless.stop, true);
	pthread_join(thread, NULL);
	ck_assert_uint_gt(endless.writes, 64);
	fixture_end(&fx);
}
END_TEST

START_TEST(second_chance_spares_what_is_used)
{
	struct wb_config config = fixture_config(_i);
	struct wb_fixture fx;
	static unsigned char data[64 * P];
	static struct wb_read read;

	config.cache_bytes = 256 * P;
	fixture_begin(&fx, &config);
	for (uint64_t i = 0; i < 3; i++)
		ck_assert_int_eq(wb_file_write(fx.file, i * sizeof(data), data, sizeof(data)), 0);
	ck_assert_int_eq(wb_file_sync(fx.file, true), 0);
	/* A stream of new pages passes through; the first 16 are read all the time. */
	for (uint64_t i = 3; i < 40; i++) {
		ck_assert_int_eq(wb_file_write(fx.file, i * sizeof(data), data, sizeof(data)), 0);
		ck_assert_int_eq(wb_file_sync(fx.file, true), 0);
		ck_assert_int_eq(wb_file_read(fx.file, 0, 16 * P, &read), 0);
		wb_read_release(&read);
	}
	lock_take(&fx.file->lock);
	unsigned spared = 0;
	for (uint64_t i = 0; i < 16; i++)
		spared += wb_index_find_locked(fx.file, i) != 0;
	lock_release(&fx.file->lock);
	ck_assert_uint_eq(spared, 16);
	ck_assert_uint_le(wb_file_resident(fx.file), 256);
	fixture_end(&fx);
}
END_TEST

START_TEST(pages_of_a_freed_file_are_never_written)
{
	struct wb_config config = fixture_config(_i);
	struct wb_fixture fx;
	struct wb_stats stats;
	struct wb_file *other;

	fixture_begin(&fx, &config);
	ck_assert_int_eq(wb_file_new(fx.cache, 2, 0, &fixture_ops, &fx, &other), 0);
	ck_assert(!wb_file_get(other));
	wb_file_set_fd(other, fixture_open(fx.path));
	ck_assert_int_eq(wb_file_write(other, 0, "dead", 4), 0);
	ck_assert(wb_file_free(other));
	ck_assert_int_eq(wb_cache_sync(fx.cache), 0);
	wb_cache_get_stats(fx.cache, &stats);
	ck_assert_uint_eq(stats.device.writes, 0);
	ck_assert_uint_eq(stats.cache.pages, 0);
	fixture_end(&fx);
}
END_TEST

static void *end_soon(void *arg)
{
	usleep(100000);
	wb_cache_shutdown_begin(arg);
	return NULL;
}

START_TEST(a_writer_that_waits_for_memory_does_not_outlast_the_end)
{
	struct wb_config config = fixture_config(_i);
	struct wb_fixture fx;
	static unsigned char data[2 << 20];
	pthread_t thread;

	config.cache_bytes = 1 << 20;
	fixture_begin(&fx, &config);
	ck_assert_int_eq(wb_file_write(fx.file, 0, data, 100), 0);
	int bad = open(fx.path, O_RDONLY);
	dup2(bad, fx.file->fd);
	dup2(bad, fx.file->fd_direct);
	pthread_create(&thread, NULL, end_soon, fx.cache);
	uint64_t start_ns = clock_now_ns();
	ck_assert_int_eq(wb_file_write(fx.file, 0, data, sizeof(data)), -EIO);
	ck_assert_uint_lt(clock_now_ns() - start_ns, 20 * NSEC_PER_SEC);
	ck_assert_uint_eq(wb_file_size(fx.file), 100);
	ck_assert_uint_eq(wb_file_resident(fx.file), 1);
	pthread_join(thread, NULL);
	close(bad);
	fixture_end(&fx);
}
END_TEST

START_TEST(a_cache_made_smaller_returns_its_memory_and_goes_on)
{
	struct wb_config config = fixture_config(_i);
	struct wb_fixture fx;
	static unsigned char data[8 << 20];

	config.cache_bytes = 16 << 20;
	fixture_begin(&fx, &config);
	for (int round = 0; round < 3; round++) {
		memset(data, round + 1, sizeof(data));
		ck_assert_int_eq(wb_file_write(fx.file, 0, data, sizeof(data)), 0);
		ck_assert_int_eq(wb_file_sync(fx.file, true), 0);
		config.cache_bytes = 1 << 20;
		ck_assert_int_eq(wb_cache_configure(fx.cache, &config), 0);
		ck_assert_uint_le(wb_file_resident(fx.file), 256);
		ck_assert_uint_ge(fx.cache->arena.nr_free, 1024);
		config.cache_bytes = 16 << 20;
		ck_assert_int_eq(wb_cache_configure(fx.cache, &config), 0);
	}
	fixture_backing_is(&fx, data, sizeof(data));
	fixture_end(&fx);
}
END_TEST

static Suite *make_suite(void)
{
	Suite *suite = suite_create("writeback");
	TCase *tc = tcase_create("wb_file");

	tcase_set_timeout(tc, 120);
	tcase_add_loop_test(tc, random_operations_leave_what_an_array_would, 0, 4);
	tcase_add_loop_test(tc, the_backing_has_the_exact_size_after_fsync, 0, 2);
	tcase_add_loop_test(tc, a_whole_page_is_overwritten_without_reading_it, 0, 2);
	tcase_add_loop_test(tc, owner_is_told_once_per_round, 0, 2);
	tcase_add_loop_test(tc, a_failed_write_stays_dirty_and_is_reported_once_per_opener, 0, 2);
	tcase_add_loop_test(tc, a_sync_ends_beside_an_endless_writer, 0, 2);
	tcase_add_loop_test(tc, second_chance_spares_what_is_used, 0, 2);
	tcase_add_loop_test(tc, pages_of_a_freed_file_are_never_written, 0, 2);
	tcase_add_loop_test(tc, a_writer_that_waits_for_memory_does_not_outlast_the_end, 0, 2);
	tcase_add_loop_test(tc, a_cache_made_smaller_returns_its_memory_and_goes_on, 0, 2);
	suite_add_tcase(suite, tc);
	return suite;
}

WB_TEST_MAIN(make_suite)
