/* SPDX-License-Identifier: MIT */
/*
 * Writes by threads and pwritev(2): the fallback where no ring can be made, and its twin in tests.
 *
 * Rules: a worker holds the lock while it takes a write and while it hands one back, never while it
 * writes. What the kernel has no room for now goes to the end of the queue, and its worker pauses,
 * unless something new comes in.
 */
#include "writeback/engine.h"

#include <sys/uio.h>

#include "base/cleanup.h"

#define NR_WORKERS 2
#define AGAIN_PAUSE_NS NSEC_PER_MSEC

/* Locks: I immutable once workers run   l lock */
struct pwrite_queue {
	struct wb_queue queue;        /* [I] */
	pthread_t worker[NR_WORKERS]; /* [I] */
	unsigned nr_workers;          /* [I] */
	struct lock lock;             /* a leaf */
	struct cond work;             /* todo has grown, or stopping */
	struct cond news;             /* answered has grown, or woken */
	struct list todo;             /* [l] */
	struct list answered;         /* [l] */
	bool woken;                   /* [l] */
	bool stopping;                /* [l] */
};

static struct pwrite_queue *pwrite_of(struct wb_queue *queue)
{
	return (struct pwrite_queue *)(void *)((char *)queue -
					       offsetof(struct pwrite_queue, queue));
}

/* Until the write is answered or must wait. */
static enum wb_io_verdict pwrite_io(struct wb_io *io)
{
	enum wb_io_verdict verdict;
	do {
		struct wb_io_segment segment = wb_io_segment(io);
		ssize_t r = pwritev(io->fd, segment.iov, (int)segment.nr_iov, (off_t)segment.off);
		verdict = wb_io_advance(io, r < 0 ? -errno : r);
	} while (verdict == WB_IO_MORE);
	return verdict;
}

static struct wb_io *pwrite_take(struct pwrite_queue *pwrite)
{
	LOCK_SCOPE(&pwrite->lock);
	while (list_is_empty(&pwrite->todo) && !pwrite->stopping)
		cond_wait(&pwrite->work, &pwrite->lock);
	if (list_is_empty(&pwrite->todo))
		return NULL;
	struct wb_io *io = list_first(&pwrite->todo, struct wb_io, queued);
	list_del(&io->queued);
	return io;
}

static void pwrite_give(struct pwrite_queue *pwrite, struct wb_io *io, enum wb_io_verdict verdict)
{
	LOCK_SCOPE(&pwrite->lock);
	if (verdict == WB_IO_AGAIN) {
		list_add_tail(&pwrite->todo, &io->queued);
		cond_wait_until(&pwrite->work, &pwrite->lock, clock_now_ns() + AGAIN_PAUSE_NS);
		return;
	}
	bool first = list_is_empty(&pwrite->answered);
	list_add_tail(&pwrite->answered, &io->queued);
	if (first)
		cond_wake_all(&pwrite->news);
}

static void *pwrite_main(void *arg)
{
	struct pwrite_queue *pwrite = arg;
	struct wb_io *io;
	while ((io = pwrite_take(pwrite)))
		pwrite_give(pwrite, io, pwrite_io(io));
	return NULL;
}

static void pwrite_free(struct wb_queue *queue)
{
	struct pwrite_queue *pwrite = pwrite_of(queue);
	lock_take(&pwrite->lock);
	pwrite->stopping = true;
	cond_wake_all(&pwrite->work);
	lock_release(&pwrite->lock);
	for (unsigned i = 0; i < pwrite->nr_workers; i++)
		pthread_join(pwrite->worker[i], NULL);
	assert(list_is_empty(&pwrite->answered));
	cond_fini(&pwrite->news);
	cond_fini(&pwrite->work);
	lock_fini(&pwrite->lock);
	free(pwrite);
}

static void pwrite_submit(struct wb_queue *queue, struct list *ios)
{
	struct pwrite_queue *pwrite = pwrite_of(queue);
	LOCK_SCOPE(&pwrite->lock);
	list_splice_tail(&pwrite->todo, ios);
	cond_wake_all(&pwrite->work);
}

static void pwrite_reap(struct wb_queue *queue, uint64_t deadline_ns, struct list *answered)
{
	struct pwrite_queue *pwrite = pwrite_of(queue);
	LOCK_SCOPE(&pwrite->lock);
	while (list_is_empty(&pwrite->answered) && !pwrite->woken) {
		if (deadline_ns == UINT64_MAX)
			cond_wait(&pwrite->news, &pwrite->lock);
		else if (!cond_wait_until(&pwrite->news, &pwrite->lock, deadline_ns))
			break;
	}
	pwrite->woken = false;
	list_splice_tail(answered, &pwrite->answered);
}

static void pwrite_wake(struct wb_queue *queue)
{
	struct pwrite_queue *pwrite = pwrite_of(queue);
	LOCK_SCOPE(&pwrite->lock);
	pwrite->woken = true;
	cond_wake_all(&pwrite->news);
}

static const struct wb_queue_ops pwrite_ops = {
	.name = "pwrite",
	.free = pwrite_free,
	.submit = pwrite_submit,
	.reap = pwrite_reap,
	.wake = pwrite_wake,
};

static void pwrite_cleanup(struct pwrite_queue **pwrite)
{
	if (*pwrite)
		pwrite_free(&(*pwrite)->queue);
}

int wb_queue_new_pwrite(struct wb_queue **ret_queue)
{
	_cleanup_(pwrite_cleanup) struct pwrite_queue *pwrite = calloc(1, sizeof(*pwrite));
	if (!pwrite)
		return -ENOMEM;
	pwrite->queue.ops = &pwrite_ops;
	lock_init(&pwrite->lock);
	cond_init(&pwrite->work);
	cond_init(&pwrite->news);
	list_init(&pwrite->todo);
	list_init(&pwrite->answered);
	for (unsigned i = 0; i < NR_WORKERS; i++) {
		int r = wb_thread_start(&pwrite->worker[i], pwrite_main, pwrite);
		if (r < 0)
			return r;
		pwrite->nr_workers++;
	}
	*ret_queue = &take_ptr(pwrite)->queue;
	return 0;
}
