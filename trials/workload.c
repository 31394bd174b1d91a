/* SPDX-License-Identifier: MIT */
/*
 * The processes of a trial: forked, made the user they stand for, kept in step by one word of shared memory.
 *
 * They make real system calls on a real mount and count what came back; nothing here knows what the daemon is set to.
 *
 *	runner				worker
 *	prepares slots, forks		becomes its user, opens its files, parks
 *	phase = 3, wakes all		has work in 3: calls, counts in slot 3 ...
 *	phase = PAUSE			ends the call under way, parked = PAUSE
 *	all parked: reads counters
 */
#include "trials/private.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/futex.h>
#include <pwd.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "base/log.h"

void trial_shared_set_phase(struct trial_shared *shared, int32_t phase)
{
	atomic_store(&shared->phase, phase);
	syscall(SYS_futex, &shared->phase, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

static void wait_for_phase_after(struct trial_shared *shared, int32_t seen)
{
	syscall(SYS_futex, &shared->phase, FUTEX_WAIT, seen, NULL, NULL, 0);
}

static void lower_to(_Atomic uint64_t *least, uint64_t value)
{
	uint64_t seen = atomic_load(least);
	while ((seen == 0 || value < seen) && !atomic_compare_exchange_weak(least, &seen, value))
		;
}

void trial_slot_run(struct trial_slot *slot, uint64_t run_ns)
{
	lower_to(&slot->fastest_run_ns, run_ns);
}

void trial_slot_count(struct trial_slot *slot, enum trial_op op, uint64_t start_ns, uint64_t end_ns)
{
	lower_to(&slot->first_ns, start_ns);
	lower_to(&slot->fastest_ns, end_ns - start_ns);
	uint64_t seen = atomic_load(&slot->last_ns);
	while (end_ns > seen && !atomic_compare_exchange_weak(&slot->last_ns, &seen, end_ns))
		;
	hist_add(&slot->op[op], end_ns - start_ns);
}

void trial_file_name(const struct trial_workload *workload, uint64_t nr, char *buf, size_t len)
{
	if (workload->files == 1)
		snprintf(buf, len, "%s", workload->file);
	else
		snprintf(buf, len, "%s.%llu", workload->file,
			 (unsigned long long)(nr % workload->files));
}

/* The group is the one asked for, else the user's own, else one that has the user's number. */
static gid_t group_of(const struct trial_workload *workload)
{
	if (workload->gid != UINT64_MAX)
		return (gid_t)workload->gid;
	const struct passwd *user = getpwuid((uid_t)workload->uid);
	return user ? user->pw_gid : (gid_t)workload->uid;
}

int trial_become(const struct trial_workload *workload)
{
	if (workload->uid != UINT64_MAX && geteuid() == 0) {
		gid_t gid = group_of(workload);
		uid_t uid = (uid_t)workload->uid;
		if (setgroups(0, NULL) < 0 || setresgid(gid, gid, gid) < 0 || setresuid(uid, uid, uid) < 0)
			return -errno;
	}
	/* A change of user clears it, so it is set last: no worker outlives the runner. */
	return prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 ? -errno : 0;
}

static int task_prepare(struct trial_task *task)
{
	task->random = 0x9e3779b97f4a7c15ull * (task->nr + 1);
	task->current_phase = task->over_phase = TRIAL_PHASE_NONE;
	task->fd = -1;
	return task->workload->program == TRIAL_BYSTANDER ? trial_bystander_prepare(task)
							   : trial_writer_prepare(task);
}

static int task_step(struct trial_task *task, int32_t phase)
{
	if (task->current_phase != phase) {
		task->current_phase = phase;
		task->phase_calls = 0;
		task->due_ns = task->thousand_start_ns = task->run_start_ns = clock_now_ns();
	}
	if (task->start_ns == 0)
		task->start_ns = clock_now_ns();
	if (task->workload->duration_ns && clock_now_ns() - task->start_ns >= task->workload->duration_ns)
		return TRIAL_STEP_ENDED;
	return task->workload->program == TRIAL_BYSTANDER ? trial_bystander_step(task, (size_t)phase)
							   : trial_writer_step(task, (size_t)phase);
}

static bool task_has_work(const struct trial_task *task, int32_t phase)
{
	return phase >= 0 && phase != task->over_phase &&
	       (task->shared->active[phase] & 1u << task->workload_index);
}

static int task_run(struct trial_task *task)
{
	struct trial_shared *shared = task->shared;
	struct trial_worker *worker = &shared->workers[task->worker_index];
	for (;;) {
		int32_t phase = atomic_load(&shared->phase);
		if (phase == TRIAL_PHASE_END)
			return trial_writer_finish(task);
		if (!task_has_work(task, phase)) {
			atomic_store(&worker->parked, phase);
			wait_for_phase_after(shared, phase);
			continue;
		}
		/* Looked at again after we are seen to work: a pause that came in between has not missed us. */
		atomic_store(&worker->parked, TRIAL_PHASE_NONE);
		if (atomic_load(&shared->phase) != phase)
			continue;
		int r = task_step(task, phase);
		if (r < 0)
			return r;
		if (r == TRIAL_STEP_ENDED)
			return trial_writer_finish(task);
		if (r == TRIAL_STEP_PHASE_OVER)
			task->over_phase = phase;
	}
}

static void worker_main(struct trial_task *task, const char *mountpoint)
{
	sigset_t none;
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	signal(SIGINT, SIG_IGN); /* the runner decides; it has been told, too */
	struct trial_worker *worker = &task->shared->workers[task->worker_index];
	int r = trial_become(task->workload);
	if (r == 0 && chdir(mountpoint) < 0)
		r = -errno;
	if (r == 0)
		r = task_prepare(task);
	if (r == 0)
		r = task_run(task);
	atomic_store(&worker->failed, -r);
	atomic_store(&worker->ended, true);
	_exit(r < 0);
}

int trial_worker_start(struct trial_task task, const char *mountpoint, pid_t *ret_pid)
{
	atomic_store(&task.shared->workers[task.worker_index].parked, TRIAL_PHASE_NONE);
	pid_t pid = fork();
	if (pid < 0)
		return -errno;
	if (pid == 0)
		worker_main(&task, mountpoint);
	*ret_pid = pid;
	return 0;
}

int trial_command_start(const struct trial_workload *workload, const char *mountpoint, pid_t *ret_pid)
{
	pid_t pid = fork();
	if (pid < 0)
		return -errno;
	if (pid > 0) {
		setpgid(pid, pid);
		*ret_pid = pid;
		return 0;
	}
	sigset_t none;
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	setpgid(0, 0);
	/* The results may be going to stdout; what a command says is for people. */
	int r = trial_become(workload);
	if (r < 0 || chdir(mountpoint) < 0 || setenv("MOUNT", mountpoint, 1) < 0 || dup2(STDERR_FILENO, STDOUT_FILENO) < 0) {
		log_error("trial: %s: %s", workload->name, strerror(r < 0 ? -r : errno));
		_exit(126);
	}
	execl("/bin/sh", "sh", "-c", workload->command, (char *)NULL);
	log_error("trial: /bin/sh: %s", strerror(errno));
	_exit(127);
}
