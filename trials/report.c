/* SPDX-License-Identifier: MIT */
/* What a run leaves behind: results.json, timeline.csv, report.html. */
#include "trials/private.h"

#include <errno.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <time.h>

#include "base/clock.h"
#include "base/log.h"

/* JSON has no NAN: what was not measured is null. */
static json_object *number(double value)
{
	if (!isfinite(value))
		return NULL;
	if (value == floor(value) && fabs(value) < 0x1p53)
		return json_object_new_int64((int64_t)value);
	return json_object_new_double(value);
}

static json_object *variant_json(const struct trial_results *results, size_t variant)
{
	const struct trial *trial = results->trial;
	const struct trial_figures *figures = &results->figures[variant];
	json_object *object = json_object_new_object(), *metrics = json_object_new_object(),
		    *all = json_object_new_object();
	for (size_t i = 0; i < figures->count; i++) {
		const struct trial_figure *figure = &figures->items[i];
		json_object_object_add(trial_find_metric(trial, figure->name) ? metrics : all, figure->name,
				       number(figure->value));
	}
	json_object_object_add(object, "metrics", metrics);
	json_object_object_add(object, "figures", all);
	return object;
}

static json_object *verdict_json(const struct trial_results *results, size_t i)
{
	const struct trial_verdict *verdict = &results->verdicts[i];
	json_object *object = json_object_new_object();
	json_object_object_add(object, "name", json_object_new_string(results->trial->expects[i].name));
	json_object_object_add(object, "expression",
			       json_object_new_string(results->trial->expects[i].expression));
	json_object_object_add(object, "value", number(verdict->value.value));
	json_object_object_add(object, "holds", json_object_new_boolean(verdict->value.holds));
	if (*verdict->why)
		json_object_object_add(object, "why", json_object_new_string(verdict->why));
	return object;
}

static json_object *pairs_json(const struct trial_pairs *pairs)
{
	json_object *object = json_object_new_object();
	for (size_t i = 0; i < pairs->count; i++)
		json_object_object_add(object, pairs->items[i].key,
				       json_object_new_string(pairs->items[i].value));
	return object;
}

static json_object *machine_json(void)
{
	json_object *object = json_object_new_object();
	struct utsname host;
	if (uname(&host) == 0) {
		json_object_object_add(object, "kernel", json_object_new_string(host.release));
		json_object_object_add(object, "machine", json_object_new_string(host.machine));
	}
	json_object_object_add(object, "cpus", json_object_new_int64(sysconf(_SC_NPROCESSORS_ONLN)));
	json_object_object_add(object, "memory_bytes",
			       json_object_new_int64(sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE)));
	return object;
}

json_object *trial_results_json(const struct trial_results *results)
{
	const struct trial *trial = results->trial;
	json_object *object = json_object_new_object(), *variants = json_object_new_object(),
		    *expects = json_object_new_array();
	json_object_object_add(object, "version", json_object_new_int(1));
	json_object_object_add(object, "trial", json_object_new_string(trial->name));
	json_object_object_add(object, "program", json_object_new_string(CHOKEFS_VERSION));
	json_object_object_add(object, "machine", machine_json());
	json_object_object_add(object, "parameters", pairs_json(&trial->parameters));
	json_object_object_add(object, "mount", pairs_json(&trial->mount));
	json_object_object_add(object, "seconds", number((double)results->duration_ns / 1e9));
	json_object_object_add(object, "passed", json_object_new_boolean(results->passed));
	for (size_t i = 0; i < trial->nr_variants; i++)
		json_object_object_add(variants, trial->variants[i].name, variant_json(results, i));
	for (size_t i = 0; i < trial->nr_expects; i++)
		json_object_array_add(expects, verdict_json(results, i));
	json_object_object_add(object, "variants", variants);
	json_object_object_add(object, "expectations", expects);
	return object;
}

static int write_json(const struct trial_results *results, FILE *out)
{
	_cleanup_json_ json_object *object = trial_results_json(results);
	return fprintf(out, "%s\n", json_object_to_json_string_ext(object, JSON_C_TO_STRING_PRETTY)) < 0 ? -EIO : 0;
}

static int write_timeline(const struct trial_results *results, FILE *out)
{
	const struct trial *trial = results->trial;
	char name[TRIAL_NAME_MAX * 2];
	fputs("variant,phase,time_s", out);
	for (size_t c = 0; trial_column_name(trial, c, name, sizeof(name)); c++)
		fprintf(out, ",%s", name);
	fputc('\n', out);
	for (size_t i = 0; i < results->nr_samples; i++) {
		const struct trial_sample *sample = &results->samples[i];
		fprintf(out, "%s,%s,%.4f", trial->variants[sample->variant].name,
			trial->phases[sample->phase].name, (double)sample->time_ns / 1e9);
		for (size_t c = 0; trial_column_name(trial, c, name, sizeof(name)); c++)
			if (isnan(sample->values[c]))
				fputs(",", out);
			else
				fprintf(out, ",%.0f", sample->values[c]);
		fputc('\n', out);
	}
	return 0;
}

static int write_file(const struct trial_results *results, const char *dir, const char *name,
		      int (*write)(const struct trial_results *results, FILE *out))
{
	_cleanup_free_ char *path = NULL;
	if (asprintf(&path, "%s/%s", dir, name) < 0) {
		path = NULL;
		return -ENOMEM;
	}
	FILE *file = fopen(path, "we");
	int r = file ? write(results, file) : -errno;
	if (file && (ferror(file) | fclose(file)) != 0 && r == 0)
		r = errno ? -errno : -EIO;
	if (r < 0)
		log_error("%s: %s", path, strerror(-r));
	return r;
}

int trial_report_prepare(const char *dir)
{
	struct stat st;
	int r = mkdir(dir, 0755) < 0 && errno != EEXIST ? -errno : 0;
	if (r == 0 && stat(dir, &st) < 0)
		r = -errno;
	if (r == 0 && !S_ISDIR(st.st_mode))
		r = -ENOTDIR;
	if (r == 0 && access(dir, W_OK | X_OK) < 0)
		r = -errno;
	if (r < 0)
		log_error("%s: %s", dir, strerror(-r));
	return r;
}

int trial_report(const struct trial_results *results, const char *dir)
{
	int r = write_file(results, dir, "results.json", write_json);
	if (r == 0)
		r = write_file(results, dir, "timeline.csv", write_timeline);
	return r == 0 ? write_file(results, dir, "report.html", trial_write_html) : r;
}
