/* SPDX-License-Identifier: MIT */
/*
 * The engines on real files, every test on both.
 *
 * Short writes are real ones: two functions that the engines call are defined here too, and on
 * demand ask the kernel for less than they were told to.
 */
#include "tests/unit/writeback_device.h"

#include <dlfcn.h>
#include <liburing.h>
#include <sys/resource.h>

#include "writeback/engine.h"

/* ---- short writes on demand ---- */

static _Atomic size_t cut_bytes; /* no call writes more than this; 0: no limit */
static _Atomic unsigned nr_cut;  /* calls that were cut */
static _Atomic int fail_calls;   /* so many pwritev() calls from now fail with fail_errno */
static _Atomic int fail_errno;   /* 0: they write nothing */

ssize_t pwritev(int to, const struct iovec *iov, int nr, off_t off)
{
	if (fail_calls > 0) {
		fail_calls--;
		errno = fail_errno;
		return fail_errno ? -1 : 0;
	}
	if (cut_bytes) {
		nr_cut++;
		size_t len = iov->iov_len < cut_bytes ? iov->iov_len : cut_bytes;
		return pwrite(to, iov->iov_base, len, off);
	}
	return pwritev2(to, iov, nr, off, 0);
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
			w->iov[w->io.nr_iov++] =
				(struct iovec){data + (size_t)(page + p) * PAGE, (size_t)n * PAGE};
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
	struct rlimit limit = {bytes, bytes};
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
	static const int again[] = {EINTR, EAGAIN};
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
	struct rlimit usual, limit;
	struct write write;
	ck_assert_int_ge(dup2(log, STDERR_FILENO), 0);
	/* No further descriptor can be had. */
	ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &usual), 0);
	limit = (struct rlimit){3, usual.rlim_max};
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
	ck_assert_int_eq(wb_device_new(WB_ENGINE_URING, &device), -EMFILE);
	ck_assert_int_eq(wb_device_new(WB_ENGINE_AUTO, &device), 0);
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &usual), 0);
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

/* ---- wb_io_advance ---- */

START_TEST(a_write_goes_on_with_the_rest_of_an_iovec_and_then_with_the_others)
{
	struct write write;
	write_init(&write, fd, 1000, 300);
	for (unsigned i = 0; i < 3; i++)
		write.iov[i] = (struct iovec){buf + 100 * i, 100};
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
	tcase_add_test(tc,
		       an_interrupted_call_is_made_again_and_one_that_writes_nothing_is_an_error);
	tcase_add_test(tc, the_ring_tries_again_while_the_kernel_has_no_room);
	tc = new_tcase(s, "wb_device_fsync");
	add_both(tc, syncs_and_their_errors_are_counted);
	tc = new_tcase(s, "wb_device_new");
	tcase_add_test(tc, without_a_ring_the_twin_serves_with_one_notice);
	tc = new_tcase(s, "wb_io_advance");
	tcase_add_test(tc, a_write_goes_on_with_the_rest_of_an_iovec_and_then_with_the_others);
	tcase_add_test(tc, a_direct_write_that_stops_inside_a_sector_of_its_first_page_is_an_error);
}

int main(void)
{
	Suite *s = suite_create("writeback");
	add_engine_cases(s);
	SRunner *runner = srunner_create(s);
	srunner_set_tap(runner, "-");
	srunner_run_all(runner, CK_SILENT);
	int failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed != 0;
}
