/* SPDX-License-Identifier: MIT */
/* Files with a writer each, readers, syncs, knobs that turn and a cache that is too small, all at once. */
#include "tests/unit/wb_fixture.h"

#include "base/sizes.h"

#define P WB_PAGE_SIZE
#define MAX_BYTES (256 * P + 123)
#define WRITERS 3

struct stress {
	struct wb_cache *cache;
	_Atomic bool stop;
	_Atomic int owed; /* dirty() without its clean() */
};

static void stress_dirty(void *owner)
{
	atomic_fetch_add(&((struct stress *)owner)->owed, 1);
}

static void stress_clean(void *owner)
{
	atomic_fetch_sub(&((struct stress *)owner)->owed, 1);
}

static const struct wb_file_ops stress_ops = { .dirty = stress_dirty, .clean = stress_clean };

struct writer {
	struct stress *stress;
	pthread_t thread, reader;
	struct wb_file *file;
	_Atomic bool stop_reader;
	char path[64];
	unsigned seed;
	size_t size;
	unsigned char bytes[MAX_BYTES];
};

static unsigned rnd(struct writer *w, unsigned below)
{
	return (unsigned)rand_r(&w->seed) % below;
}

/* Beside the writer: what it sees may be old or new, but it must not hang or crash. */
static void *read_beside(void *arg)
{
	struct writer *w = arg;
	struct wb_read *read = malloc(sizeof(*read));
	unsigned seed = 1;

	while (!atomic_load(&w->stop_reader)) {
		if (wb_file_read(w->file, (uint64_t)rand_r(&seed) % MAX_BYTES, (size_t)rand_r(&seed) % 300000, read) == 0)
			wb_read_release(read);
	}
	free(read);
	return NULL;
}

static void verify(struct writer *w)
{
	struct wb_read *read = malloc(sizeof(*read));

	for (uint64_t off = 0; off < w->size; off += read->len) {
		ck_assert_int_eq(wb_file_read(w->file, off, WB_MAX_READ, read), 0);
		ck_assert_uint_gt(read->len, 0);
		uint64_t at = off;
		for (unsigned i = 0; i < read->nr_iov; at += read->iov[i++].iov_len)
			ck_assert_int_eq(memcmp(read->iov[i].iov_base, w->bytes + at, read->iov[i].iov_len), 0);
		size_t len = read->len;
		wb_read_release(read);
		read->len = len;
	}
	free(read);
}

static void write_some(struct writer *w)
{
	static _Thread_local unsigned char data[100000];
	size_t off = rnd(w, MAX_BYTES), len = 1 + rnd(w, rnd(w, 2) ? 5000 : sizeof(data));

	len = (size_t)min_u64(len, MAX_BYTES - off);
	memset(data, (int)rnd(w, 256), len);
	wb_throttle(w->stress->cache, len);
	ck_assert_int_eq(wb_file_write(w->file, off, data, len), 0);
	memcpy(w->bytes + off, data, len);
	w->size = (size_t)max_u64(w->size, off + len);
}

static void cut(struct writer *w, size_t size, bool rollback)
{
	struct wb_rollback_result result;

	if (rollback)
		ck_assert_int_eq(wb_file_rollback(w->file, (enum wb_rollback)rnd(w, 3), size, w->size, P, &result), 0);
	else
		ck_assert_int_eq(wb_file_truncate(w->file, size), 0);
	if (size < w->size)
		memset(w->bytes + size, 0, w->size - size);
	w->size = size;
}

static void check_backing(struct writer *w)
{
	static _Thread_local unsigned char got[MAX_BYTES + 1];
	int fd = open(w->path, O_RDONLY | O_CLOEXEC);

	ck_assert_int_eq(wb_file_sync(w->file, rnd(w, 2)), 0);
	ck_assert_int_eq((int)pread(fd, got, sizeof(got), 0), (int)w->size);
	ck_assert_int_eq(memcmp(got, w->bytes, w->size), 0);
	close(fd);
}

static void file_begin(struct writer *w)
{
	/* What was left of the last one stays on the backing. */
	struct stat st;
	ck_assert_int_eq(stat(w->path, &st), 0);
	ck_assert_int_eq(wb_file_new(w->stress->cache, 1, (uint64_t)st.st_size, &stress_ops, w->stress, &w->file), 0);
	ck_assert(!wb_file_get(w->file));
	wb_file_set_fd(w->file, fixture_open(w->path));
	atomic_store(&w->stop_reader, false);
	pthread_create(&w->reader, NULL, read_beside, w);
}

static void file_end(struct writer *w)
{
	atomic_store(&w->stop_reader, true);
	pthread_join(w->reader, NULL);
	wb_file_put(w->file);
	if (wb_file_free(w->file))
		atomic_fetch_sub(&w->stress->owed, 1);
}

static void *write_and_check(void *arg)
{
	struct writer *w = arg;

	file_begin(w);
	while (!atomic_load(&w->stress->stop)) {
		for (unsigned i = 0, n = rnd(w, 6); i < n; i++)
			write_some(w);
		switch (rnd(w, 12)) {
		case 0:
			cut(w, rnd(w, MAX_BYTES), false);
			break;
		case 1:
			cut(w, w->size - rnd(w, (unsigned)w->size + 1), true);
			break;
		case 2:
			check_backing(w);
			break;
		case 3:
			ck_assert_int_eq(wb_file_invalidate(w->file, rnd(w, MAX_BYTES), rnd(w, MAX_BYTES)), 0);
			break;
		case 4:
			wb_file_write_behind(w->file, rnd(w, MAX_BYTES), 1 + rnd(w, MAX_BYTES));
			break;
		case 5:
			if (rnd(w, 8) > 0)
				break;
			check_backing(w);
			file_end(w);
			file_begin(w);
			break;
		default:
			verify(w);
		}
	}
	check_backing(w);
	file_end(w);
	return NULL;
}

static void *turn_knobs(void *arg)
{
	struct stress *stress = arg;
	struct wb_config config;
	struct wb_stats stats;
	unsigned seed = 7;

	for (unsigned i = 0; !atomic_load(&stress->stop); i++) {
		wb_cache_get_config(stress->cache, &config);
		config.cache_bytes = (uint64_t)(1 + rand_r(&seed) % 4) << 20;
		config.congestion = (enum wb_congestion)(rand_r(&seed) % 3);
		config.completion = (enum wb_completion)(rand_r(&seed) % 2);
		config.congestion_kb = (uint64_t)rand_r(&seed) % 2048;
		config.device.rate = rand_r(&seed) % 2 ? 200u << 20 : 0;
		config.device.latency_ns = rand_r(&seed) % 2 ? NSEC_PER_MSEC : 0;
		ck_assert_int_eq(wb_cache_configure(stress->cache, &config), 0);
		wb_cache_get_stats(stress->cache, &stats);
		if (i % 16 == 0)
			wb_cache_reset_stats(stress->cache);
		if (i % 4 == 0)
			ck_assert_int_eq(wb_cache_sync(stress->cache), 0);
		usleep(3000);
	}
	return NULL;
}

START_TEST(everything_at_once_keeps_every_byte_and_every_count)
{
	struct wb_config config = fixture_config(_i);
	struct stress stress = { 0 };
	static struct writer writer[WRITERS];
	struct wb_stats stats;
	pthread_t knobs;

	config.cache_bytes = 2 << 20;
	config.dirty_writeback_centisecs = 1;
	config.dirty_expire_centisecs = 1;
	config.restart_poll_ms = 10;
	ck_assert_int_eq(wb_cache_new(&config, &stress.cache), 0);
	for (unsigned i = 0; i < WRITERS; i++) {
		writer[i] = (struct writer){ .stress = &stress, .seed = (unsigned)getpid() + i };
		strcpy(writer[i].path, "/var/tmp/wbstressXXXXXX");
		close(mkstemp(writer[i].path));
		pthread_create(&writer[i].thread, NULL, write_and_check, &writer[i]);
	}
	pthread_create(&knobs, NULL, turn_knobs, &stress);
	usleep(3000000);
	atomic_store(&stress.stop, true);
	pthread_join(knobs, NULL);
	for (unsigned i = 0; i < WRITERS; i++) {
		pthread_join(writer[i].thread, NULL);
		unlink(writer[i].path);
	}
	/* The last completion may still be on its way out. */
	do
		wb_cache_get_stats(stress.cache, &stats);
	while (stats.gate.outstanding > 0);
	ck_assert_uint_eq(stats.cache.pages, 0);
	ck_assert_uint_eq(stats.cache.dirty, 0);
	ck_assert_uint_eq(stats.cache.writeback, 0);
	ck_assert_uint_eq(stats.cache.files, 0);
	ck_assert(!stats.gate.congested);
	ck_assert_uint_eq(stats.device.inflight, 0);
	wb_cache_free(stress.cache);
	ck_assert_int_eq(atomic_load(&stress.owed), 0);
}
END_TEST

static Suite *make_suite(void)
{
	Suite *suite = suite_create("writeback");
	TCase *tc = tcase_create("wb_cache");

	tcase_set_timeout(tc, 60);
	tcase_add_loop_test(tc, everything_at_once_keeps_every_byte_and_every_count, 0, 2);
	suite_add_tcase(suite, tc);
	return suite;
}

WB_TEST_MAIN(make_suite)
