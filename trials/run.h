/* SPDX-License-Identifier: MIT */
/* A mount for the trial, a run of it, and what was found: mount.c, phase.c, run.c, results.c. */
#ifndef TRIALS_RUN_H
#define TRIALS_RUN_H

#include "trials/figures.h"
#include "trials/model.h"
#include "trials/workload.h"

struct trial_mount {
	char *dir;	  /* heap: a private directory ... */
	char *mountpoint; /* heap: ... and the mount point in it */
	pid_t pid;	  /* the daemon, our child; 0: none */
	dev_t dev;
};

/** Starts the daemon in the foreground and waits until it answers. 0; 1, 2: its exit code; -errno. */
int trial_mount_start(const struct trial *plan, struct trial_mount *ret_mount);
/** Unmounts, whatever it takes, and removes the directory. 0, or 1 when the daemon said that something stayed dirty. */
int trial_mount_stop(struct trial_mount *mount);
/** {"cmd":"stats"} answered: the object of "chokefs stats --json". 0 or -errno. */
int trial_mount_stats(const struct trial_mount *mount, json_object **ret_stats);
/** Runs "chokefs ARGS" and waits: its exit code, or -errno. */
int trial_chokefs(const char *const *args);
int trial_mount_set_limit(const struct trial_mount *mount, const struct trial_limits *limits);
int trial_mount_tune(const struct trial_mount *mount, const char *key, const char *value);
/** Processor time of the daemon so far. */
uint64_t trial_process_cpu_ns(pid_t pid);

/* ---- a run ---- */

#define TRIAL_COLUMNS (14 + 3 * TRIAL_MAX_WORKLOADS)

struct trial_sample {
	uint32_t variant, phase;
	uint64_t time_ns; /* since the variant's first phase began */
	double values[TRIAL_COLUMNS];
};

struct trial_verdict {
	struct trial_value value;
	char why[128]; /* not empty: could not be evaluated */
};

struct trial_results {
	const struct trial *trial;
	struct trial_figures figures[TRIAL_MAX_VARIANTS]; /* "PHASE.name", and the metrics by their own names */
	struct trial_verdict verdicts[TRIAL_MAX_ITEMS];
	struct trial_sample *samples;
	size_t nr_samples, room;
	uint64_t duration_ns;
	bool passed;
};

/** The stats shown over time, in the order of the columns; NULL after the last. */
extern const char *const trial_timeline_stats[];
/** The name of a column of the timeline, or NULL after the last. */
const char *trial_column_name(const struct trial *trial, size_t column, char *buf, size_t len);

/** Runs every variant. 0 also when expectations failed; else the exit code, what was wrong having been said. */
int trial_run(const struct trial *trial, struct trial_results *results);
void trial_results_fini(struct trial_results *results);
/** Computes metrics and verdicts from the figures. */
int trial_results_judge(struct trial_results *results);

/** One variant under way. */
struct trial_stage {
	const struct trial *plan;
	struct trial_results *results;
	size_t variant;
	struct trial_mount mount;
	struct trial_shared *shared;
	pid_t pids[TRIAL_MAX_WORKERS];
	size_t nr_workers;
	pid_t commands[TRIAL_MAX_WORKLOADS]; /* 0: not running */
	int command_status[TRIAL_MAX_WORKLOADS]; /* -1: not ended yet */
	int signal_fd;
	bool progress; /* stderr is a terminal */
	uint64_t start_ns;
};

/** Runs one phase and adds its figures. 0 or the exit code. */
int trial_phase_run(struct trial_stage *stage, size_t phase);
/** Makes every worker park, at once or at the end of its call. 0 or the exit code. */
int trial_stage_pause(struct trial_stage *stage);
/** Takes a sample of the timeline; *@ret_stats (not NULL) gets the stats. 0 or -errno. */
int trial_stage_sample(struct trial_stage *stage, size_t phase, json_object **ret_stats);
/** The figures of the workloads in one phase. */
int trial_stage_workload_figures(struct trial_stage *stage, size_t phase);

#endif
