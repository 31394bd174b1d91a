/* SPDX-License-Identifier: MIT */
/*
 * What both engines do with the result of one call: go on after a short write, try again, give up.
 *
 * The caller's iovecs are never changed. A write that stopped inside one goes on with the rest of
 * that one alone (iov_rest), then with those behind it.
 *
 * O_DIRECT: the rest of a write must be aligned too, while a short count need not be. It is rounded
 * down to a page, and the bytes in between are written twice. Every step writes something new, so
 * this ends.
 */
#include "writeback/engine.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>

#include "base/sizes.h"

/* No device has smaller sectors. */
#define SECTOR_SIZE 512u

static void io_seek(struct wb_io *io, size_t written)
{
	size_t skip = written;
	unsigned i = 0;
	while (i < io->nr_iov && skip >= io->iov[i].iov_len)
		skip -= io->iov[i++].iov_len;
	io->written = written;
	io->iov_rest = (struct iovec){NULL, 0};
	io->iov_next = i;
	if (skip > 0) {
		io->iov_rest.iov_base = (char *)io->iov[i].iov_base + skip;
		io->iov_rest.iov_len = io->iov[i].iov_len - skip;
		io->iov_next = i + 1;
	}
}

void wb_io_begin(struct wb_io *io)
{
	io->res = 0;
	io->real_done = false;
	io_seek(io, 0);
}

struct wb_io_segment wb_io_segment(const struct wb_io *io)
{
	if (io->iov_rest.iov_len > 0)
		return (struct wb_io_segment){&io->iov_rest, 1, io->off + io->written};
	return (struct wb_io_segment){io->iov + io->iov_next, io->nr_iov - io->iov_next,
				      io->off + io->written};
}

static bool io_is_direct(const struct wb_io *io)
{
	int flags = fcntl(io->fd, F_GETFL);
	return flags >= 0 && (flags & O_DIRECT);
}

/* Where a write that was short may go on: @reached, or before it where O_DIRECT asks for alignment;
 * io->written when it cannot. */
static size_t io_resume_at(const struct wb_io *io, size_t reached)
{
	if (!io_is_direct(io))
		return reached;
	uint64_t end = io->off + reached;
	uint64_t page = round_down_pow2(end, WB_PAGE_SIZE);
	if (page > io->off + io->written)
		return (size_t)(page - io->off);
	return end % SECTOR_SIZE == 0 ? reached : io->written;
}

static enum wb_io_verdict io_fail(struct wb_io *io, int error)
{
	io->res = error;
	return WB_IO_ANSWERED;
}

enum wb_io_verdict wb_io_advance(struct wb_io *io, ssize_t result)
{
	if (result == -EINTR)
		return WB_IO_MORE;
	if (result == -EAGAIN || result == -ECANCELED)
		return WB_IO_AGAIN;
	if (result < 0)
		return io_fail(io, (int)result);

	size_t segment = io->iov_rest.iov_len > 0 ? io->iov_rest.iov_len : io->len - io->written;
	size_t reached = io->written + (size_t)result;
	assert((size_t)result <= segment);
	if (reached == io->len) {
		io->written = reached;
		return WB_IO_ANSWERED;
	}
	if ((size_t)result < segment)
		reached = io_resume_at(io, reached);
	if (reached == io->written)
		return io_fail(io, -EIO);
	io_seek(io, reached);
	return WB_IO_MORE;
}

int wb_thread_start(pthread_t *thread, void *(*main)(void *), void *arg)
{
	sigset_t all, old;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	int r = pthread_create(thread, NULL, main, arg);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return -r;
}
