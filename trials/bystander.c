/* SPDX-License-Identifier: MIT */
/*
 * The bystander: another user, with other files, who is made to wait.
 *
 * Once per interval: one stat, one small read, one small overwrite, each timed by itself and each made to
 * reach the daemon: attributes are asked for with AT_STATX_FORCE_SYNC, and the pages read are dropped
 * from the kernel's cache first, as an NFS server's client would ask anew.
 */
#include "trials/private.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/sizes.h"

#define BYSTANDER_BLOCKS 16 /* of its file; the round goes on to the next, so that no page stays hot */

static uint64_t block_size(const struct trial_task *task)
{
	return max_u64(task->workload->read_size, task->workload->write_size);
}

int trial_bystander_prepare(struct trial_task *task)
{
	char name[TRIAL_MAX_TEXT];
	trial_file_name(task->workload, task->nr, name, sizeof(name));
	task->buffer = mmap(NULL, block_size(task), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (task->buffer == MAP_FAILED)
		return -errno;
	memset(task->buffer, 'b', block_size(task));
	task->fd = open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (task->fd < 0)
		return -errno;
	for (uint64_t i = 0; i < BYSTANDER_BLOCKS; i++)
		if (pwrite(task->fd, task->buffer, block_size(task), (off_t)(i * block_size(task))) < 0)
			return -errno;
	return 0;
}

static int do_op(struct trial_task *task, enum trial_op op, off_t off)
{
	struct statx st;
	ssize_t n;
	switch (op) {
	case TRIAL_OP_STAT:
		n = statx(task->fd, "", AT_EMPTY_PATH | AT_STATX_FORCE_SYNC, STATX_BASIC_STATS, &st);
		break;
	case TRIAL_OP_READ:
		posix_fadvise(task->fd, off, (off_t)task->workload->read_size, POSIX_FADV_DONTNEED);
		n = pread(task->fd, task->buffer, task->workload->read_size, off);
		break;
	default:
		n = pwrite(task->fd, task->buffer, task->workload->write_size, off);
		break;
	}
	return n < 0 ? errno : 0;
}

int trial_bystander_step(struct trial_task *task, size_t phase)
{
	static const enum trial_op round[] = { TRIAL_OP_STAT, TRIAL_OP_READ, TRIAL_OP_WRITE };
	struct trial_slot *slot = &task->shared->slots[task->workload_index][phase];
	off_t off = (off_t)(task->position++ % BYSTANDER_BLOCKS * block_size(task));
	for (size_t i = 0; i < sizeof(round) / sizeof(round[0]); i++) {
		uint64_t start = clock_now_ns();
		int err = do_op(task, round[i], off);
		trial_slot_count(slot, round[i], start, clock_now_ns());
		atomic_fetch_add(&slot->calls, 1);
		atomic_fetch_add(err ? &slot->errors : &slot->accepted, 1);
		if (err && !task->workload->ignore_errors)
			return -err;
	}
	struct timespec until = timespec_of_ns(clock_now_ns() + task->workload->interval_ns);
	clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
	return TRIAL_STEP_AGAIN;
}
