/* SPDX-License-Identifier: MIT */
/*
 * What a run found: figures of workloads, the samples of the timeline, metrics, verdicts.
 *
 * A figure that was not measured is absent or NAN, never zero, so that an expectation on it fails.
 */
#include "trials/private.h"

#include <errno.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"

const char *const trial_timeline_stats[] = {
	"cache.pages",	    "cache.dirty",     "cache.writeback", "gate.congested",
	"gate.outstanding", "device.bytes",    "device.writes",	  "device.idle_ns",
	"device.busy_ns",   "rollback.count",  "rollback.pages_visited", "throttle.pauses",
	"flusher.passes",   "gate.passes_skipped", NULL,
};
#define NR_STATS (sizeof(trial_timeline_stats) / sizeof(trial_timeline_stats[0]) - 1)

static const char *const workload_columns[] = { "calls", "refused", "bytes" };

const char *trial_column_name(const struct trial *trial, size_t column, char *buf, size_t len)
{
	if (column < NR_STATS)
		return snprintf(buf, len, "%s", trial_timeline_stats[column]) < 0 ? NULL : buf;
	column -= NR_STATS;
	if (column / 3 >= trial->nr_workloads)
		return NULL;
	snprintf(buf, len, "%s.%s", trial->workloads[column / 3].name, workload_columns[column % 3]);
	return buf;
}

/* "a.b" of a nested object; NAN when it is not there. */
static double json_at(json_object *object, const char *path)
{
	char name[TRIAL_NAME_MAX * 2];
	snprintf(name, sizeof(name), "%s", path);
	char *dot = strchr(name, '.');
	*dot = '\0';
	json_object *inner = json_object_object_get(object, name);
	json_object *value = inner ? json_object_object_get(inner, dot + 1) : NULL;
	if (json_object_is_type(value, json_type_boolean))
		return json_object_get_boolean(value);
	return value ? json_object_get_double(value) : NAN;
}

/* Counts since the variant began. */
static void sample_workloads(const struct trial_stage *stage, double *values)
{
	for (size_t w = 0; w < stage->plan->nr_workloads; w++) {
		uint64_t calls = 0, refused = 0, bytes = 0;
		for (size_t p = 0; p < stage->plan->nr_phases; p++) {
			const struct trial_slot *slot = &stage->shared->slots[w][p];
			calls += atomic_load(&slot->calls);
			refused += atomic_load(&slot->refused);
			bytes += atomic_load(&slot->bytes);
		}
		values[3 * w] = (double)calls;
		values[3 * w + 1] = (double)refused;
		values[3 * w + 2] = (double)bytes;
	}
}

int trial_stage_sample(struct trial_stage *stage, size_t phase, json_object **ret_stats)
{
	struct trial_results *results = stage->results;
	_cleanup_json_ json_object *stats = NULL;
	int r = trial_mount_stats(&stage->mount, &stats);
	if (r < 0)
		return r;
	if (results->nr_samples == results->room) {
		size_t room = results->room ? results->room * 2 : 1024;
		struct trial_sample *samples = reallocarray(results->samples, room, sizeof(*samples));
		if (!samples)
			return -ENOMEM;
		results->samples = samples;
		results->room = room;
	}
	struct trial_sample *sample = &results->samples[results->nr_samples++];
	*sample = (struct trial_sample){ .variant = (uint32_t)stage->variant,
					 .phase = (uint32_t)phase,
					 .time_ns = clock_now_ns() - stage->start_ns };
	for (size_t i = 0; i < NR_STATS; i++)
		sample->values[i] = json_at(stats, trial_timeline_stats[i]);
	sample_workloads(stage, sample->values + NR_STATS);
	*ret_stats = take_ptr(stats);
	return 0;
}

/* How long the workload's files are and how much they hold, as stat(2) says. */
static void measure_files(const struct trial_stage *stage, const struct trial_workload *workload,
			  uint64_t *ret_length, uint64_t *ret_held)
{
	*ret_length = *ret_held = 0;
	for (uint64_t nr = 0; nr < workload->files; nr++) {
		char name[TRIAL_MAX_TEXT], path[TRIAL_MAX_TEXT * 2];
		struct stat st;
		trial_file_name(workload, nr, name, sizeof(name));
		snprintf(path, sizeof(path), "%s/%s", stage->mount.mountpoint, name);
		if (stat(path, &st) < 0)
			continue;
		*ret_length += (uint64_t)st.st_size;
		*ret_held += (uint64_t)st.st_blocks * 512;
	}
}

struct figure_writer {
	struct trial_figures *figures;
	const char *phase, *workload;
	int r;
};

static void put(struct figure_writer *writer, const char *name, double value)
{
	char key[TRIAL_NAME_MAX * 4];
	snprintf(key, sizeof(key), "%s.%s.%s", writer->phase, writer->workload, name);
	if (writer->r == 0)
		writer->r = trial_figures_set(writer->figures, key, value);
}

static void put_latency(struct figure_writer *writer, const char *op, const struct hist *hist)
{
	char name[TRIAL_NAME_MAX];
	uint64_t count = atomic_load(&hist->count);
	if (count == 0)
		return;
	snprintf(name, sizeof(name), "%s_mean_ns", op);
	put(writer, name, (double)atomic_load(&hist->sum) / (double)count);
	snprintf(name, sizeof(name), "%s_p50_ns", op);
	put(writer, name, (double)hist_quantile(hist, 500));
	snprintf(name, sizeof(name), "%s_p99_ns", op);
	put(writer, name, (double)hist_quantile(hist, 990));
	snprintf(name, sizeof(name), "%s_max_ns", op);
	put(writer, name, (double)atomic_load(&hist->max));
}

static void put_slot(struct figure_writer *writer, const struct trial_slot *slot)
{
	static const char *const ops[TRIAL_OPS] = { "write", "read", "stat" };
	double seconds = (double)(atomic_load(&slot->last_ns) - atomic_load(&slot->first_ns)) / 1e9;
	double thousand = (double)atomic_load(&slot->thousand_ns);
	double calls = (double)atomic_load(&slot->calls);
	put(writer, "calls", calls);
	put(writer, "accepted", (double)atomic_load(&slot->accepted));
	put(writer, "refused", (double)atomic_load(&slot->refused));
	put(writer, "short", (double)atomic_load(&slot->shorted));
	put(writer, "errors", (double)atomic_load(&slot->errors));
	put(writer, "bytes", (double)atomic_load(&slot->bytes));
	put(writer, "seconds", seconds);
	put(writer, "accepted_per_s", seconds > 0 ? (double)atomic_load(&slot->accepted) / seconds : NAN);
	put(writer, "refused_per_s", seconds > 0 ? (double)atomic_load(&slot->refused) / seconds : NAN);
	put(writer, "bytes_per_s", seconds > 0 ? (double)atomic_load(&slot->bytes) / seconds : NAN);
	put(writer, "fastest_ns", (double)atomic_load(&slot->fastest_ns));
	double run = (double)atomic_load(&slot->fastest_run_ns);
	put(writer, "fastest_run_ns", run > 0 ? run / TRIAL_RUN_CALLS : NAN);
	put(writer, "per_s_of_1000", thousand > 0 ? 1000 * 1e9 / thousand : NAN);
	for (size_t op = 0; op < TRIAL_OPS; op++)
		put_latency(writer, ops[op], &slot->op[op]);
}

int trial_stage_workload_figures(struct trial_stage *stage, size_t phase)
{
	struct figure_writer writer = { .figures = &stage->results->figures[stage->variant],
					.phase = stage->plan->phases[phase].name };
	for (size_t w = 0; w < stage->plan->nr_workloads; w++) {
		const struct trial_workload *workload = &stage->plan->workloads[w];
		writer.workload = workload->name;
		if (workload->command) {
			if (stage->command_status[w] >= 0)
				put(&writer, "exit", stage->command_status[w]);
			continue;
		}
		uint64_t length, held;
		measure_files(stage, workload, &length, &held);
		put(&writer, "file_bytes", (double)length);
		put(&writer, "used_bytes", (double)held);
		put_slot(&writer, &stage->shared->slots[w][phase]);
	}
	return writer.r;
}

static int lookup_figure(void *context, const char *name, double *ret_value)
{
	return trial_figures_get(context, name, ret_value);
}

static int lookup_variant_figure(void *context, const char *name, double *ret_value)
{
	const struct trial_results *results = context;
	const char *dot = strchr(name, '.');
	char variant[TRIAL_NAME_MAX];
	snprintf(variant, sizeof(variant), "%.*s", dot ? (int)(dot - name) : 0, name);
	int index = trial_find_variant(results->trial, variant);
	return index < 0 ? -ENOENT : trial_figures_get(&results->figures[index], dot + 1, ret_value);
}

static int compute_metrics(struct trial_results *results, size_t variant)
{
	struct trial_figures *figures = &results->figures[variant];
	for (size_t i = 0; i < results->trial->nr_metrics; i++) {
		const struct trial_metric *metric = &results->trial->metrics[i];
		struct trial_value value;
		char why[128];
		int r = trial_eval(metric->value, lookup_figure, figures, &value, why, sizeof(why));
		r = trial_figures_set(figures, metric->name, r == 0 ? value.value : NAN);
		if (r < 0)
			return r;
	}
	return 0;
}

int trial_results_judge(struct trial_results *results)
{
	for (size_t v = 0; v < results->trial->nr_variants; v++) {
		int r = compute_metrics(results, v);
		if (r < 0)
			return r;
	}
	results->passed = true;
	for (size_t i = 0; i < results->trial->nr_expects; i++) {
		struct trial_verdict *verdict = &results->verdicts[i];
		*verdict = (struct trial_verdict){ .value.value = NAN };
		int r = trial_eval(results->trial->expects[i].expression, lookup_variant_figure, results,
				   &verdict->value, verdict->why, sizeof(verdict->why));
		if (r < 0)
			verdict->value = (struct trial_value){ .value = NAN };
		else
			verdict->why[0] = '\0';
		results->passed = results->passed && verdict->value.holds;
	}
	return 0;
}

double trial_results_value(const struct trial_results *results, const char *variant, const char *metric)
{
	double value;
	int index = trial_find_variant(results->trial, variant);
	if (index < 0 || trial_figures_get(&results->figures[index], metric, &value) < 0)
		return NAN;
	return value;
}

double trial_results_ratio(const struct trial_results *results, const struct trial_table *table,
			   const char *metric)
{
	char a[TRIAL_NAME_MAX], slash[TRIAL_NAME_MAX], b[TRIAL_NAME_MAX];
	const char *list = table->ratio;
	if (!list || !trial_next_name(&list, a) || !trial_next_name(&list, slash) || !trial_next_name(&list, b))
		return NAN;
	double over = trial_results_value(results, a, metric), under = trial_results_value(results, b, metric);
	return under != 0 ? over / under : NAN;
}

void trial_results_fini(struct trial_results *results)
{
	for (size_t i = 0; i < TRIAL_MAX_VARIANTS; i++)
		trial_figures_fini(&results->figures[i]);
	free(results->samples);
	*results = (struct trial_results){ 0 };
}
