/* SPDX-License-Identifier: MIT */
/*
 * The device: a queue of writes, done when the backing has answered *and* the model says so.
 *
 * Every write really goes to the backing at once (engine.h); what the model adds is the time before
 * which it is not done. One thread reaps answers, holds those that come early, and waits for the
 * next answer or the next due time, whichever is first. Its wake-ups may be late (with a long queue
 * on purpose, a little), the model's times are not: they follow from arrivals and from each other
 * (model.c).
 *
 * Completion:
 *	stream	a write is done by itself, when answered and due.
 *	batch	as an NFS server's COMMIT. What is queued while a batch is served waits, without a
 *		due time, and is the next batch; a batch is done as a whole, when its last write
 *		is answered and due.
 *
 *		WAITING --batch starts--> BATCH --all answered and due--> done
 *		   |                        |
 *		   +----switch to stream----+--> SINGLE --answered and due--> done
 *
 *	A batch starts at the very time at which its predecessor ended, with what had arrived
 *	by then; or, if nothing had, when the next write arrives. Both are times of the virtual
 *	clock: a late thread finds the same batches as a punctual one.
 *
 * Rules:
 * - done() is called by the device's thread without the lock; counters have been raised before.
 * - the lock is a leaf, and held for list work and arithmetic only.
 * - a change of completion never touches a due time that was given; a change of model takes them all back: what the old
 *   device held is done as soon as the backing has it, or a rate chosen by mistake could only be waited for.
 *
 * Does not order overlapping writes, limit what is queued, or retry what the backing refuses.
 */
#include <assert.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/sizes.h"
#include "writeback/engine.h"
#include "writeback/held.h"
#include "writeback/model.h"

/* With a long queue, completions are gathered for so long at most: waking up for each would cost
 * more than the write. */
#define GATHER_NS (NSEC_PER_MSEC / 2)

/* Time spent in a state that comes and goes. */
struct meter {
	uint64_t total_ns;
	uint64_t since_ns; /* when it began, while on */
	bool on;
};

/* Locks: I immutable once the thread runs   d lock */
struct wb_device {
	struct wb_queue *queue; /* [I] */
	pthread_t thread;       /* [I] */
	bool thread_runs;       /* [I] */
	struct lock lock;       /* a leaf */

	struct wb_model model;         /* [d] */
	enum wb_completion completion; /* [d] */
	struct wb_held held;           /* [d] SINGLE, answered, not due */
	uint64_t last_due_ns;          /* [d] when the device will have done all it was given */
	struct list waiting;           /* [d] WAITING, in order of arrival */
	struct list batch;             /* [d] BATCH */
	uint64_t batch_unanswered;     /* [d] */
	uint64_t batch_end_ns; /* [d] of the batch in service as far as known, else of the last one
				*/
	bool stopping;         /* [d] */

	uint32_t epoch;     /* [d] changes of model */
	uint64_t inflight;  /* [d] submitted and not released to done() */
	bool pages_waiting; /* [d] */
	struct meter idle;  /* [d] nothing in flight while pages wait */
	struct meter
		wall; /* [d] something in flight on a device whose model has no turns to add up */
	struct wb_device_stats stats; /* [d] busy_ns: of turns alone; idle_ns unused */
};

/* ---- accounting ---- */

static void meter_set(struct meter *meter, bool on, uint64_t now_ns)
{
	if (meter->on)
		meter->total_ns += now_ns - meter->since_ns;
	meter->since_ns = now_ns;
	meter->on = on;
}

/* After every change of what the meters depend on. */
static void device_account_locked(struct wb_device *device, uint64_t now_ns)
{
	lock_assert_held(&device->lock);
	meter_set(&device->idle, device->pages_waiting && device->inflight == 0, now_ns);
	meter_set(&device->wall, device->inflight > 0 && !wb_model_is_serial(&device->model),
		  now_ns);
}

static void device_release_locked(struct wb_device *device, struct wb_io *io, struct list *released)
{
	device->stats.writes++;
	device->stats.bytes += io->written;
	device->stats.busy_ns += io->cost_ns;
	if (io->res < 0)
		device->stats.errors++;
	assert(device->inflight > 0);
	device->inflight--;
	list_add_tail(released, &io->link);
}

/* ---- stream ---- */

static void device_schedule_locked(struct wb_device *device, struct wb_io *io, uint64_t start_ns)
{
	wb_model_schedule(&device->model, start_ns, io->fd, io->off, io->len, &io->due_ns,
			  &io->cost_ns);
	io->epoch = device->epoch;
	device->last_due_ns = io->due_ns;
}

/* An io on no list becomes one that completes by itself. */
static void device_single_locked(struct wb_device *device, struct wb_io *io)
{
	io->place = WB_IO_SINGLE;
	if (io->real_done)
		wb_held_add(&device->held, io);
}

static void device_release_due_locked(struct wb_device *device, uint64_t now_ns,
				      struct list *released)
{
	struct wb_io *io;
	while ((io = wb_held_find_first(&device->held)) && io->due_ns <= now_ns)
		device_release_locked(device, wb_held_pop(&device->held), released);
}

/* ---- batch ---- */

/* Starts a batch with what had arrived when the last one ended, or else with the first that came
 * later. */
static void device_start_batch_locked(struct wb_device *device)
{
	lock_assert_held(&device->lock);
	assert(list_is_empty(&device->batch) && device->batch_unanswered == 0);
	if (list_is_empty(&device->waiting))
		return;
	struct wb_io *io = list_first(&device->waiting, struct wb_io, link);
	uint64_t start_ns = max_u64(device->batch_end_ns, io->arrive_ns);
	device->batch_end_ns = start_ns;
	while (!list_is_empty(&device->waiting)) {
		io = list_first(&device->waiting, struct wb_io, link);
		if (io->arrive_ns > start_ns)
			break;
		list_move_tail(&device->batch, &io->link);
		io->place = WB_IO_BATCH;
		device_schedule_locked(device, io, start_ns);
		device->batch_end_ns = max_u64(device->batch_end_ns, io->due_ns);
		if (!io->real_done)
			device->batch_unanswered++;
	}
}

/* Ends the batch if it is over, and those after it that are over already. */
static void device_run_batches_locked(struct wb_device *device, uint64_t now_ns,
				      struct list *released)
{
	while (!list_is_empty(&device->batch)) {
		if (device->batch_unanswered > 0 || device->batch_end_ns > now_ns)
			return;
		struct wb_io *io, *next;
		list_for_each_safe (io, next, &device->batch, link) {
			list_del(&io->link);
			device_release_locked(device, io, released);
		}
		device_start_batch_locked(device);
	}
}

/* Every member goes on by itself, with the due time it has; those that had none get one now. */
static void device_break_batches_locked(struct wb_device *device, uint64_t now_ns)
{
	struct wb_io *io, *next;
	list_for_each_safe (io, next, &device->batch, link) {
		list_del(&io->link);
		device_single_locked(device, io);
	}
	list_for_each_safe (io, next, &device->waiting, link) {
		list_del(&io->link);
		device_schedule_locked(device, io, now_ns);
		device_single_locked(device, io);
	}
	device->batch_unanswered = 0;
	device->batch_end_ns = 0;
}

/* ---- another model ---- */

/* A write that the old model would still hold. It was not served to its end, so it costs nothing. */
static void device_let_go_locked(struct wb_device *device, struct wb_io *io, uint64_t now_ns)
{
	if (io->due_ns > now_ns) {
		io->due_ns = now_ns;
		io->cost_ns = 0;
	}
	io->epoch = device->epoch;
}

static void device_replace_locked(struct wb_device *device, const struct wb_device_model *model, uint64_t now_ns)
{
	struct list held;
	struct wb_io *io, *next;

	device->epoch++;
	wb_model_set(&device->model, model);
	list_init(&held);
	while (wb_held_find_first(&device->held))
		list_add_tail(&held, &wb_held_pop(&device->held)->link);
	list_for_each_safe (io, next, &held, link) {
		list_del(&io->link);
		device_let_go_locked(device, io, now_ns);
		wb_held_add(&device->held, io);
	}
	list_for_each_safe (io, next, &device->batch, link)
		device_let_go_locked(device, io, now_ns);
	device->batch_end_ns = min_u64(device->batch_end_ns, now_ns);
	device->last_due_ns = now_ns;
}

/* ---- the thread ---- */

static void device_answer_locked(struct wb_device *device, struct wb_io *io, uint64_t now_ns,
				 struct list *released)
{
	io->real_done = true;
	switch (io->place) {
	case WB_IO_SINGLE:
		if (io->epoch != device->epoch)
			device_let_go_locked(device, io, now_ns);
		if (io->due_ns <= now_ns)
			device_release_locked(device, io, released);
		else
			wb_held_add(&device->held, io);
		break;
	case WB_IO_BATCH:
		/* A backing slower than the model makes the batch longer. */
		if (--device->batch_unanswered == 0)
			device->batch_end_ns = max_u64(device->batch_end_ns, now_ns);
		break;
	case WB_IO_WAITING:
		break;
	}
}

/* When to look at the held writes: the first one's due time, or a little later, but never by more
 * than a fraction of the work that is still queued behind it. A writer that waits for this very
 * write is not kept waiting, and the device never runs dry unseen. */
static uint64_t device_gather_locked(struct wb_device *device, uint64_t due_ns)
{
	if (device->last_due_ns <= due_ns)
		return due_ns;
	return due_ns + min_u64(GATHER_NS, (device->last_due_ns - due_ns) / 16);
}

/* The next time at which something is done without a further answer. */
static uint64_t device_deadline_locked(struct wb_device *device)
{
	uint64_t deadline_ns = UINT64_MAX;
	const struct wb_io *io = wb_held_find_first(&device->held);
	if (io)
		deadline_ns = device_gather_locked(device, io->due_ns);
	if (!list_is_empty(&device->batch) && device->batch_unanswered == 0)
		deadline_ns = min_u64(deadline_ns, device->batch_end_ns);
	return deadline_ns;
}

/* Gives what is done by now, and the time to look again. False at the end. */
static bool device_settle(struct wb_device *device, struct list *answered, struct list *released,
			  uint64_t *ret_deadline_ns)
{
	LOCK_SCOPE(&device->lock);
	uint64_t now_ns = clock_now_ns();
	struct wb_io *io, *next;
	list_for_each_safe (io, next, answered, queued) {
		list_del(&io->queued);
		device_answer_locked(device, io, now_ns, released);
	}
	device_run_batches_locked(device, now_ns, released);
	device_release_due_locked(device, now_ns, released);
	device_account_locked(device, now_ns);
	*ret_deadline_ns = device_deadline_locked(device);
	return !device->stopping;
}

static void *device_main(void *arg)
{
	struct wb_device *device = arg;
	uint64_t deadline_ns = UINT64_MAX;
	struct list answered, released;
	bool more;
	list_init(&answered);
	list_init(&released);
	do {
		device->queue->ops->reap(device->queue, deadline_ns, &answered);
		more = device_settle(device, &answered, &released, &deadline_ns);
		struct wb_io *io, *next;
		list_for_each_safe (io, next, &released, link) {
			list_del(&io->link);
			io->done(io);
		}
	} while (more);
	return NULL;
}

/* ---- for the rest of the folder ---- */

static int device_new_queue(enum wb_engine engine, struct wb_queue **ret_queue)
{
	if (engine == WB_ENGINE_PWRITE)
		return wb_queue_new_pwrite(ret_queue);
	int r = wb_queue_new_uring(ret_queue);
	if (r == 0 || engine == WB_ENGINE_URING)
		return r;
	log_warning("write-back: no io_uring, pwrite is used instead: %s", strerror(-r));
	return wb_queue_new_pwrite(ret_queue);
}

static void device_cleanup(struct wb_device **device)
{
	if (*device)
		wb_device_free(*device);
}

int wb_device_new(enum wb_engine engine, struct wb_device **ret_device)
{
	_cleanup_(device_cleanup) struct wb_device *device = calloc(1, sizeof(*device));
	if (!device)
		return -ENOMEM;
	lock_init(&device->lock);
	list_init(&device->waiting);
	list_init(&device->batch);
	int r = wb_model_init(&device->model);
	if (r < 0)
		return r;
	r = device_new_queue(engine, &device->queue);
	if (r < 0)
		return r;
	r = wb_thread_start(&device->thread, device_main, device);
	if (r < 0)
		return r;
	device->thread_runs = true;
	*ret_device = take_ptr(device);
	return 0;
}

void wb_device_free(struct wb_device *device)
{
	if (device->thread_runs) {
		lock_take(&device->lock);
		assert(device->inflight == 0);
		device->stopping = true;
		lock_release(&device->lock);
		device->queue->ops->wake(device->queue);
		pthread_join(device->thread, NULL);
	}
	if (device->queue)
		device->queue->ops->free(device->queue);
	wb_model_fini(&device->model);
	lock_fini(&device->lock);
	free(device);
}

static bool model_equals(const struct wb_device_model *a, const struct wb_device_model *b)
{
	return a->rate == b->rate && a->latency_ns == b->latency_ns && a->seek_ns == b->seek_ns &&
	       a->depth == b->depth;
}

void wb_device_set_model(struct wb_device *device, const struct wb_device_model *model,
			 enum wb_completion completion)
{
	struct wb_device_model wanted = *model;
	wanted.depth = (uint32_t)min_u64(wanted.depth, WB_MODEL_MAX_DEPTH);
	lock_take(&device->lock);
	uint64_t now_ns = clock_now_ns();
	/* The clock of an unchanged model goes on. */
	if (!model_equals(&device->model.param, &wanted))
		device_replace_locked(device, &wanted, now_ns);
	if (device->completion == WB_COMPLETION_BATCH && completion == WB_COMPLETION_STREAM)
		device_break_batches_locked(device, now_ns);
	device->completion = completion;
	device_account_locked(device, now_ns);
	lock_release(&device->lock);
	device->queue->ops->wake(device->queue);
}

/* Gives the writes their place and moves them to @queued, chained for the engine. */
static void device_admit(struct wb_device *device, struct list *ios, struct list *queued)
{
	LOCK_SCOPE(&device->lock);
	uint64_t now_ns = clock_now_ns();
	bool batch = device->completion == WB_COMPLETION_BATCH;
	struct wb_io *io, *next;
	list_for_each_safe (io, next, ios, link) {
		assert(io->len > 0 && io->nr_iov > 0);
		wb_io_begin(io);
		io->arrive_ns = now_ns;
		io->place = batch ? WB_IO_WAITING : WB_IO_SINGLE;
		list_del(&io->link);
		if (batch)
			list_add_tail(&device->waiting, &io->link);
		else
			device_schedule_locked(device, io, now_ns);
		list_add_tail(queued, &io->queued);
		device->inflight++;
	}
	if (batch && list_is_empty(&device->batch))
		device_start_batch_locked(device);
	device_account_locked(device, now_ns);
}

void wb_device_submit(struct wb_device *device, struct list *ios)
{
	struct list queued;
	list_init(&queued);
	device_admit(device, ios, &queued);
	if (!list_is_empty(&queued))
		device->queue->ops->submit(device->queue, &queued);
}

int wb_device_fsync(struct wb_device *device, int fd, bool datasync)
{
	int r;
	do {
		r = (datasync ? fdatasync(fd) : fsync(fd)) < 0 ? -errno : 0;
	} while (r == -EINTR);
	LOCK_SCOPE(&device->lock);
	device->stats.fsyncs++;
	if (r < 0)
		device->stats.errors++;
	return r;
}

void wb_device_set_waiting(struct wb_device *device, bool waiting)
{
	LOCK_SCOPE(&device->lock);
	if (device->pages_waiting == waiting)
		return;
	device->pages_waiting = waiting;
	device_account_locked(device, clock_now_ns());
}

void wb_device_get_stats(struct wb_device *device, struct wb_device_stats *ret_stats)
{
	LOCK_SCOPE(&device->lock);
	device_account_locked(device, clock_now_ns());
	*ret_stats = device->stats;
	ret_stats->busy_ns += device->wall.total_ns;
	ret_stats->idle_ns = device->idle.total_ns;
	ret_stats->inflight = device->inflight;
	ret_stats->engine = device->queue->ops->name;
}

void wb_device_reset_stats(struct wb_device *device)
{
	LOCK_SCOPE(&device->lock);
	device_account_locked(device, clock_now_ns());
	device->stats = (struct wb_device_stats){0};
	device->wall.total_ns = 0;
	device->idle.total_ns = 0;
}
