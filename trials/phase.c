/* SPDX-License-Identifier: MIT */
/*
 * One phase: counters before, the workloads let go, counters after.
 *
 * With quiesce, the counters are read when every worker has parked, so that calls counted by the workers and rollbacks
 * counted by the daemon are the same calls, to the last one. Without, they are read in full flight: for what
 * must not be disturbed, such as the window after a ramp.
 */
#include "trials/private.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/sizes.h"

#define QUIESCE_TIMEOUT_NS (60 * NSEC_PER_SEC)
#define INTERRUPTED 1

static const struct trial_phase *stage_phase(const struct trial_stage *stage, size_t phase)
{
	return &stage->plan->phases[phase];
}

/* Waits until the next sample is due. True when a signal has asked us to end. */
static bool wait_or_signal(const struct trial_stage *stage, uint64_t due_ns)
{
	struct pollfd fd = { .fd = stage->signal_fd, .events = POLLIN };
	uint64_t now = clock_now_ns();
	struct timespec ts = timespec_of_ns(due_ns > now ? due_ns - now : 0);
	return ppoll(&fd, 1, &ts, NULL) > 0;
}

static const struct trial_workload *worker_workload(const struct trial_stage *stage, size_t worker,
						    size_t *ret_index)
{
	size_t i = 0;
	for (;; i++) {
		uint64_t writers = stage->plan->workloads[i].command ? 0 : stage->plan->workloads[i].writers;
		if (worker < writers)
			break;
		worker -= writers;
	}
	if (ret_index)
		*ret_index = i;
	return &stage->plan->workloads[i];
}

/* A worker that has met an error it must heed, or was killed, has spoilt the trial. */
static int check_workers(struct trial_stage *stage)
{
	for (size_t i = 0; i < stage->nr_workers; i++) {
		int status;
		if (stage->pids[i] <= 0 || waitpid(stage->pids[i], &status, WNOHANG) != stage->pids[i])
			continue;
		stage->pids[i] = 0;
		if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
			continue;
		const char *name = worker_workload(stage, i, NULL)->name;
		int failed = atomic_load(&stage->shared->workers[i].failed);
		log_error("trial: workload %s: %s", name,
			  WIFSIGNALED(status) ? strsignal(WTERMSIG(status)) : strerror(failed));
		return 1;
	}
	for (size_t i = 0; i < stage->plan->nr_workloads; i++) {
		int status;
		if (stage->commands[i] <= 0 || waitpid(stage->commands[i], &status, WNOHANG) <= 0)
			continue;
		stage->commands[i] = 0;
		stage->command_status[i] = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
	}
	return 0;
}

static bool worker_is_parked(const struct trial_stage *stage, size_t worker, int32_t phase)
{
	const struct trial_worker *shared = &stage->shared->workers[worker];
	return atomic_load(&shared->ended) || atomic_load(&shared->parked) == phase;
}

/* Until no worker is in a call. 0 or the exit code. */
static int wait_parked(struct trial_stage *stage, int32_t phase)
{
	uint64_t deadline = clock_now_ns() + QUIESCE_TIMEOUT_NS;
	size_t i = 0;
	while (i < stage->nr_workers) {
		if (worker_is_parked(stage, i, phase)) {
			i++;
			continue;
		}
		if (check_workers(stage) != 0)
			return 1;
		if (clock_now_ns() > deadline) {
			log_error("trial: workload %s: still in a call after %llu s",
				  worker_workload(stage, i, NULL)->name,
				  (unsigned long long)(QUIESCE_TIMEOUT_NS / NSEC_PER_SEC));
			return 1;
		}
		if (wait_or_signal(stage, clock_now_ns() + NSEC_PER_MSEC / 5))
			return INTERRUPTED;
	}
	return 0;
}

int trial_stage_pause(struct trial_stage *stage)
{
	trial_shared_set_phase(stage->shared, TRIAL_PHASE_PAUSE);
	return wait_parked(stage, TRIAL_PHASE_PAUSE);
}

static struct trial_limits changed_limits(const struct trial_stage *stage, const struct trial_change *change)
{
	struct trial_limits limits = { 0 };
	for (size_t i = 0; i < stage->plan->nr_limits; i++)
		if (strcmp(stage->plan->limits[i].id, change->key) == 0)
			limits = stage->plan->limits[i];
	snprintf(limits.id, sizeof(limits.id), "%s", change->key);
	limits.bytes_hard = change->value;
	return limits;
}

static int make_changes(const struct trial_stage *stage, size_t phase)
{
	for (size_t i = 0; i < stage->plan->nr_changes; i++) {
		const struct trial_change *change = &stage->plan->changes[i];
		if (change->phase != phase)
			continue;
		struct trial_limits limits = changed_limits(stage, change);
		int r = change->is_tune ? trial_mount_tune(&stage->mount, change->key, change->value)
					: trial_mount_set_limit(&stage->mount, &limits);
		if (r != 0)
			return r < 0 ? 1 : r;
	}
	return 0;
}

static int start_commands(struct trial_stage *stage, size_t phase)
{
	for (size_t i = 0; i < stage->plan->nr_workloads; i++) {
		const struct trial_workload *workload = &stage->plan->workloads[i];
		bool wanted = workload->command && stage_phase(stage, phase)->workloads & 1u << i;
		if (!wanted || stage->commands[i] > 0 || stage->command_status[i] >= 0)
			continue;
		int r = trial_command_start(workload, stage->mount.mountpoint, &stage->commands[i]);
		if (r < 0) {
			log_error("trial: %s: %s", workload->name, strerror(-r));
			return 1;
		}
	}
	return 0;
}

/* Every workload of the phase has ended, or (@parked) has nothing more to do in it. */
static bool is_over(const struct trial_stage *stage, size_t phase, bool parked)
{
	uint32_t mask = stage_phase(stage, phase)->workloads;
	bool any = false;
	for (size_t i = 0; i < stage->nr_workers; i++) {
		size_t index;
		const struct trial_workload *workload = worker_workload(stage, i, &index);
		/* A bystander stands by; it never keeps a phase going or ends it. */
		if (!(mask & 1u << index) ||
		    (workload->program == TRIAL_BYSTANDER && !workload->duration_ns))
			continue;
		any = true;
		if (!atomic_load(&stage->shared->workers[i].ended) &&
		    !(parked && worker_is_parked(stage, i, (int32_t)phase)))
			return false;
	}
	for (size_t i = 0; i < stage->plan->nr_workloads; i++) {
		any |= stage->plan->workloads[i].command && mask & 1u << i;
		if (mask & 1u << i && stage->commands[i] > 0)
			return false;
	}
	return any;
}

static bool is_clean(json_object *stats)
{
	json_object *cache = json_object_object_get(stats, "cache");
	return json_object_get_int64(json_object_object_get(cache, "dirty")) == 0 &&
	       json_object_get_int64(json_object_object_get(cache, "writeback")) == 0;
}

static bool has_ended(const struct trial_stage *stage, size_t phase, json_object *stats)
{
	const struct trial_phase *what = stage_phase(stage, phase);
	switch (what->until) {
	case TRIAL_UNTIL_CLEAN:
		return is_clean(stats);
	case TRIAL_UNTIL_DONE:
		return is_over(stage, phase, false);
	case TRIAL_UNTIL_REFUSED:
		return is_over(stage, phase, true);
	default:
		return what->calls && is_over(stage, phase, true);
	}
}

static void show_progress(const struct trial_stage *stage, size_t phase, uint64_t start_ns)
{
	const struct trial *trial = stage->results->trial;
	if (stage->progress)
		fprintf(stderr, "\r\033[K[%zu/%zu] %s: %s %.1f s", stage->variant + 1, trial->nr_variants,
			trial->variants[stage->variant].name, stage_phase(stage, phase)->name,
			(double)(clock_now_ns() - start_ns) / 1e9);
}

/* Samples until the phase is over. *@ret_end_ns: when that was. 0 or the exit code. */
static int watch(struct trial_stage *stage, size_t phase, uint64_t *ret_end_ns)
{
	const struct trial_phase *what = stage_phase(stage, phase);
	uint64_t start = clock_now_ns(), due = start, shown = 0;
	for (;;) {
		_cleanup_json_ json_object *stats = NULL;
		int r = trial_stage_sample(stage, phase, &stats);
		if (r < 0) {
			log_error("trial: the daemon does not answer: %s", strerror(-r));
			return 1;
		}
		if (check_workers(stage) != 0)
			return 1;
		uint64_t now = clock_now_ns();
		*ret_end_ns = now;
		if (has_ended(stage, phase, stats))
			return 0;
		if (now - start >= what->duration_ns) {
			if (what->until == TRIAL_UNTIL_TIME)
				return 0;
			log_error("trial: phase %s: not over after %llu s", what->name,
				  (unsigned long long)(what->duration_ns / NSEC_PER_SEC));
			return 1;
		}
		if (now - shown > 100 * NSEC_PER_MSEC) {
			show_progress(stage, phase, start);
			shown = now;
		}
		due = max_u64(due + stage->plan->sample_ns, now);
		if (wait_or_signal(stage, min_u64(due, start + what->duration_ns)))
			return INTERRUPTED;
	}
}

/* Counters of the daemon now. */
static int read_counters(const struct trial_stage *stage, struct trial_figures *figures)
{
	_cleanup_json_ json_object *stats = NULL;
	int r = trial_mount_stats(&stage->mount, &stats);
	if (r < 0)
		return r;
	json_object_object_del(stats, "settings");
	r = trial_figures_flatten(figures, "", stats);
	if (r == 0)
		r = trial_figures_set(figures, "daemon.cpu_ns", (double)trial_process_cpu_ns(stage->mount.pid));
	return r;
}

static int add_figures(struct trial_stage *stage, size_t phase, const struct trial_figures *before,
		       uint64_t start_ns, uint64_t end_ns)
{
	_cleanup_(trial_figures_fini) struct trial_figures after = { 0 };
	struct trial_figures *figures = &stage->results->figures[stage->variant];
	const char *name = stage_phase(stage, phase)->name;
	char key[TRIAL_NAME_MAX * 2];
	int r = read_counters(stage, &after);
	/* In full flight the window ends when the counters are read. */
	if (!stage_phase(stage, phase)->quiesce)
		end_ns = clock_now_ns();
	if (r == 0)
		r = trial_figures_delta(figures, name, before, &after);
	snprintf(key, sizeof(key), "%s.seconds", name);
	if (r == 0)
		r = trial_figures_set(figures, key, (double)(end_ns - start_ns) / 1e9);
	return r < 0 ? r : trial_stage_workload_figures(stage, phase);
}

int trial_phase_run(struct trial_stage *stage, size_t phase)
{
	_cleanup_(trial_figures_fini) struct trial_figures before = { 0 };
	int r = make_changes(stage, phase);
	if (r != 0)
		return r;
	if (read_counters(stage, &before) < 0) {
		log_error("trial: the daemon does not answer");
		return 1;
	}
	uint64_t start = clock_now_ns(), end = start;
	r = start_commands(stage, phase);
	if (r != 0)
		return r;
	trial_shared_set_phase(stage->shared, (int32_t)phase);
	r = watch(stage, phase, &end);
	if (r == 0 && stage_phase(stage, phase)->quiesce) {
		r = trial_stage_pause(stage);
		end = clock_now_ns();
	}
	if (r != 0)
		return r;
	r = add_figures(stage, phase, &before, start, end);
	if (r < 0) {
		log_error("trial: phase %s: %s", stage_phase(stage, phase)->name, strerror(-r));
		return 1;
	}
	return 0;
}
