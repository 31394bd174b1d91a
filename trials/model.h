/* SPDX-License-Identifier: MIT */
/*
 * A trial as its file describes it.
 *
 * It is plain data: every string in it is interned in its pool, so that the structs may be copied, and a
 * variant's changes applied to the copy, without asking who frees what.
 */
#ifndef TRIALS_MODEL_H
#define TRIALS_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TRIAL_NAME_MAX 32
#define TRIAL_MAX_WORKLOADS 8
#define TRIAL_MAX_PHASES 32
#define TRIAL_MAX_WORKERS 64
#define TRIAL_MAX_VARIANTS 16
#define TRIAL_MAX_ITEMS 96 /* metrics, changes, expectations ... each */
#define TRIAL_MAX_TEXT 512

/** "key = value", kept as text: a mount switch, an override. */
struct trial_pair {
	const char *key;
	const char *value;
};

struct trial_pairs {
	struct trial_pair items[TRIAL_MAX_ITEMS];
	size_t count;
};

enum trial_program { TRIAL_WRITER, TRIAL_BYSTANDER, TRIAL_COMMAND };

enum trial_pattern { TRIAL_SEQUENTIAL, TRIAL_RANDOM };

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
	bool ignore_errors, fsync_at_end, drop_behind;
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
	const char *name;	 /* "tune.KEY", "quota.ID" */
	const char *key, *value; /* KEY or ID */
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
	int64_t nice; /* of the daemon, where the runner may set it */
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

#endif
