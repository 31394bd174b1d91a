/* SPDX-License-Identifier: MIT */
/*
 * What the files of trials/ share: a trial as its file describes it, and what a run of it found.
 *
 * A trial is plain data: every string in it is interned in its pool, so that the structs may be copied, and a
 * variant's changes applied to the copy, without asking who frees what.
 */
#ifndef TRIALS_PRIVATE_H
#define TRIALS_PRIVATE_H

#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>
#include <json-c/json.h>

#include "base/cleanup.h"
#include "base/hist.h"

static inline void trial_json_putp(json_object **object)
{
	if (*object)
		json_object_put(*object);
}
#define _cleanup_json_ _cleanup_(trial_json_putp)

#define TRIAL_NAME_MAX 32
#define TRIAL_MAX_WORKLOADS 8
#define TRIAL_MAX_PHASES 32
#define TRIAL_MAX_WORKERS 64
#define TRIAL_MAX_VARIANTS 16
#define TRIAL_MAX_ITEMS 96 /* metrics, changes, expectations ... each */
#define TRIAL_MAX_TEXT 512

/* ---- a trial (file.c, keys.c, check.c) ---- */

/** "key = value", kept as text: a mount switch, an override. */
struct trial_pair {
	const char *key;
	const char *value;
};

struct trial_pairs {
	struct trial_pair items[TRIAL_MAX_ITEMS];
	size_t count;
};

enum trial_program {
	TRIAL_WRITER,
	TRIAL_BYSTANDER,
	TRIAL_COMMAND,
};

enum trial_pattern {
	TRIAL_SEQUENTIAL,
	TRIAL_RANDOM,
};

enum trial_prefill {
	TRIAL_PREFILL_NONE,
	TRIAL_PREFILL_SPARSE,	 /* ftruncate */
	TRIAL_PREFILL_FALLOCATE, /* posix_fallocate, as fio does */
	TRIAL_PREFILL_WRITE,
};

struct trial_workload {
	char name[TRIAL_NAME_MAX];
	const char *type;
	int program; /* enum trial_program */
	uint64_t uid, gid;
	const char *file;
	uint64_t files, writers;
	uint64_t write_size, read_size, span;
	int pattern; /* enum trial_pattern */
	int prefill; /* enum trial_prefill */
	bool ignore_errors, fsync_at_end;
	uint64_t duration_ns, calls; /* 0: until told to stop */
	uint64_t rate;		     /* bytes per second of all its writers together; 0: as fast as it goes */
	uint64_t interval_ns;	     /* between two rounds of a bystander */
	const char *command;
};

enum trial_until {
	TRIAL_UNTIL_TIME,
	TRIAL_UNTIL_REFUSED, /* every writer of the phase has been refused once, and stops there */
	TRIAL_UNTIL_CLEAN,   /* nothing is dirty or under write-back */
	TRIAL_UNTIL_DONE,    /* every workload of the phase has ended by itself */
};

/** A stretch of a run that is measured by itself. */
struct trial_phase {
	char name[TRIAL_NAME_MAX];
	const char *run;     /* names of workloads */
	uint32_t workloads;  /* the same as bits, once checked */
	uint64_t duration_ns; /* with another "until": the longest it may take, or the run has failed */
	int until;	     /* enum trial_until */
	uint64_t calls;	     /* ends the phase early once its writers have made that many */
	bool quiesce;	     /* counters are read after the workloads have paused, so that they are exact */
};

struct trial_limits {
	char id[TRIAL_NAME_MAX]; /* "1000" or "group:1000" */
	const char *bytes_soft, *bytes_hard;
	uint64_t inodes_soft, inodes_hard;
};

/** What a phase changes before it starts: a hard limit (is_tune false, key an id) or a switch. */
struct trial_change {
	size_t phase;
	bool is_tune;
	const char *key, *value;
};

struct trial_variant {
	char name[TRIAL_NAME_MAX];
	struct trial_pairs changes;
};

struct trial_metric {
	char name[TRIAL_NAME_MAX];
	const char *title, *value, *reference;
	int format; /* enum trial_format */
};

struct trial_table {
	char name[TRIAL_NAME_MAX];
	const char *title, *variants, *rows, *ratio;
};

struct trial_chart {
	char name[TRIAL_NAME_MAX];
	const char *title, *value, *variants;
	bool rate; /* per second, instead of the value itself */
	int format;
};

struct trial_expect {
	char name[TRIAL_NAME_MAX];
	const char *expression;
};

struct trial {
	const char *name, *title, *description, *reference;
	uint64_t sample_ns;
	struct trial_pairs parameters, mount;
	struct trial_workload workloads[TRIAL_MAX_WORKLOADS];
	size_t nr_workloads;
	struct trial_phase phases[TRIAL_MAX_PHASES];
	size_t nr_phases;
	struct trial_limits limits[TRIAL_MAX_ITEMS];
	size_t nr_limits;
	struct trial_change changes[TRIAL_MAX_ITEMS];
	size_t nr_changes;
	struct trial_variant variants[TRIAL_MAX_VARIANTS];
	size_t nr_variants;
	struct trial_metric metrics[TRIAL_MAX_ITEMS];
	size_t nr_metrics;
	struct trial_table tables[TRIAL_MAX_ITEMS];
	size_t nr_tables;
	struct trial_chart charts[TRIAL_MAX_ITEMS];
	size_t nr_charts;
	struct trial_expect expects[TRIAL_MAX_ITEMS];
	size_t nr_expects;
	char **pool; /* every string above */
	size_t nr_pool;
};

/** Reads the text of a trial file, with @settings (from --set) in the place of what the file says. 0; -EINVAL with one line
 *  in *@ret_why (heap) that names what is wrong; -ENOMEM. */
int trial_parse(const char *text, const struct trial_pairs *settings, struct trial **ret_trial,
		char **ret_why);
void trial_free(struct trial *trial);
void trial_freep(struct trial **trial);
#define _cleanup_trial_ _cleanup_(trial_freep)

/** Copies @text into the pool. NULL: no memory. */
const char *trial_intern(struct trial *trial, const char *text);

/** Sets what "section.key" or a switch names to @value: a --set, a variant's override. */
int trial_override(struct trial *trial, const struct trial_pair *change, char **ret_why);
/** A copy with @variant's changes made; it borrows strings of @trial, which must outlive it. */
int trial_plan_new(const struct trial *trial, const struct trial_variant *variant,
		   struct trial **ret_plan, char **ret_why);
/** Adds "key = value", or replaces what it was. -E2BIG. */
int trial_pairs_set(struct trial_pairs *pairs, const char *key, const char *value);
const char *trial_pairs_get(const struct trial_pairs *pairs, const char *key);

/** What is wrong between the sections: names that do not exist, expressions that do not parse. 0 or -EINVAL. */
int trial_check(struct trial *trial, char **ret_why);
/** True once per name in the blank-separated list at *@list, copied to @name. */
bool trial_next_name(const char **list, char name[TRIAL_NAME_MAX]);
const struct trial_metric *trial_find_metric(const struct trial *trial, const char *name);
/** Indices, or -1. */
int trial_find_variant(const struct trial *trial, const char *name);
int trial_find_phase(const struct trial *trial, const char *name);
int trial_find_workload(const struct trial *trial, const char *name);
/** Bytes of "4G", "4G+200K". 0, -EINVAL, -ERANGE. */
int trial_parse_sum(const char *text, uint64_t *ret_bytes);

/* ---- a key of a section (keys.c) ---- */

enum trial_key_type {
	TRIAL_KEY_TEXT,
	TRIAL_KEY_SIZE,
	TRIAL_KEY_SUM, /* kept as text, checked by trial_parse_sum() */
	TRIAL_KEY_COUNT,
	TRIAL_KEY_DURATION, /* bare numbers are seconds */
	TRIAL_KEY_BOOL,
	TRIAL_KEY_CHOICE,
	TRIAL_KEY_USER, /* a number or a name */
	TRIAL_KEY_GROUP,
};

struct trial_key {
	const char *name;
	enum trial_key_type type;
	size_t offset;
	const char *choices; /* of TRIAL_KEY_CHOICE, blank-separated: the value becomes the index */
	uint64_t min, max;   /* of a size, count or duration; max 0: no bound */
};

extern const struct trial_key trial_keys_trial[], trial_keys_workload[], trial_keys_phase[],
	trial_keys_limits[], trial_keys_metric[], trial_keys_table[], trial_keys_chart[];

/** Sets the field of @object that @keys says. -ENOENT: no such key; -EINVAL with *@ret_why. */
int trial_key_set(struct trial *trial, const struct trial_key *keys, void *object,
		  const struct trial_pair *pair, char **ret_why);
/** *@ret_why = the formatted line; returns -EINVAL, or -ENOMEM. */
int trial_wrong(char **ret_why, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* ---- expressions (expr.c) ---- */

/** Gives the value of a name. 0, or -ENOENT. */
typedef int trial_lookup(void *context, const char *name, double *ret_value);

struct trial_value {
	double value;	 /* of arithmetic; of a comparison the operand that was measured */
	bool is_verdict; /* a comparison */
	bool holds;
};

/** Evaluates @text: + - * / ( ) numbers with K M G T or %, names, min() max() abs(), chains of < <= == != >= >, "and".
 *  0; -EINVAL: not an expression; -ENOENT: a name without a value. @ret_why (@why_len bytes) then says which. */
int trial_eval(const char *text, trial_lookup *lookup, void *context, struct trial_value *ret_value,
	       char *ret_why, size_t why_len);

/* ---- figures (figures.c) ---- */

struct trial_figure {
	char *name;
	double value;
};

/** Named numbers, sorted by name. */
struct trial_figures {
	struct trial_figure *items;
	size_t count, room;
};

int trial_figures_set(struct trial_figures *figures, const char *name, double value);
/** 0 or -ENOENT. */
int trial_figures_get(const struct trial_figures *figures, const char *name, double *ret_value);
void trial_figures_fini(struct trial_figures *figures);
/** Flattens @object: {"a":{"b":1}} gives "PREFIX.a.b" = 1. Booleans count 0 and 1, texts are left out. */
int trial_figures_flatten(struct trial_figures *figures, const char *prefix, json_object *object);
/** For each of @after: PREFIX.name = after - before for counters, after for gauges. */
int trial_figures_delta(struct trial_figures *figures, const char *prefix,
			const struct trial_figures *before, const struct trial_figures *after);
bool trial_figure_is_gauge(const char *name);

/* ---- what the workers and the runner share (workload.c, writer.c, bystander.c) ---- */

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
	uint64_t thousand_start_ns;
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
void trial_slot_count(struct trial_slot *slot, enum trial_op op, uint64_t start_ns, uint64_t end_ns);
/** The name of a workload's @nr-th file: "data", or "data.2" where there are several. */
void trial_file_name(const struct trial_workload *workload, uint64_t nr, char *buf, size_t len);
/** Becomes @workload's user for good. 0 or -errno. */
int trial_become(const struct trial_workload *workload);
/** fork and exec of "sh -c command" as that user in a process group of its own. */
int trial_command_start(const struct trial_workload *workload, const char *mountpoint, pid_t *ret_pid);

/* ---- a mount for the trial (mount.c) ---- */

struct trial_mount {
	char *dir;	  /* heap: a private directory ... */
	char *mountpoint; /* heap: ... and the mount point in it */
	pid_t pid;	  /* the daemon, our child; 0: none */
	dev_t dev;
};

/** Starts the daemon in the foreground and waits until it answers. 0; 1, 2: its exit code; -errno. */
int trial_mount_start(const struct trial_pairs *switches, struct trial_mount *ret_mount);
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

/* ---- a run and what it found (run.c, phase.c) ---- */

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

/* ---- showing it (format.c, table.c, report.c, html.c) ---- */

enum trial_format {
	TRIAL_FORMAT_NUMBER,  /* three digits */
	TRIAL_FORMAT_COUNT,   /* whole */
	TRIAL_FORMAT_TIME,    /* from ns */
	TRIAL_FORMAT_BYTES,   /* 1.4G */
	TRIAL_FORMAT_PERCENT, /* from a fraction */
	TRIAL_FORMAT_MBYTES,  /* MB/s, from bytes per second, decimal as in the mail */
};
#define TRIAL_FORMATS "number count time bytes percent mbytes"

/** "-" for what has no value. */
const char *trial_format_value(enum trial_format format, double value, char *buf, size_t len);

void trial_print_tables(const struct trial_results *results, FILE *out);
void trial_print_verdicts(const struct trial_results *results, FILE *out);
/** One cell: a metric under a variant; NAN without value. */
double trial_results_value(const struct trial_results *results, const char *variant, const char *metric);
/** The ratio of a table's row ("a / b"), NAN without one. */
double trial_results_ratio(const struct trial_results *results, const struct trial_table *table,
			   const char *metric);
json_object *trial_results_json(const struct trial_results *results);
/** Leaves results.json, timeline.csv and report.html in @dir, which is made if need be. 0 or -errno, said on stderr. */
int trial_report(const struct trial_results *results, const char *dir);
int trial_write_html(const struct trial_results *results, FILE *out);
void trial_write_chart(const struct trial_results *results, const struct trial_chart *chart, FILE *out);

/* ---- built-in files (generated) ---- */

struct trial_builtin {
	const char *name, *text;
};
extern const struct trial_builtin trial_builtins[]; /* name NULL after the last */

#endif
