/* SPDX-License-Identifier: MIT */
/*
 * Writes by one io_uring, of which one thread alone is the user.
 *
 * Submitters put their writes into an inbox and wake the thread if it sleeps; it alone fills the
 * ring and empties it, in one system call. The kernel ties a request to the thread that submitted
 * it: its completion may be run by that thread, on its way out of the kernel, and is cancelled when
 * that thread exits. With worker threads that come and go, and that may sleep in the kernel until
 * that very write is over (a truncation waits for direct writes), submitting from them is a trap. It
 * also lets the kernel deliver completions only when asked.
 *
 *	submitter			thread
 *					inbox empty: asleep = true, under the lock
 *	inbox grows, asleep: wake_fd
 *					waits: the read of wake_fd is in the ring already, so
 *					the write cannot be missed
 *
 * At most RING_DEPTH requests are in the ring, the read of wake_fd included; its completion queue
 * holds twice that and cannot overflow. What does not fit stays in the backlog until slots are free.
 */
#include "writeback/engine.h"

#include <liburing.h>
#include <string.h>
#include <sys/eventfd.h>

#include "base/cleanup.h"
#include "base/sizes.h"

#define RING_DEPTH 256u
#define AGAIN_PAUSE_NS NSEC_PER_MSEC

/* Locks: I immutable   l lock   r only the thread that reaps */
struct uring_queue {
	struct wb_queue queue;   /* [I] */
	struct io_uring ring;    /* [r] */
	bool ring_made;          /* [I] */
	bool ring_enabled;       /* [r] */
	int wake_fd;             /* [I] */
	bool wake_armed;         /* [r] its read is in the ring */
	uint64_t wake_count;     /* [r] what the read puts there */
	unsigned nr_flying;      /* [r] writes in the ring */
	uint64_t pause_until_ns; /* [r] the kernel had no room: nothing is submitted before */
	struct list backlog;     /* [r] not in the ring yet */
	struct lock lock;        /* a leaf */
	struct list inbox;       /* [l] */
	bool asleep;             /* [l] wake_fd is to be written */
	bool woken;              /* [l] */
};

static struct uring_queue *uring_of(struct wb_queue *queue)
{
	return (struct uring_queue *)(void *)((char *)queue - offsetof(struct uring_queue, queue));
}

static void uring_free(struct wb_queue *queue)
{
	struct uring_queue *uring = uring_of(queue);
	assert(uring->nr_flying == 0 && list_is_empty(&uring->backlog));
	if (uring->ring_made)
		io_uring_queue_exit(&uring->ring);
	if (uring->wake_fd >= 0)
		close(uring->wake_fd);
	lock_fini(&uring->lock);
	free(uring);
}

/* ---- submitters ---- */

static void uring_rouse_locked(struct uring_queue *uring)
{
	lock_assert_held(&uring->lock);
	if (!uring->asleep)
		return;
	uring->asleep = false;
	/* Cannot fail: the counter is read long before it is full. */
	int r = eventfd_write(uring->wake_fd, 1);
	assert(r == 0);
	(void)r;
}

static void uring_submit(struct wb_queue *queue, struct list *ios)
{
	struct uring_queue *uring = uring_of(queue);
	LOCK_SCOPE(&uring->lock);
	list_splice_tail(&uring->inbox, ios);
	uring_rouse_locked(uring);
}

static void uring_wake(struct wb_queue *queue)
{
	struct uring_queue *uring = uring_of(queue);
	LOCK_SCOPE(&uring->lock);
	uring->woken = true;
	uring_rouse_locked(uring);
}

/* ---- the thread that reaps ---- */

static void uring_arm_wake(struct uring_queue *uring)
{
	if (uring->wake_armed)
		return;
	struct io_uring_sqe *sqe = io_uring_get_sqe(&uring->ring);
	if (!sqe)
		return; /* the kernel would not take what is there: next time */
	io_uring_prep_read(sqe, uring->wake_fd, &uring->wake_count, sizeof(uring->wake_count), 0);
	io_uring_sqe_set_data(sqe, NULL);
	uring->wake_armed = true;
}

static void uring_fill(struct uring_queue *uring)
{
	while (!list_is_empty(&uring->backlog) && uring->nr_flying < RING_DEPTH - 1) {
		struct io_uring_sqe *sqe = io_uring_get_sqe(&uring->ring);
		if (!sqe)
			return;
		struct wb_io *io = list_first(&uring->backlog, struct wb_io, queued);
		struct wb_io_segment segment = wb_io_segment(io);
		list_del(&io->queued);
		io_uring_prep_writev(sqe, io->fd, segment.iov, segment.nr_iov, segment.off);
		io_uring_sqe_set_data(sqe, io);
		uring->nr_flying++;
	}
}

/* Takes the inbox. True when the thread may sleep, and will be woken. */
static bool uring_take_inbox(struct uring_queue *uring)
{
	LOCK_SCOPE(&uring->lock);
	list_splice_tail(&uring->backlog, &uring->inbox);
	bool woken = uring->woken;
	uring->woken = false;
	uring->asleep = !woken && uring->wake_armed;
	return uring->asleep;
}

static void uring_awake(struct uring_queue *uring)
{
	LOCK_SCOPE(&uring->lock);
	uring->asleep = false;
}

static void uring_settle(struct uring_queue *uring, struct io_uring_cqe *cqe, struct list *answered)
{
	struct wb_io *io = io_uring_cqe_get_data(cqe);
	if (!io) {
		uring->wake_armed = false;
		return;
	}
	uring->nr_flying--;
	switch (wb_io_advance(io, cqe->res)) {
	case WB_IO_ANSWERED:
		list_add_tail(answered, &io->queued);
		break;
	case WB_IO_AGAIN:
		uring->pause_until_ns = clock_now_ns() + AGAIN_PAUSE_NS;
		list_add_tail(&uring->backlog, &io->queued);
		break;
	case WB_IO_MORE:
		list_add_head(&uring->backlog, &io->queued);
		break;
	}
}

static void uring_drain(struct uring_queue *uring, struct list *answered)
{
	struct io_uring_cqe *cqe;
	unsigned head, nr = 0;
	io_uring_for_each_cqe(&uring->ring, head, cqe)
	{
		uring_settle(uring, cqe, answered);
		nr++;
	}
	io_uring_cq_advance(&uring->ring, nr);
}

/* Submits what is in the ring and waits for a completion, not beyond @deadline_ns. */
static void uring_enter(struct uring_queue *uring, uint64_t deadline_ns)
{
	struct io_uring_cqe *cqe;
	struct __kernel_timespec ts = {0, 0};
	uint64_t now = deadline_ns ? clock_now_ns() : 0;
	if (deadline_ns > now) {
		ts.tv_sec = (long long)((deadline_ns - now) / NSEC_PER_SEC);
		ts.tv_nsec = (long long)((deadline_ns - now) % NSEC_PER_SEC);
	}
	int r = io_uring_submit_and_wait_timeout(&uring->ring, &cqe, 1,
						 deadline_ns == UINT64_MAX ? NULL : &ts, NULL);
	assert(r >= 0 || r == -ETIME || r == -EINTR || r == -EAGAIN || r == -EBUSY);
	if (r != -EAGAIN && r != -EBUSY)
		return;
	/* No room in the kernel; it still may complete something meanwhile. */
	ts = (struct __kernel_timespec){0, AGAIN_PAUSE_NS};
	io_uring_wait_cqe_timeout(&uring->ring, &cqe, &ts);
}

static void uring_reap(struct wb_queue *queue, uint64_t deadline_ns, struct list *answered)
{
	struct uring_queue *uring = uring_of(queue);
	if (!uring->ring_enabled) {
		/* From now on the ring is this thread's. (liburing 2.3 lacks
		 * io_uring_enable_rings().) */
		int r = io_uring_register((unsigned)uring->ring.ring_fd,
					  IORING_REGISTER_ENABLE_RINGS, NULL, 0);
		assert(r >= 0);
		(void)r;
		uring->ring_enabled = true;
	}
	uring_arm_wake(uring);
	if (!uring_take_inbox(uring))
		deadline_ns = 0;
	if (uring->pause_until_ns > 0 && clock_now_ns() >= uring->pause_until_ns)
		uring->pause_until_ns = 0;
	if (uring->pause_until_ns == 0)
		uring_fill(uring);
	else
		deadline_ns = min_u64(deadline_ns, uring->pause_until_ns);
	uring_enter(uring, deadline_ns);
	uring_awake(uring);
	uring_drain(uring, answered);
}

static const struct wb_queue_ops uring_ops = {
	.name = "io_uring",
	.free = uring_free,
	.submit = uring_submit,
	.reap = uring_reap,
	.wake = uring_wake,
};

static void uring_cleanup(struct uring_queue **uring)
{
	if (*uring)
		uring_free(&(*uring)->queue);
}

/* Older kernels lack flags that only make it cheaper; a ring without timeouts is none to us. */
static int uring_make_ring(struct io_uring *ring)
{
	const unsigned cheap = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN;
	int r = io_uring_queue_init(RING_DEPTH, ring, IORING_SETUP_R_DISABLED | cheap);
	if (r == -EINVAL)
		r = io_uring_queue_init(RING_DEPTH, ring, IORING_SETUP_R_DISABLED);
	if (r < 0)
		return r;
	const unsigned needed = IORING_FEAT_EXT_ARG | IORING_FEAT_NODROP;
	if ((ring->features & needed) == needed)
		return 0;
	io_uring_queue_exit(ring);
	return -EOPNOTSUPP;
}

int wb_queue_new_uring(struct wb_queue **ret_queue)
{
	_cleanup_(uring_cleanup) struct uring_queue *uring = calloc(1, sizeof(*uring));
	if (!uring)
		return -ENOMEM;
	uring->queue.ops = &uring_ops;
	lock_init(&uring->lock);
	list_init(&uring->backlog);
	list_init(&uring->inbox);
	uring->wake_fd = eventfd(0, EFD_CLOEXEC);
	if (uring->wake_fd < 0)
		return -errno;
	int r = uring_make_ring(&uring->ring);
	if (r < 0)
		return r;
	uring->ring_made = true;
	*ret_queue = &take_ptr(uring)->queue;
	return 0;
}
