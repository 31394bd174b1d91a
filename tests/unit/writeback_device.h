/* SPDX-License-Identifier: MIT */
/* What the tests of the device and of its engines share: one device, one file, and writes that say
 * when they are done. */
#ifndef TESTS_UNIT_WRITEBACK_DEVICE_H
#define TESTS_UNIT_WRITEBACK_DEVICE_H

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "writeback/device.h"

#define PAGE WB_PAGE_SIZE
#define MAX_IOV 8
#define MS NSEC_PER_MSEC

static struct lock lock;
static struct cond cond;
static uint64_t nr_done; /* [lock] */
static struct wb_device *device;
static int fd = -1;
static char *buf; /* page aligned, random */
#define BUF_PAGES 64

struct write {
	struct wb_io io;
	struct iovec iov[MAX_IOV];
	uint64_t done_ns;
	uint64_t order; /* how many were done before it */
};

static inline void write_done(struct wb_io *io)
{
	struct write *write = (struct write *)(void *)io;
	LOCK_SCOPE(&lock);
	write->done_ns = clock_now_ns();
	write->order = nr_done++;
	cond_wake_all(&cond);
}

static inline void wait_done(uint64_t nr)
{
	LOCK_SCOPE(&lock);
	while (nr_done < nr)
		ck_assert_msg(cond_wait_until(&cond, &lock, clock_now_ns() + 20 * NSEC_PER_SEC),
			      "lost: %lu of %lu writes are done", nr_done, nr);
}

/* @len bytes from the start of the buffer. */
static inline void write_init(struct write *write, int to, uint64_t off, size_t len)
{
	*write = (struct write){.io = {.fd = to, .off = off, .len = len, .nr_iov = 1}};
	write->io.iov = write->iov;
	write->io.done = write_done;
	write->iov[0] = (struct iovec){buf, len};
}

static inline void submit(struct write *write, unsigned nr)
{
	struct list ios;
	list_init(&ios);
	for (unsigned i = 0; i < nr; i++)
		list_add_tail(&ios, &write[i].io.link);
	wb_device_submit(device, &ios);
	ck_assert(list_is_empty(&ios));
}

/* @nr pages from @off on, one write each. */
static inline struct write *submit_pages(uint64_t off, unsigned nr)
{
	struct write *write = calloc(nr, sizeof(*write));
	for (unsigned i = 0; i < nr; i++)
		write_init(&write[i], fd, off + (uint64_t)i * PAGE, PAGE);
	submit(write, nr);
	return write;
}

static inline void set_model(uint64_t rate, uint64_t latency_ns, uint64_t seek_ns, uint32_t depth,
			     enum wb_completion completion)
{
	struct wb_device_model model = {
		.rate = rate, .latency_ns = latency_ns, .seek_ns = seek_ns, .depth = depth};
	wb_device_set_model(device, &model, completion);
}

static inline struct wb_device_stats stats(void)
{
	struct wb_device_stats s;
	wb_device_get_stats(device, &s);
	return s;
}

static inline int open_temp(int flags)
{
	const char *dir = getenv("TMPDIR");
	int file = open(dir ? dir : "/var/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC | flags, 0600);
	ck_assert_msg(file >= 0, "a temporary file: %s", strerror(errno));
	return file;
}

static inline enum wb_engine engine_of(int i)
{
	return i == 0 ? WB_ENGINE_URING : WB_ENGINE_PWRITE;
}

/* False where the machine has no such engine. */
static inline bool begin(int i)
{
	int r = wb_device_new(engine_of(i), &device);
	if (i == 0 && r < 0) {
		printf("# SKIP: no io_uring on this machine: %s\n", strerror(-r));
		return false;
	}
	ck_assert_int_eq(r, 0);
	ck_assert_str_eq(stats().engine, i == 0 ? "io_uring" : "pwrite");
	return true;
}

static inline void setup(void)
{
	lock_init(&lock);
	cond_init(&cond);
	signal(SIGXFSZ, SIG_IGN);
	fd = open_temp(0);
	buf = aligned_alloc(PAGE, BUF_PAGES * PAGE);
	for (unsigned i = 0; i < BUF_PAGES * PAGE; i++)
		buf[i] = (char)rand();
}

static inline void teardown(void)
{
	if (device) {
		ck_assert_uint_eq(stats().inflight, 0);
		wb_device_free(device);
	}
	close(fd);
	free(buf);
}

static inline void add_both(TCase *tc, const TTest *test)
{
	tcase_add_loop_test(tc, test, 0, 2);
}

static TCase *new_tcase(Suite *s, const char *name)
{
	TCase *tc = tcase_create(name);
	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_set_timeout(tc, 60);
	suite_add_tcase(s, tc);
	return tc;
}

#endif
