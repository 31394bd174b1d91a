/* SPDX-License-Identifier: MIT */
/*
 * The device as the cache sees it: writes go in, and are done when the backing has answered and the model says so.
 *
 * device.c keeps the model's clock and completes writes; engine_uring.c and its twin engine_pwrite.c get them to the backing.
 */
#ifndef WRITEBACK_DEVICE_H
#define WRITEBACK_DEVICE_H

#include "base/list.h"
#include "base/lock.h"
#include "writeback/writeback.h"

struct wb_device;

/* Where a write stands in the device; only device.c moves it. */
enum wb_io_place {
	WB_IO_SINGLE,  /* completes by itself: stream, or left over from a batch that was broken up */
	WB_IO_WAITING, /* for the next batch; has no due time yet */
	WB_IO_BATCH,   /* of the batch in service */
};

/*
 * One write on its way. Filled and owned by the submitter; the device owns it between submit and done().
 * done() runs on the device's thread, at the time the model says, may free the io, and must not submit or wait.
 */
struct wb_io {
	struct list link;  /* the device's while submitted */
	int fd;
	uint64_t off;
	size_t len;
	struct iovec *iov;
	unsigned nr_iov;
	int res;	   /* set before done(): 0, or the first -errno; short writes were resubmitted */
	void (*done)(struct wb_io *io);

	/* the device's own */
	size_t written;	   /* so far, of a write that was short */
	uint64_t arrive_ns;
	uint64_t due_ns;   /* when the model lets it complete */
	bool real_done;	   /* the backing has answered */
	struct iovec iov_rest; /* what is left of an iovec written in part */
	unsigned iov_next;
	struct list queued;    /* the engine's, until it has answered */
	uint32_t epoch;	       /* which model gave it its times */
	enum wb_io_place place;
	uint64_t cost_ns;      /* transfer and seek, counted as busy when done */
};

struct wb_device_stats {
	uint64_t writes, bytes, fsyncs, busy_ns, idle_ns, inflight, errors;
	const char *engine;
};

int wb_device_new(enum wb_engine engine, struct wb_device **ret_device);

/** Everything submitted must be done. */
void wb_device_free(struct wb_device *device);

/** Live: what an old model holds is done as soon as the backing has it, so no device can be too slow to be replaced. */
void wb_device_set_model(struct wb_device *device, const struct wb_device_model *model,
			 enum wb_completion completion);

/** Submits every io on @ios (the list becomes empty) as one batch. Never waits for a completion. */
void wb_device_submit(struct wb_device *device, struct list *ios);

/** fsync(2) or fdatasync(2), counted. 0 or -errno. */
int wb_device_fsync(struct wb_device *device, int fd, bool datasync);

/** The cache says when pages begin and cease to wait: idle time is only counted while some do. */
void wb_device_set_waiting(struct wb_device *device, bool waiting);

void wb_device_get_stats(struct wb_device *device, struct wb_device_stats *ret_stats);
void wb_device_reset_stats(struct wb_device *device);

#endif
