/* SPDX-License-Identifier: MIT */
/* How writes reach the backing file: a ring of the kernel's, and its twin of threads. */
#ifndef WRITEBACK_ENGINE_H
#define WRITEBACK_ENGINE_H

#include <pthread.h>

#include "writeback/device.h"

struct wb_queue;

struct wb_queue_ops {
	const char *name;

	/* Everything submitted must have been reaped. */
	void (*free)(struct wb_queue *queue);

	/* Takes the ios on @ios, chained by wb_io.queued. Any thread; never waits for a write. */
	void (*submit)(struct wb_queue *queue, struct list *ios);

	/* Waits until a write is answered, wake() is called or @deadline_ns of clock_now_ns() has
	 * come, and adds the answered ones to @answered by wb_io.queued, res and written set. May
	 * return early. Always the same one thread. */
	void (*reap)(struct wb_queue *queue, uint64_t deadline_ns, struct list *answered);

	/* Makes the reap() under way, or the next one, return. Any thread. */
	void (*wake)(struct wb_queue *queue);
};

struct wb_queue {
	const struct wb_queue_ops *ops;
};

/** The ring. 0 or -errno where none can be made. */
int wb_queue_new_uring(struct wb_queue **ret_queue);

/** Threads and pwritev(2). 0 or -errno. */
int wb_queue_new_pwrite(struct wb_queue **ret_queue);

/* ---- engine.c: what both engines do with the result of one call ---- */

enum wb_io_verdict {
	WB_IO_ANSWERED, /* res is final */
	WB_IO_MORE,     /* the next segment is to be written */
	WB_IO_AGAIN,    /* the same segment, later: the kernel had no room for it now */
};

/* What one call writes. */
struct wb_io_segment {
	const struct iovec *iov;
	unsigned nr_iov;
	uint64_t off;
};

/** Readies a new io for its first segment. */
void wb_io_begin(struct wb_io *io);

struct wb_io_segment wb_io_segment(const struct wb_io *io);

/** Records what a call for the current segment returned (bytes or -errno). */
enum wb_io_verdict wb_io_advance(struct wb_io *io, ssize_t result);

/** pthread_create() of a thread that takes no signals. 0 or -errno. */
int wb_thread_start(pthread_t *thread, void *(*main)(void *), void *arg);

#endif
