/* SPDX-License-Identifier: MIT */
/* What the runner and the processes of a trial share: workload.c, writer.c, bystander.c. */
#ifndef TRIALS_WORKLOAD_H
#define TRIALS_WORKLOAD_H

#include <stdatomic.h>
#include <sys/types.h>

#include "base/hist.h"
#include "trials/model.h"

#define TRIAL_RUN_CALLS 32

enum trial_op {
	TRIAL_OP_WRITE,
	TRIAL_OP_READ,
	TRIAL_OP_STAT,
	TRIAL_OPS,
};

/** What one workload did in one phase; in shared memory, added to by all its writers. */
struct trial_slot {
	_Atomic uint64_t calls, accepted, refused, shorted, errors, bytes;
	_Atomic uint64_t first_ns, last_ns; /* start of the first call, end of the last */
	_Atomic uint64_t fastest_ns;	    /* call; 0: none yet */
	_Atomic uint64_t fastest_run_ns;    /* TRIAL_RUN_CALLS calls of one worker in a row */
	_Atomic uint64_t thousand_ns;	    /* how long the latest 1000 calls took, as the mail's program counts */
	struct hist op[TRIAL_OPS];
};

#define TRIAL_PHASE_PAUSE (-1)
#define TRIAL_PHASE_END (-2)
#define TRIAL_PHASE_NONE (-3)

struct trial_worker {
	_Atomic int32_t parked; /* the phase it has seen and has nothing to do in; TRIAL_PHASE_NONE while it works */
	_Atomic bool ended;	/* will do nothing more */
	_Atomic int32_t failed; /* the errno that ended it, when errors are not ignored */
};

struct trial_shared {
	_Atomic int32_t phase; /* what is to be done now; a futex */
	uint32_t active[TRIAL_MAX_PHASES]; /* workloads of each phase, as bits */
	bool stop_at_refusal[TRIAL_MAX_PHASES];
	uint64_t max_calls[TRIAL_MAX_PHASES]; /* of each writer; 0: any number */
	struct trial_worker workers[TRIAL_MAX_WORKERS];
	struct trial_slot slots[TRIAL_MAX_WORKLOADS][TRIAL_MAX_PHASES];
};

/** One process of a workload, as itself sees it. */
struct trial_task {
	struct trial_shared *shared;
	const struct trial_workload *workload;
	size_t workload_index, worker_index;
	uint64_t nr; /* among the writers of the workload */
	int fd;	     /* a writer's file */
	char *buffer;
	uint64_t calls, position, due_ns, start_ns;
	uint64_t random;
	uint64_t thousand_start_ns, run_start_ns;
	uint64_t kept_bytes; /* written since drop_behind last dropped */
	int32_t current_phase; /* the last it worked in */
	uint64_t phase_calls;  /* in that phase */
	int32_t over_phase;    /* the phase it has finished with */
};

/** What a worker does after a call. */
enum trial_step {
	TRIAL_STEP_AGAIN,
	TRIAL_STEP_PHASE_OVER, /* it waits for the next phase */
	TRIAL_STEP_ENDED,      /* it has done all it was to do */
};

/** Forks one worker, which becomes the workload's user in @mountpoint and prepares its files, then waits for a phase.
 *  @task: by value, its places filled in. */
int trial_worker_start(struct trial_task task, const char *mountpoint, pid_t *ret_pid);
/** Tells all workers which phase it is now. */
void trial_shared_set_phase(struct trial_shared *shared, int32_t phase);
/** One call, or one round of calls: enum trial_step, or -errno, which ends the worker. */
int trial_writer_step(struct trial_task *task, size_t phase);
int trial_bystander_step(struct trial_task *task, size_t phase);
/** Opens and prefills the files. 0 or -errno. */
int trial_writer_prepare(struct trial_task *task);
int trial_bystander_prepare(struct trial_task *task);
/** fsync_at_end. 0 or -errno. */
int trial_writer_finish(struct trial_task *task);
/** Counts TRIAL_RUN_CALLS calls in a row. */
void trial_slot_run(struct trial_slot *slot, uint64_t run_ns);
/** Counts one call. */
void trial_slot_count(struct trial_slot *slot, enum trial_op op, uint64_t start_ns, uint64_t end_ns);
/** The name of a workload's @nr-th file: "data", or "data.2" where there are several. */
void trial_file_name(const struct trial_workload *workload, uint64_t nr, char *buf, size_t len);
/** Becomes @workload's user for good. 0 or -errno. */
int trial_become(const struct trial_workload *workload);
/** fork and exec of "sh -c command" as that user in a process group of its own. */
int trial_command_start(const struct trial_workload *workload, const char *mountpoint, pid_t *ret_pid);

#endif
