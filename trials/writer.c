/* SPDX-License-Identifier: MIT */
/*
 * The writer: the program of the mail of 2012-11 to NetBSD's tech-kern, with knobs.
 *
 * With write_size = 512K and ignore_errors = yes it is that program: one file opened O_WRONLY|O_CREAT 0600,
 * one buffer written again and again, errors counted and not heeded, calls per second told by the thousand. A
 * refused write leaves the file offset where it was, so it is tried again at the same place for ever, as there.
 */
#include "trials/private.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "base/sizes.h"

#define PREFILL_PIECE (1u << 20)
#define DROP_BYTES (16u << 20)

/* In pieces of a size that no file system minds; how the file is made is not part of the trial. */
static int write_fully(int fd, uint64_t span)
{
	_cleanup_free_ char *piece = calloc(1, PREFILL_PIECE);
	if (!piece)
		return -ENOMEM;
	memset(piece, 'p', PREFILL_PIECE);
	for (uint64_t off = 0; off < span;) {
		ssize_t n = pwrite(fd, piece, min_u64(PREFILL_PIECE, span - off), (off_t)off);
		if (n < 0)
			return -errno;
		off += (uint64_t)n;
	}
	return 0;
}

static int prefill(const struct trial_task *task)
{
	const struct trial_workload *workload = task->workload;
	switch (workload->prefill) {
	case TRIAL_PREFILL_SPARSE:
		return ftruncate(task->fd, (off_t)workload->span) < 0 ? -errno : 0;
	case TRIAL_PREFILL_FALLOCATE:
		return -posix_fallocate(task->fd, 0, (off_t)workload->span);
	case TRIAL_PREFILL_WRITE:
		return write_fully(task->fd, workload->span);
	default:
		return 0;
	}
}

int trial_writer_prepare(struct trial_task *task)
{
	const struct trial_workload *workload = task->workload;
	char name[TRIAL_MAX_TEXT];
	trial_file_name(workload, task->nr, name, sizeof(name));
	task->buffer = mmap(NULL, workload->write_size, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (task->buffer == MAP_FAILED)
		return -errno;
	memset(task->buffer, 'a' + (int)(task->nr % 26), workload->write_size);
	task->fd = open(name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	if (task->fd < 0)
		return -errno;
	return task->nr < workload->files ? prefill(task) : 0;
}

static uint64_t next_random(struct trial_task *task)
{
	task->random ^= task->random << 13;
	task->random ^= task->random >> 7;
	task->random ^= task->random << 17;
	return task->random;
}

/* One write(2) where the mail's program would, or at a place of the pattern. */
static ssize_t write_once(struct trial_task *task)
{
	const struct trial_workload *workload = task->workload;
	if (workload->span == 0)
		return write(task->fd, task->buffer, workload->write_size);
	uint64_t places = workload->span / workload->write_size;
	uint64_t place = workload->pattern == TRIAL_RANDOM ? next_random(task) % places
							    : task->position++ % places;
	return pwrite(task->fd, task->buffer, workload->write_size, (off_t)(place * workload->write_size));
}

/* Keeps to the rate by a schedule, so that a slow call is made up for; a second late is forgiven, not caught up. */
static void pace(struct trial_task *task)
{
	const struct trial_workload *workload = task->workload;
	if (workload->rate == 0)
		return;
	uint64_t step = workload->write_size * workload->writers * NSEC_PER_SEC / workload->rate;
	uint64_t now = clock_now_ns();
	if (task->due_ns + NSEC_PER_SEC < now)
		task->due_ns = now;
	if (task->due_ns > now) {
		struct timespec until = timespec_of_ns(task->due_ns);
		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
	}
	task->due_ns += step;
}

static void count_runs(struct trial_task *task, struct trial_slot *slot, uint64_t now)
{
	if (task->phase_calls % TRIAL_RUN_CALLS == 0) {
		trial_slot_run(slot, now - task->run_start_ns);
		task->run_start_ns = now;
	}
	if (task->phase_calls % 1000 != 0)
		return;
	atomic_store(&slot->thousand_ns, now - task->thousand_start_ns);
	task->thousand_start_ns = now;
}

/*
 * drop_behind: the kernel need not keep a second copy of what the daemon keeps. With gigabytes of it, a writer would
 * be measured by how fast the machine finds memory.
 */
static void drop_behind(struct trial_task *task, ssize_t n)
{
	if (!task->workload->drop_behind || n <= 0)
		return;
	task->kept_bytes += (uint64_t)n;
	if (task->kept_bytes < DROP_BYTES)
		return;
	posix_fadvise(task->fd, 0, 0, POSIX_FADV_DONTNEED);
	task->kept_bytes = 0;
}

static bool is_refusal(int err)
{
	return err == EDQUOT || err == ENOSPC;
}

static void count_outcome(struct trial_slot *slot, ssize_t n, int err, uint64_t size)
{
	atomic_fetch_add(&slot->calls, 1);
	if (n >= 0) {
		atomic_fetch_add(&slot->accepted, 1);
		atomic_fetch_add(&slot->bytes, (uint64_t)n);
		if ((uint64_t)n < size)
			atomic_fetch_add(&slot->shorted, 1);
	} else {
		atomic_fetch_add(is_refusal(err) ? &slot->refused : &slot->errors, 1);
	}
}

int trial_writer_step(struct trial_task *task, size_t phase)
{
	const struct trial_workload *workload = task->workload;
	struct trial_slot *slot = &task->shared->slots[task->workload_index][phase];
	pace(task);
	uint64_t start = clock_now_ns();
	ssize_t n = write_once(task);
	int err = n < 0 ? errno : 0;
	uint64_t end = clock_now_ns();
	if (err == EINTR)
		return TRIAL_STEP_AGAIN;
	/* The call that a fill ends with belongs to neither side: it is no accepted write, and no measured refusal. */
	if (is_refusal(err) && task->shared->stop_at_refusal[phase])
		return TRIAL_STEP_PHASE_OVER;
	trial_slot_count(slot, TRIAL_OP_WRITE, start, end);
	count_outcome(slot, n, err, workload->write_size);
	drop_behind(task, n);
	task->calls++;
	task->phase_calls++;
	count_runs(task, slot, end);
	if (err && !workload->ignore_errors)
		return -err;
	if (workload->calls && task->calls >= workload->calls)
		return TRIAL_STEP_ENDED;
	uint64_t max_calls = task->shared->max_calls[phase];
	return max_calls && task->phase_calls >= max_calls ? TRIAL_STEP_PHASE_OVER : TRIAL_STEP_AGAIN;
}

int trial_writer_finish(struct trial_task *task)
{
	if (!task->workload->fsync_at_end || task->fd < 0)
		return 0;
	return fsync(task->fd) < 0 && !task->workload->ignore_errors ? -errno : 0;
}
