/* SPDX-License-Identifier: MIT */
/*
 * A run: each variant on a fresh mount, its workloads forked, its phases one after the other, and everything gone at
 * the end, whether it went well, failed or was interrupted.
 *
 * One thread does it all, so that there is one place to be interrupted at: SIGINT and SIGTERM are
 * blocked and read from a descriptor wherever a phase waits.
 */
#include "trials/private.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "base/log.h"

static int start_workers(struct trial_stage *stage)
{
	for (size_t w = 0; w < stage->plan->nr_workloads; w++) {
		const struct trial_workload *workload = &stage->plan->workloads[w];
		for (uint64_t nr = 0; !workload->command && nr < workload->writers; nr++) {
			struct trial_task task = { .shared = stage->shared,
						   .workload = workload,
						   .workload_index = w,
						   .worker_index = stage->nr_workers,
						   .nr = nr };
			int r = trial_worker_start(task, stage->mount.mountpoint,
						   &stage->pids[stage->nr_workers]);
			if (r < 0) {
				log_error("trial: %s: %s", workload->name, strerror(-r));
				return 1;
			}
			stage->nr_workers++;
		}
	}
	return trial_stage_pause(stage);
}

static int set_limits(const struct trial_stage *stage)
{
	for (size_t i = 0; i < stage->plan->nr_limits; i++) {
		int r = trial_mount_set_limit(&stage->mount, &stage->plan->limits[i]);
		if (r != 0)
			return r < 0 ? 1 : r;
	}
	return 0;
}

static int share(struct trial_stage *stage)
{
	void *area = mmap(NULL, sizeof(*stage->shared), PROT_READ | PROT_WRITE,
			  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (area == MAP_FAILED)
		return -errno;
	stage->shared = area;
	atomic_store(&stage->shared->phase, TRIAL_PHASE_PAUSE);
	for (size_t i = 0; i < stage->plan->nr_phases; i++) {
		const struct trial_phase *phase = &stage->plan->phases[i];
		stage->shared->active[i] = phase->workloads;
		stage->shared->stop_at_refusal[i] = phase->until == TRIAL_UNTIL_REFUSED;
		stage->shared->max_calls[i] = phase->calls;
	}
	return 0;
}

/* Ends the workers; @kindly lets them do their fsync_at_end first. */
static int end_workers(struct trial_stage *stage, bool kindly)
{
	int result = 0;
	if (stage->shared)
		trial_shared_set_phase(stage->shared, TRIAL_PHASE_END);
	for (size_t i = 0; i < stage->nr_workers; i++) {
		int status = 0;
		if (stage->pids[i] <= 0)
			continue;
		if (!kindly)
			kill(stage->pids[i], SIGKILL);
		waitpid(stage->pids[i], &status, 0);
		stage->pids[i] = 0;
		if (kindly && status != 0) {
			log_error("trial: a worker failed at its end: %s",
				  strerror(atomic_load(&stage->shared->workers[i].failed)));
			result = 1;
		}
	}
	for (size_t i = 0; i < TRIAL_MAX_WORKLOADS; i++)
		if (stage->commands[i] > 0) {
			kill(-stage->commands[i], SIGKILL);
			waitpid(stage->commands[i], NULL, 0);
			stage->commands[i] = 0;
		}
	return result;
}

/* Nobody will read the files again; gone, their dirty pages need not be written before unmounting. */
static void remove_files(const struct trial_stage *stage)
{
	_cleanup_close_ int fd = open(stage->mount.mountpoint, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd >= 0 ? fdopendir(dup(fd)) : NULL;
	struct dirent *entry;
	while (dir && (entry = readdir(dir)))
		if (entry->d_type == DT_REG)
			unlinkat(fd, entry->d_name, 0);
	if (dir)
		closedir(dir);
}

static int run_phases(struct trial_stage *stage)
{
	int r = set_limits(stage);
	if (r == 0)
		r = start_workers(stage);
	stage->start_ns = clock_now_ns();
	for (size_t i = 0; r == 0 && i < stage->plan->nr_phases; i++)
		r = trial_phase_run(stage, i);
	return r;
}

static int run_stage(struct trial_stage *stage)
{
	int r = trial_mount_start(stage->plan, &stage->mount);
	if (r != 0) {
		if (r < 0)
			log_error("trial: mount: %s", strerror(-r));
		return r < 0 ? 1 : r;
	}
	r = share(stage) < 0 ? 1 : run_phases(stage);
	int ended = end_workers(stage, r == 0);
	remove_files(stage);
	int stopped = trial_mount_stop(&stage->mount);
	if (stage->shared)
		munmap(stage->shared, sizeof(*stage->shared));
	if (stage->progress)
		fputs("\r\033[K", stderr);
	return r ? r : ended ? ended : stopped;
}

static int run_variant(struct trial_results *results, size_t variant, int signal_fd)
{
	const struct trial *trial = results->trial;
	_cleanup_trial_ struct trial *plan = NULL;
	_cleanup_free_ char *why = NULL;
	int r = trial_plan_new(trial, &trial->variants[variant], &plan, &why);
	if (r < 0) {
		log_error("trial: variant %s: %s", trial->variants[variant].name,
			  why ? why : strerror(-r));
		return r == -EINVAL ? 2 : 1;
	}
	struct trial_stage stage = { .plan = plan,
				     .results = results,
				     .variant = variant,
				     .signal_fd = signal_fd,
				     .progress = isatty(STDERR_FILENO) };
	memset(stage.command_status, -1, sizeof(stage.command_status));
	return run_stage(&stage);
}

/* A user who may not become others may still be a workload himself. */
static int check_users(const struct trial *trial)
{
	for (size_t i = 0; i < trial->nr_workloads; i++) {
		uint64_t uid = trial->workloads[i].uid;
		if (geteuid() != 0 && uid != UINT64_MAX && uid != geteuid()) {
			log_error("trial: %s: only root can act as uid %llu", trial->name,
				  (unsigned long long)uid);
			return 1;
		}
	}
	return 0;
}

int trial_run(const struct trial *trial, struct trial_results *results)
{
	results->trial = trial;
	if (check_users(trial) != 0)
		return 1;
	sigset_t ours, before;
	sigemptyset(&ours);
	sigaddset(&ours, SIGINT);
	sigaddset(&ours, SIGTERM);
	sigaddset(&ours, SIGHUP);
	sigprocmask(SIG_BLOCK, &ours, &before);
	_cleanup_close_ int signal_fd = signalfd(-1, &ours, SFD_CLOEXEC | SFD_NONBLOCK);
	if (signal_fd < 0)
		log_error("trial: signalfd: %s", strerror(errno));
	uint64_t start = clock_now_ns();
	int r = signal_fd < 0 ? 1 : 0;
	for (size_t i = 0; r == 0 && i < trial->nr_variants; i++)
		r = run_variant(results, i, signal_fd);
	results->duration_ns = clock_now_ns() - start;
	struct signalfd_siginfo info;
	if (signal_fd >= 0 && read(signal_fd, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
		log_error("trial: %s: ended by signal %u", trial->name, info.ssi_signo);
		r = r ? r : 1;
	}
	sigprocmask(SIG_SETMASK, &before, NULL);
	return r ? r : trial_results_judge(results) < 0;
}
