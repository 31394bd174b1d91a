/* SPDX-License-Identifier: MIT */
/* A cache and a file on a real backing file, for the tests of writeback/. */
#ifndef TESTS_UNIT_WB_FIXTURE_H
#define TESTS_UNIT_WB_FIXTURE_H

#include <check.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "writeback/private.h"

struct wb_fixture {
	struct wb_cache *cache;
	struct wb_file *file;
	char path[64];
	_Atomic int dirty_calls, clean_calls;
};

static inline void fixture_dirty(void *owner)
{
	atomic_fetch_add(&((struct wb_fixture *)owner)->dirty_calls, 1);
}

static inline void fixture_clean(void *owner)
{
	atomic_fetch_add(&((struct wb_fixture *)owner)->clean_calls, 1);
}

static const struct wb_file_ops fixture_ops = { .dirty = fixture_dirty, .clean = fixture_clean };

static inline struct wb_config fixture_config(int engine)
{
	return (struct wb_config){
		.cache_bytes = 64 << 20,
		.dirty_expire_centisecs = 3000,
		.dirty_writeback_centisecs = 500,
		.congestion = WB_CONGESTION_BLOCK,
		.restart_poll_ms = 200,
		.engine = engine == 0 ? WB_ENGINE_URING : WB_ENGINE_PWRITE,
	};
}

static inline int fixture_open(const char *path)
{
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	ck_assert_int_ge(fd, 0);
	return fd;
}

static inline void fixture_begin(struct wb_fixture *fx, const struct wb_config *config)
{
	memset(fx, 0, sizeof(*fx));
	strcpy(fx->path, "/var/tmp/wbtestXXXXXX");
	int fd = mkstemp(fx->path);
	ck_assert_int_ge(fd, 0);
	close(fd);
	ck_assert_int_eq(wb_cache_new(config, &fx->cache), 0);
	ck_assert_int_eq(wb_file_new(fx->cache, 1, 0, &fixture_ops, fx, &fx->file), 0);
	ck_assert(!wb_file_get(fx->file));
	wb_file_set_fd(fx->file, fixture_open(fx->path));
}

static inline void fixture_end(struct wb_fixture *fx)
{
	wb_file_free(fx->file);
	wb_cache_free(fx->cache);
	unlink(fx->path);
}

/** Compares the backing file with what it should hold, byte for byte. */
static inline void fixture_backing_is(struct wb_fixture *fx, const unsigned char *model, size_t len)
{
	struct stat st;
	ck_assert_int_eq(stat(fx->path, &st), 0);
	ck_assert_uint_eq((unsigned long)st.st_size, len);
	int fd = open(fx->path, O_RDONLY);
	unsigned char *got = malloc(len + 1);
	ck_assert_int_eq((int)pread(fd, got, len, 0), (int)len);
	/* An assertion a byte would take longer than the test. */
	size_t i = 0;
	while (i < len && got[i] == model[i])
		i++;
	if (i < len)
		ck_abort_msg("byte %zu is %u and should be %u", i, got[i], model[i]);
	free(got);
	close(fd);
}

#define WB_TEST_MAIN(make_suite)                                                                   \
	int main(void)                                                                             \
	{                                                                                          \
		SRunner *runner = srunner_create(make_suite());                                    \
		srunner_set_tap(runner, "-");                                                      \
		srunner_run_all(runner, CK_SILENT);                                                \
		int failed = srunner_ntests_failed(runner);                                        \
		srunner_free(runner);                                                              \
		return failed != 0;                                                                \
	}

#endif
