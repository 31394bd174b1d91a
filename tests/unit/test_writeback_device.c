/* SPDX-License-Identifier: MIT */
/*
 * The device on real files, every test on both engines.
 *
 * Short writes are real ones: two functions that the engines call are defined here too, and on demand ask the
 * kernel for less than they were told to.
 */
#include <check.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <liburing.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"
#include "writeback/engine.h"
#include "writeback/model.h"

#define PAGE WB_PAGE_SIZE
#define MAX_IOV 8
#define MS NSEC_PER_MSEC

/* ---- short writes on demand ---- */

static _Atomic size_t cut_bytes; /* no call writes more than this; 0: no limit */
static _Atomic unsigned nr_cut;	 /* calls that were cut */
static _Atomic int fail_calls;	 /* so many pwritev() calls from now fail with fail_errno */
static _Atomic int fail_errno;	 /* 0: they write nothing */

ssize_t pwritev(int fd, const struct iovec *iov, int nr, off_t off)
{
	if (fail_calls > 0) {
		fail_calls--;
		errno = fail_errno;
		return fail_errno ? -1 : 0;
	}
	if (cut_bytes) {
		nr_cut++;
		size_t len = iov->iov_len < cut_bytes ? iov->iov_len : cut_bytes;
		return pwrite(fd, iov->iov_base, len, off);
	}
	return pwritev2(fd, iov, nr, off, 0);
}

/* The iovecs need to live until the kernel has taken the requests. */
static void cut_requests(struct io_uring *ring, struct iovec *cut)
{
	unsigned n = 0;
	for (unsigned i = ring->sq.sqe_head; i != ring->sq.sqe_tail; i++) {
		struct io_uring_sqe *sqe = &ring->sq.sqes[i & *ring->sq.kring_mask];
		if (sqe->opcode != IORING_OP_WRITEV)
			continue;
		const struct iovec *iov = (const void *)(uintptr_t)sqe->addr;
		cut[n] = *iov;
		if (cut[n].iov_len > cut_bytes)
			cut[n].iov_len = cut_bytes;
		sqe->addr = (uintptr_t)&cut[n++];
		sqe->len = 1;
		nr_cut++;
	}
}

int io_uring_submit_and_wait_timeout(struct io_uring *ring, struct io_uring_cqe **cqe, unsigned nr,
				     struct __kernel_timespec *ts, sigset_t *mask)
{
	struct iovec cut[1024];
	int (*real)(struct io_uring *, struct io_uring_cqe **, unsigned, struct __kernel_timespec *,
		    sigset_t *);
	*(void **)&real = dlsym(RTLD_NEXT, "io_uring_submit_and_wait_timeout");
	if (cut_bytes)
		cut_requests(ring, cut);
	return real(ring, cqe, nr, ts, mask);
}

/* ---- writes, and their end ---- */

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

static void write_done(struct wb_io *io)
{
	struct write *write = (struct write *)(void *)io;
	LOCK_SCOPE(&lock);
	write->done_ns = clock_now_ns();
	write->order = nr_done++;
	cond_wake_all(&cond);
}

static void wait_done(uint64_t nr)
{
	LOCK_SCOPE(&lock);
	while (nr_done < nr)
		ck_assert_msg(cond_wait_until(&cond, &lock, clock_now_ns() + 20 * NSEC_PER_SEC),
			      "lost: %lu of %lu writes are done", nr_done, nr);
}

/* @len bytes from the start of the buffer. */
static void write_init(struct write *write, int to, uint64_t off, size_t len)
{
	*write = (struct write){ .io = { .fd = to, .off = off, .len = len, .nr_iov = 1 } };
	write->io.iov = write->iov;
	write->io.done = write_done;
	write->iov[0] = (struct iovec){ buf, len };
}

static void submit(struct write *write, unsigned nr)
{
	struct list ios;
	list_init(&ios);
	for (unsigned i = 0; i < nr; i++)
		list_add_tail(&ios, &write[i].io.link);
	wb_device_submit(device, &ios);
	ck_assert(list_is_empty(&ios));
}

/* @nr pages from @off on, one write each. */
static struct write *submit_pages(uint64_t off, unsigned nr)
{
	struct write *write = calloc(nr, sizeof(*write));
	for (unsigned i = 0; i < nr; i++)
		write_init(&write[i], fd, off + (uint64_t)i * PAGE, PAGE);
	submit(write, nr);
	return write;
}

static void set_model(uint64_t rate, uint64_t latency_ns, uint64_t seek_ns, uint32_t depth,
		      enum wb_completion completion)
{
	struct wb_device_model model = {
		.rate = rate, .latency_ns = latency_ns, .seek_ns = seek_ns, .depth = depth
	};
	wb_device_set_model(device, &model, completion);
}

static struct wb_device_stats stats(void)
{
	struct wb_device_stats s;
	wb_device_get_stats(device, &s);
	return s;
}

static int open_temp(int flags)
{
	const char *dir = getenv("TMPDIR");
	int file = open(dir ? dir : "/var/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC | flags, 0600);
	ck_assert_msg(file >= 0, "a temporary file: %s", strerror(errno));
	return file;
}

static enum wb_engine engine_of(int i)
{
	return i == 0 ? WB_ENGINE_URING : WB_ENGINE_PWRITE;
}

/* False where the machine has no such engine. */
static bool begin(int i)
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

static void setup(void)
{
	lock_init(&lock);
	cond_init(&cond);
	signal(SIGXFSZ, SIG_IGN);
	fd = open_temp(0);
	buf = aligned_alloc(PAGE, BUF_PAGES * PAGE);
	for (unsigned i = 0; i < BUF_PAGES * PAGE; i++)
		buf[i] = (char)rand();
}

static void teardown(void)
{
	if (device) {
		ck_assert_uint_eq(stats().inflight, 0);
		wb_device_free(device);
	}
	close(fd);
	free(buf);
}

/* ---- data ---- */

#define DATA_PAGES 4096u

/* Splits the pages among writes of 1 to 8, each of one to four iovecs. */
static unsigned make_vectored(struct write *write, int to, char *data)
{
	unsigned nr = 0;
	for (unsigned page = 0; page < DATA_PAGES;) {
		unsigned pages = 1 + (unsigned)rand() % 8;
		if (pages > DATA_PAGES - page)
			pages = DATA_PAGES - page;
		struct write *w = &write[nr++];
		write_init(w, to, (uint64_t)page * PAGE, (size_t)pages * PAGE);
		w->io.nr_iov = 0;
		for (unsigned p = 0; p < pages;) {
			unsigned n = 1 + (unsigned)rand() % (pages - p);
			w->iov[w->io.nr_iov++] = (struct iovec){
				data + (size_t)(page + p) * PAGE, (size_t)n * PAGE
			};
			p += n;
		}
		page += pages;
	}
	return nr;
}

/* In batches of random length, in random order. */
static void submit_shuffled(struct write *write, unsigned nr)
{
	unsigned *order = calloc(nr, sizeof(*order));
	for (unsigned i = 0; i < nr; i++) {
		unsigned j = (unsigned)rand() % (i + 1);
		order[i] = order[j];
		order[j] = i;
	}
	struct list ios;
	list_init(&ios);
	for (unsigned i = 0; i < nr; i++) {
		list_add_tail(&ios, &write[order[i]].io.link);
		if (rand() % 500 == 0)
			wb_device_submit(device, &ios);
	}
	wb_device_submit(device, &ios);
	free(order);
}

static void check_vectored(int flags)
{
	int to = open_temp(flags);
	char *data = aligned_alloc(PAGE, DATA_PAGES * PAGE);
	char *back = aligned_alloc(PAGE, DATA_PAGES * PAGE);
	struct write *write = calloc(DATA_PAGES, sizeof(*write));
	for (unsigned i = 0; i < DATA_PAGES * PAGE / sizeof(int); i++)
		((int *)(void *)data)[i] = rand();
	unsigned nr = make_vectored(write, to, data);
	submit_shuffled(write, nr);
	wait_done(nr);
	for (unsigned i = 0; i < nr; i++)
		ck_assert_int_eq(write[i].io.res, 0);
	ck_assert_int_eq(pread(to, back, DATA_PAGES * PAGE, 0), DATA_PAGES * PAGE);
	ck_assert_int_eq(memcmp(data, back, DATA_PAGES * PAGE), 0);
	struct wb_device_stats s = stats();
	ck_assert_uint_eq(s.writes, nr);
	ck_assert_uint_eq(s.bytes, DATA_PAGES * PAGE);
	ck_assert_uint_eq(s.errors, 0);
	free(write);
	free(back);
	free(data);
	close(to);
}

START_TEST(buffered_writes_arrive_to_the_byte)
{
	if (begin(_i))
		check_vectored(0);
}
END_TEST

START_TEST(direct_writes_arrive_to_the_byte)
{
	if (begin(_i))
		check_vectored(O_DIRECT);
}
END_TEST

START_TEST(short_buffered_writes_are_completed)
{
	cut_bytes = 1777;
	if (!begin(_i))
		return;
	check_vectored(0);
	ck_assert_uint_ge(nr_cut, DATA_PAGES * PAGE / 1777);
}
END_TEST

START_TEST(short_direct_writes_are_completed_from_an_aligned_byte)
{
	cut_bytes = PAGE + 512;
	if (!begin(_i))
		return;
	check_vectored(O_DIRECT);
	ck_assert_uint_ge(nr_cut, DATA_PAGES / 2);
}
END_TEST

/* ---- errors ---- */

static void limit_file_size(rlim_t bytes)
{
	struct rlimit limit = { bytes, bytes };
	ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

static void check_limit(int to, rlim_t bytes)
{
	struct write write;
	char back[16 * PAGE], path[64];
	limit_file_size(bytes);
	write_init(&write, to, PAGE, 8 * PAGE);
	submit(&write, 1);
	wait_done(1);
	ck_assert_int_eq(write.io.res, -EFBIG);
	ck_assert_uint_eq(write.io.written, bytes - PAGE);
	ck_assert_uint_eq(stats().errors, 1);
	ck_assert_uint_eq(stats().bytes, bytes - PAGE);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", to);
	int plain = open(path, O_RDONLY | O_CLOEXEC);
	ck_assert_int_eq(pread(plain, back, sizeof(back), PAGE), (int)(bytes - PAGE));
	ck_assert_int_eq(memcmp(back, buf, bytes - PAGE), 0);
	close(plain);
}

START_TEST(a_file_size_limit_cuts_a_write_and_is_its_error)
{
	if (begin(_i))
		check_limit(fd, 4 * PAGE + 100);
}
END_TEST

START_TEST(a_file_size_limit_cuts_a_direct_write_and_is_its_error)
{
	int direct = open_temp(O_DIRECT);
	if (begin(_i))
		check_limit(direct, 4 * PAGE);
	close(direct);
}
END_TEST

START_TEST(a_write_to_a_full_device_fails_with_its_error)
{
	struct write write;
	int full = open("/dev/full", O_WRONLY | O_CLOEXEC);
	ck_assert_int_ge(full, 0);
	if (!begin(_i))
		return;
	write_init(&write, full, 0, PAGE);
	submit(&write, 1);
	wait_done(1);
	ck_assert_int_eq(write.io.res, -ENOSPC);
	write_init(&write, -1, 0, PAGE);
	submit(&write, 1);
	wait_done(2);
	ck_assert_int_eq(write.io.res, -EBADF);
	struct wb_device_stats s = stats();
	ck_assert_uint_eq(s.writes, 2);
	ck_assert_uint_eq(s.errors, 2);
	ck_assert_uint_eq(s.bytes, 0);
	close(full);
}
END_TEST

START_TEST(an_interrupted_call_is_made_again_and_one_that_writes_nothing_is_an_error)
{
	struct write write;
	static const int again[] = { EINTR, EAGAIN };
	ck_assert(begin(1)); /* only calls can be made to fail, requests cannot */
	for (unsigned i = 0; i < 2; i++) {
		fail_errno = again[i];
		fail_calls = 5;
		write_init(&write, fd, 0, PAGE);
		submit(&write, 1);
		wait_done(i + 1);
		ck_assert_int_eq(write.io.res, 0);
		ck_assert_int_eq(fail_calls, 0);
	}
	fail_errno = 0;
	fail_calls = 1;
	write_init(&write, fd, 0, PAGE);
	submit(&write, 1);
	wait_done(3);
	ck_assert_int_eq(write.io.res, -EIO);
}
END_TEST

START_TEST(the_ring_tries_again_while_the_kernel_has_no_room)
{
	struct write write;
	int ends[2];
	char got[32 * PAGE];
	size_t len = 0;
	if (!begin(0)) /* positioned calls cannot write to a pipe */
		return;
	ck_assert_int_eq(pipe2(ends, O_NONBLOCK), 0);
	write_init(&write, ends[1], 0, sizeof(got));
	submit(&write, 1);
	while (len < sizeof(got)) {
		ssize_t r = read(ends[0], got + len, 10000);
		if (r > 0)
			len += (size_t)r;
		else
			ck_assert_int_eq(errno, EAGAIN);
	}
	wait_done(1);
	ck_assert_int_eq(write.io.res, 0);
	ck_assert_int_eq(memcmp(got, buf, sizeof(got)), 0);
}
END_TEST

START_TEST(syncs_and_their_errors_are_counted)
{
	if (!begin(_i))
		return;
	ck_assert_int_eq(wb_device_fsync(device, fd, false), 0);
	ck_assert_int_eq(wb_device_fsync(device, fd, true), 0);
	ck_assert_int_eq(wb_device_fsync(device, -1, true), -EBADF);
	ck_assert_uint_eq(stats().fsyncs, 3);
	ck_assert_uint_eq(stats().errors, 1);
}
END_TEST

START_TEST(without_a_ring_the_twin_serves_with_one_notice)
{
	char said[512] = "";
	int log = open_temp(0);
	struct rlimit limit = { 3, 3 };
	struct write write;
	ck_assert_int_ge(dup2(log, STDERR_FILENO), 0);
	/* No further descriptor can be had. */
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
	ck_assert_int_eq(wb_device_new(WB_ENGINE_URING, &device), -EMFILE);
	ck_assert_int_eq(wb_device_new(WB_ENGINE_AUTO, &device), 0);
	ck_assert_str_eq(stats().engine, "pwrite");
	ck_assert_int_gt(pread(log, said, sizeof(said) - 1, 0), 0);
	ck_assert_ptr_nonnull(strstr(said, strerror(EMFILE)));
	ck_assert_ptr_eq(strchr(said, '\n'), said + strlen(said) - 1);
	write_init(&write, fd, 0, PAGE);
	submit(&write, 1);
	wait_done(1);
	ck_assert_int_eq(write.io.res, 0);
}
END_TEST

/* ---- the model ---- */

START_TEST(busy_time_is_bytes_over_rate)
{
	static const uint64_t rates[] = { 20000000, 64u << 20, 333333333 };
	uint64_t total = 0;
	if (!begin(_i))
		return;
	for (unsigned r = 0; r < 3; r++) {
		unsigned nr = (unsigned)(rates[r] / 5 / PAGE); /* 200 ms */
		set_model(rates[r], 0, 0, 0, WB_COMPLETION_STREAM);
		wb_device_reset_stats(device);
		uint64_t begin_ns = clock_now_ns();
		struct write *write = submit_pages(0, nr);
		wait_done(total += nr);
		uint64_t took_ns = clock_now_ns() - begin_ns;
		double exact = (double)nr * PAGE * 1e9 / (double)rates[r];
		ck_assert_double_eq_tol((double)stats().busy_ns, exact, exact / 100);
		ck_assert_uint_eq(stats().bytes, (uint64_t)nr * PAGE);
		ck_assert_double_ge((double)took_ns, exact - 1000);
		/* The virtual clock knows of no late wake-up. */
		ck_assert_uint_eq(write[nr - 1].io.due_ns - write[0].io.arrive_ns, (uint64_t)exact);
		free(write);
	}
}
END_TEST

START_TEST(a_write_is_done_when_due_and_not_before_and_in_order)
{
	unsigned nr = 300;
	if (!begin(_i))
		return;
	set_model(20000000, 5 * MS, MS / 10, 8, WB_COMPLETION_STREAM);
	struct write *write = submit_pages(0, nr);
	wait_done(nr);
	for (unsigned i = 0; i < nr; i++) {
		ck_assert_uint_ge(write[i].done_ns, write[i].io.due_ns);
		ck_assert(i == 0 || write[i].io.due_ns >= write[i - 1].io.due_ns);
		ck_assert(i == 0 || write[i].done_ns >= write[i - 1].done_ns);
	}
	/* Wake-ups are by the clock: the middle one of 300 was not late by a tick of some poll. */
	unsigned punctual = 0;
	for (unsigned i = 0; i < nr; i++)
		punctual += write[i].done_ns - write[i].io.due_ns < 10 * MS;
	ck_assert_uint_gt(punctual, nr / 2);
	free(write);
}
END_TEST

START_TEST(latency_overlaps_up_to_the_depth)
{
	if (!begin(_i))
		return;
	set_model(0, 40 * MS, 0, 4, WB_COMPLETION_STREAM);
	struct write *write = submit_pages(0, 16);
	wait_done(16);
	for (unsigned i = 0; i < 16; i++)
		ck_assert_uint_eq(write[i].io.due_ns - write[0].io.arrive_ns, 40 * MS * (1 + i / 4));
	ck_assert_uint_ge(write[15].done_ns - write[0].io.arrive_ns, 160 * MS);
	/* No turns to add up: busy while something is in flight. */
	ck_assert_uint_ge(stats().busy_ns, 160 * MS);
	ck_assert_uint_le(stats().busy_ns, clock_now_ns() - write[0].io.arrive_ns);
	free(write);
}
END_TEST

START_TEST(every_seek_takes_its_time_and_a_sequence_takes_one)
{
	if (!begin(_i))
		return;
	set_model(0, 0, 2 * MS, 0, WB_COMPLETION_STREAM);
	struct write *write = submit_pages(0, 50);
	wait_done(50);
	ck_assert_uint_eq(stats().busy_ns, 2 * MS);
	free(write);
	write = calloc(20, sizeof(*write));
	for (unsigned i = 0; i < 20; i++)
		write_init(&write[i], fd, (uint64_t)(40 - 2 * i) * PAGE, PAGE);
	submit(write, 20);
	wait_done(70);
	ck_assert_uint_eq(stats().busy_ns, 2 * MS * 21);
	free(write);
}
END_TEST

START_TEST(without_a_model_busy_is_the_time_with_writes_in_flight)
{
	if (!begin(_i))
		return;
	uint64_t begin_ns = clock_now_ns();
	struct write *write = submit_pages(0, 200);
	wait_done(200);
	uint64_t busy_ns = stats().busy_ns;
	ck_assert_uint_gt(busy_ns, 0);
	ck_assert_uint_le(busy_ns, clock_now_ns() - begin_ns);
	usleep(20000);
	ck_assert_uint_eq(stats().busy_ns, busy_ns);
	free(write);
}
END_TEST

/* ---- batches ---- */

START_TEST(a_batch_is_done_together_and_the_next_is_what_was_queued_meanwhile)
{
	if (!begin(_i))
		return;
	/* 10 ms a page. */
	set_model(PAGE * 100, 0, 0, 0, WB_COMPLETION_BATCH);
	struct write *a = submit_pages(0, 10);
	usleep(10000);
	struct write *b = submit_pages(0, 4);
	usleep(10000);
	struct write *c = submit_pages(0, 2);
	ck_assert_uint_eq(stats().inflight, 16);
	wait_done(1);
	uint64_t end_ns = a[0].io.arrive_ns + 100 * MS;
	ck_assert_uint_eq(a[9].io.due_ns, end_ns);
	ck_assert_uint_ge(a[0].done_ns, end_ns);
	usleep(10000);
	struct write *d = submit_pages(0, 1); /* while b and c are served */
	wait_done(17);
	for (unsigned i = 0; i < 10; i++)
		ck_assert_uint_eq(a[i].order, i);
	/* From the very end of the first on, not from its late wake-up. */
	ck_assert_uint_eq(b[0].io.due_ns, end_ns + 10 * MS);
	ck_assert_uint_eq(c[1].io.due_ns, end_ns + 60 * MS);
	for (unsigned i = 0; i < 4; i++)
		ck_assert_uint_ge(b[i].done_ns, c[1].io.due_ns);
	ck_assert_uint_eq(c[1].order, 15);
	ck_assert_uint_eq(d[0].order, 16);
	if (d[0].io.arrive_ns < end_ns + 60 * MS)
		ck_assert_uint_eq(d[0].io.due_ns, end_ns + 70 * MS);
	ck_assert_uint_eq(stats().busy_ns, 170 * MS);
	free(a);
	free(b);
	free(c);
	free(d);
}
END_TEST

START_TEST(a_batch_for_an_idle_device_starts_when_it_is_submitted)
{
	if (!begin(_i))
		return;
	set_model(0, 30 * MS, 0, 0, WB_COMPLETION_BATCH);
	for (unsigned round = 0; round < 3; round++) {
		struct write *write = submit_pages(0, 5);
		wait_done((round + 1) * 5);
		for (unsigned i = 0; i < 5; i++) {
			ck_assert_uint_eq(write[i].io.due_ns, write[i].io.arrive_ns + 30 * MS);
			ck_assert_uint_ge(write[i].done_ns, write[i].io.due_ns);
		}
		free(write);
		usleep(5000);
	}
}
END_TEST

START_TEST(batches_without_a_model_are_done_when_all_of_them_are_answered)
{
	struct write *write[50];
	if (!begin(_i))
		return;
	set_model(0, 0, 0, 0, WB_COMPLETION_BATCH);
	for (unsigned i = 0; i < 50; i++)
		write[i] = submit_pages((uint64_t)i * 40 * PAGE, 40);
	wait_done(50 * 40);
	/* All of one submission are of one batch, and batches keep their order. */
	for (unsigned i = 0; i < 50; i++)
		for (unsigned j = 0; j < 40; j++)
			ck_assert_uint_eq(write[i][j].order, i * 40 + j);
	for (unsigned i = 0; i < 50; i++)
		free(write[i]);
}
END_TEST

START_TEST(breaking_a_batch_up_lets_every_write_go_at_its_own_time)
{
	if (!begin(_i))
		return;
	set_model(PAGE * 50, 0, 0, 0, WB_COMPLETION_BATCH);
	struct write *a = submit_pages(0, 10); /* 20 ms each */
	struct write *b = submit_pages(0, 1);
	usleep(50000);
	ck_assert_uint_eq(stats().inflight, 11);
	set_model(PAGE * 1000, 0, 0, 0, WB_COMPLETION_STREAM);
	wait_done(11);
	for (unsigned i = 0; i < 10; i++)
		ck_assert_uint_eq(a[i].io.due_ns, a[0].io.arrive_ns + (i + 1) * 20 * MS);
	ck_assert_uint_lt(a[0].done_ns, a[9].io.due_ns);
	/* What had not started goes by the new model. */
	ck_assert_uint_ge(b[0].io.due_ns, b[0].io.arrive_ns + 50 * MS);
	ck_assert_uint_lt(b[0].done_ns, a[9].done_ns);
	free(a);
	free(b);
}
END_TEST

/* ---- idle ---- */

START_TEST(idle_time_needs_pages_that_wait_and_a_device_with_nothing_to_do)
{
	if (!begin(_i))
		return;
	usleep(20000);
	ck_assert_uint_eq(stats().idle_ns, 0);

	uint64_t outer_ns = clock_now_ns();
	wb_device_set_waiting(device, true);
	uint64_t inner_ns = clock_now_ns();
	usleep(30000);
	uint64_t open_ns = stats().idle_ns; /* the interval is still open */
	ck_assert_uint_ge(open_ns, 30 * MS);
	usleep(10000);
	inner_ns = clock_now_ns() - inner_ns;
	wb_device_set_waiting(device, false);
	outer_ns = clock_now_ns() - outer_ns;
	uint64_t idle_ns = stats().idle_ns;
	ck_assert_uint_ge(idle_ns, inner_ns);
	ck_assert_uint_le(idle_ns, outer_ns);
	usleep(20000);
	ck_assert_uint_eq(stats().idle_ns, idle_ns);

	/* Held writes are in flight. */
	set_model(0, 60 * MS, 0, 0, WB_COMPLETION_STREAM);
	uint64_t begin_ns = clock_now_ns();
	wb_device_set_waiting(device, true);
	struct write *write = submit_pages(0, 1);
	wait_done(1);
	wb_device_set_waiting(device, false);
	ck_assert_uint_le(stats().idle_ns - idle_ns, clock_now_ns() - begin_ns - 60 * MS);
	wb_device_reset_stats(device);
	ck_assert_uint_eq(stats().idle_ns, 0);
	free(write);
}
END_TEST

START_TEST(counters_reset_while_writes_are_in_flight_count_what_is_done_later)
{
	if (!begin(_i))
		return;
	set_model(PAGE * 1000, 0, 0, 0, WB_COMPLETION_STREAM);
	struct write *write = submit_pages(0, 40);
	wait_done(10);
	wb_device_reset_stats(device);
	ck_assert_uint_le(stats().writes, 30);
	ck_assert_uint_gt(stats().inflight, 0);
	wait_done(40);
	ck_assert_uint_le(stats().writes, 30);
	ck_assert_uint_eq(stats().busy_ns, stats().writes * MS);
	ck_assert_uint_eq(stats().inflight, 0);
	free(write);
}
END_TEST

/* ---- everything at once ---- */

#define NR_THREADS 4
#define BATCHES 150

struct submitter {
	pthread_t thread;
	unsigned seed;
	uint64_t nr;
	struct write *write;
};

static void *submitter_main(void *arg)
{
	struct submitter *me = arg;
	for (unsigned b = 0; b < BATCHES; b++) {
		unsigned nr = 1 + (unsigned)rand_r(&me->seed) % 64;
		for (unsigned i = 0; i < nr; i++)
			write_init(&me->write[me->nr + i], fd, (uint64_t)rand_r(&me->seed) % 1024 * PAGE,
				   PAGE);
		submit(&me->write[me->nr], nr);
		me->nr += nr;
		usleep((useconds_t)rand_r(&me->seed) % 10000);
	}
	return NULL;
}

static void switch_at_random(void)
{
	static const struct wb_device_model models[] = {
		{ 0 },
		{ .rate = 200u << 20 },
		{ .rate = 50u << 20, .latency_ns = 3 * MS, .depth = 64 },
		{ .latency_ns = 20 * MS },
		{ .latency_ns = MS / 10, .depth = 2 },
		{ .rate = 400u << 20, .seek_ns = MS / 50, .depth = 500 },
	};
	wb_device_set_model(device, &models[rand() % 6],
			    rand() % 2 ? WB_COMPLETION_BATCH : WB_COMPLETION_STREAM);
	wb_device_set_waiting(device, rand() % 2);
	if (rand() % 10 == 0)
		wb_device_reset_stats(device);
}

START_TEST(no_write_is_lost_while_model_and_completion_change)
{
	struct submitter submitter[NR_THREADS];
	uint64_t nr = 0, end_ns = clock_now_ns() + 900 * MS;
	if (!begin(_i))
		return;
	for (unsigned i = 0; i < NR_THREADS; i++) {
		submitter[i] = (struct submitter){ .seed = i };
		submitter[i].write = calloc(BATCHES * 64, sizeof(struct write));
		pthread_create(&submitter[i].thread, NULL, submitter_main, &submitter[i]);
	}
	while (clock_now_ns() < end_ns) {
		switch_at_random();
		usleep(3000);
	}
	for (unsigned i = 0; i < NR_THREADS; i++) {
		pthread_join(submitter[i].thread, NULL);
		nr += submitter[i].nr;
	}
	wait_done(nr);
	for (unsigned i = 0; i < NR_THREADS; i++) {
		for (uint64_t w = 0; w < submitter[i].nr; w++) {
			ck_assert_int_eq(submitter[i].write[w].io.res, 0);
			ck_assert_uint_ge(submitter[i].write[w].done_ns,
					  submitter[i].write[w].io.due_ns);
		}
		free(submitter[i].write);
	}
	ck_assert_uint_eq(nr_done, nr);
}
END_TEST

/* ---- wb_io_advance ---- */

START_TEST(a_write_goes_on_with_the_rest_of_an_iovec_and_then_with_the_others)
{
	struct write write;
	write_init(&write, fd, 1000, 300);
	for (unsigned i = 0; i < 3; i++)
		write.iov[i] = (struct iovec){ buf + 100 * i, 100 };
	write.io.nr_iov = 3;
	wb_io_begin(&write.io);
	ck_assert_int_eq(wb_io_advance(&write.io, -EINTR), WB_IO_MORE);
	ck_assert_int_eq(wb_io_advance(&write.io, -EAGAIN), WB_IO_AGAIN);
	ck_assert_int_eq(wb_io_advance(&write.io, -ECANCELED), WB_IO_AGAIN);
	ck_assert_int_eq(wb_io_advance(&write.io, 130), WB_IO_MORE);
	struct wb_io_segment s = wb_io_segment(&write.io);
	ck_assert_uint_eq(s.off, 1130);
	ck_assert_uint_eq(s.nr_iov, 1);
	ck_assert_ptr_eq(s.iov->iov_base, buf + 130);
	ck_assert_uint_eq(s.iov->iov_len, 70);
	ck_assert_int_eq(wb_io_advance(&write.io, 70), WB_IO_MORE);
	s = wb_io_segment(&write.io);
	ck_assert_uint_eq(s.off, 1200);
	ck_assert_ptr_eq(s.iov, &write.iov[2]);
	ck_assert_uint_eq(s.nr_iov, 1);
	ck_assert_int_eq(wb_io_advance(&write.io, 100), WB_IO_ANSWERED);
	ck_assert_int_eq(write.io.res, 0);
	ck_assert_uint_eq(write.iov[1].iov_len, 100); /* the caller's are as they were */
	wb_io_begin(&write.io);
	ck_assert_int_eq(wb_io_advance(&write.io, 0), WB_IO_ANSWERED);
	ck_assert_int_eq(write.io.res, -EIO);
}
END_TEST

START_TEST(a_direct_write_that_stops_inside_a_sector_of_its_first_page_is_an_error)
{
	struct write write;
	int direct = open_temp(O_DIRECT);
	write_init(&write, direct, PAGE, 4 * PAGE);
	wb_io_begin(&write.io);
	ck_assert_int_eq(wb_io_advance(&write.io, PAGE + 700), WB_IO_MORE);
	ck_assert_uint_eq(write.io.written, PAGE);
	ck_assert_int_eq(wb_io_advance(&write.io, 512), WB_IO_MORE);
	ck_assert_uint_eq(write.io.written, PAGE + 512);
	ck_assert_int_eq(wb_io_advance(&write.io, 700), WB_IO_ANSWERED);
	ck_assert_int_eq(write.io.res, -EIO);
	close(direct);
}
END_TEST

static void add_both(TCase *tc, const TTest *test)
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

static void add_engine_cases(Suite *s)
{
	TCase *tc = new_tcase(s, "wb_device_submit");
	add_both(tc, buffered_writes_arrive_to_the_byte);
	add_both(tc, direct_writes_arrive_to_the_byte);
	add_both(tc, short_buffered_writes_are_completed);
	add_both(tc, short_direct_writes_are_completed_from_an_aligned_byte);
	add_both(tc, a_file_size_limit_cuts_a_write_and_is_its_error);
	add_both(tc, a_file_size_limit_cuts_a_direct_write_and_is_its_error);
	add_both(tc, a_write_to_a_full_device_fails_with_its_error);
	tcase_add_test(tc, an_interrupted_call_is_made_again_and_one_that_writes_nothing_is_an_error);
	tcase_add_test(tc, the_ring_tries_again_while_the_kernel_has_no_room);
	tc = new_tcase(s, "wb_device_fsync");
	add_both(tc, syncs_and_their_errors_are_counted);
	tc = new_tcase(s, "wb_device_new");
	tcase_add_test(tc, without_a_ring_the_twin_serves_with_one_notice);
	tc = new_tcase(s, "wb_io_advance");
	tcase_add_test(tc, a_write_goes_on_with_the_rest_of_an_iovec_and_then_with_the_others);
	tcase_add_test(tc, a_direct_write_that_stops_inside_a_sector_of_its_first_page_is_an_error);
}

static void add_time_cases(Suite *s)
{
	TCase *tc = new_tcase(s, "wb_device_set_model");
	add_both(tc, busy_time_is_bytes_over_rate);
	add_both(tc, a_write_is_done_when_due_and_not_before_and_in_order);
	add_both(tc, latency_overlaps_up_to_the_depth);
	add_both(tc, every_seek_takes_its_time_and_a_sequence_takes_one);
	add_both(tc, without_a_model_busy_is_the_time_with_writes_in_flight);
	add_both(tc, a_batch_is_done_together_and_the_next_is_what_was_queued_meanwhile);
	add_both(tc, a_batch_for_an_idle_device_starts_when_it_is_submitted);
	add_both(tc, batches_without_a_model_are_done_when_all_of_them_are_answered);
	add_both(tc, breaking_a_batch_up_lets_every_write_go_at_its_own_time);
	add_both(tc, no_write_is_lost_while_model_and_completion_change);
	tc = new_tcase(s, "wb_device_set_waiting");
	add_both(tc, idle_time_needs_pages_that_wait_and_a_device_with_nothing_to_do);
	tc = new_tcase(s, "wb_device_reset_stats");
	add_both(tc, counters_reset_while_writes_are_in_flight_count_what_is_done_later);
}

int main(void)
{
	Suite *s = suite_create("writeback");
	add_engine_cases(s);
	add_time_cases(s);
	SRunner *runner = srunner_create(s);
	srunner_set_tap(runner, "-");
	srunner_run_all(runner, CK_SILENT);
	int failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed != 0;
}
