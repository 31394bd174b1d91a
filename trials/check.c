/* SPDX-License-Identifier: MIT */
/*
 * Looks at a trial as a whole: do the names that sections use of each other exist, can its expressions be read.
 *
 * A trial may run for a minute before it comes to a misspelt expectation, so all are tried out beforehand with every
 * figure that may exist. What only a mount knows (its switches, its counters) is left to the run.
 */
#include "trials/private.h"

#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/sizes.h"

bool trial_next_name(const char **list, char name[TRIAL_NAME_MAX])
{
	const char *start = *list + strspn(*list, " \t,");
	size_t len = strcspn(start, " \t,");
	if (len == 0)
		return false;
	snprintf(name, TRIAL_NAME_MAX, "%.*s", (int)len, start);
	*list = start + len;
	return true;
}

const struct trial_metric *trial_find_metric(const struct trial *trial, const char *name)
{
	for (size_t i = 0; i < trial->nr_metrics; i++)
		if (strcmp(trial->metrics[i].name, name) == 0)
			return &trial->metrics[i];
	return NULL;
}

int trial_find_variant(const struct trial *trial, const char *name)
{
	for (size_t i = 0; i < trial->nr_variants; i++)
		if (strcmp(trial->variants[i].name, name) == 0)
			return (int)i;
	return -1;
}

int trial_find_phase(const struct trial *trial, const char *name)
{
	for (size_t i = 0; i < trial->nr_phases; i++)
		if (strcmp(trial->phases[i].name, name) == 0)
			return (int)i;
	return -1;
}

int trial_find_workload(const struct trial *trial, const char *name)
{
	for (size_t i = 0; i < trial->nr_workloads; i++)
		if (strcmp(trial->workloads[i].name, name) == 0)
			return (int)i;
	return -1;
}

static int check_workload(struct trial_workload *workload, char **ret_why)
{
	const char *name = workload->name;
	if (workload->command) {
		workload->program = TRIAL_COMMAND;
		return workload->writers == 1 ? 0 : trial_wrong(ret_why, "%s: a command has no writers", name);
	}
	if (strchr(workload->file, '/') || workload->file[0] == '.' || !workload->file[0])
		return trial_wrong(ret_why, "%s: file \"%s\" must be a plain name", name, workload->file);
	if (workload->program == TRIAL_WRITER && workload->span == 0 &&
	    (workload->pattern == TRIAL_RANDOM || workload->prefill != TRIAL_PREFILL_NONE))
		return trial_wrong(ret_why, "%s: random and prefill need a span", name);
	if (workload->span != 0 && workload->span < workload->write_size)
		return trial_wrong(ret_why, "%s: span is smaller than one write", name);
	return 0;
}

static int check_workloads(struct trial *trial, char **ret_why)
{
	uint64_t workers = 0;
	if (trial->nr_workloads == 0)
		return trial_wrong(ret_why, "no [workload NAME]");
	for (size_t i = 0; i < trial->nr_workloads; i++) {
		int r = check_workload(&trial->workloads[i], ret_why);
		if (r < 0)
			return r;
		workers += trial->workloads[i].writers;
		if (trial_find_phase(trial, trial->workloads[i].name) >= 0)
			return trial_wrong(ret_why, "%s: both a workload and a phase",
					   trial->workloads[i].name);
	}
	return workers <= TRIAL_MAX_WORKERS ? 0 : trial_wrong(ret_why, "more than %d writers", TRIAL_MAX_WORKERS);
}

/* A file without phases is one phase in which everything runs, as long as the longest workload. */
static int add_default_phase(struct trial *trial)
{
	struct trial_phase *phase = &trial->phases[0];
	*phase = (struct trial_phase){ .name = "run", .quiesce = true, .until = TRIAL_UNTIL_TIME };
	bool endless = false, command = false;
	char list[TRIAL_MAX_WORKLOADS * (TRIAL_NAME_MAX + 1)] = "";
	for (size_t i = 0; i < trial->nr_workloads; i++) {
		const struct trial_workload *workload = &trial->workloads[i];
		strcat(list, workload->name);
		strcat(list, " ");
		phase->duration_ns = max_u64(phase->duration_ns, workload->duration_ns);
		endless |= !workload->command && !workload->duration_ns && !workload->calls;
		command |= workload->command != NULL;
	}
	if (phase->duration_ns == 0)
		phase->duration_ns = (endless ? 10 : command ? 600 : 60) * NSEC_PER_SEC;
	if (!endless)
		phase->until = TRIAL_UNTIL_DONE;
	if (phase->until == TRIAL_UNTIL_DONE && !command)
		phase->duration_ns += 60 * NSEC_PER_SEC; /* fsync_at_end may take its time */
	phase->run = trial_intern(trial, list);
	trial->nr_phases = 1;
	return phase->run ? 0 : -ENOMEM;
}

static int check_phases(struct trial *trial, char **ret_why)
{
	for (size_t i = 0; i < trial->nr_phases; i++) {
		struct trial_phase *phase = &trial->phases[i];
		const char *list = phase->run;
		char name[TRIAL_NAME_MAX];
		phase->workloads = 0;
		while (trial_next_name(&list, name)) {
			int index = trial_find_workload(trial, name);
			if (index < 0)
				return trial_wrong(ret_why, "phase %s: no workload \"%s\"", phase->name, name);
			phase->workloads |= 1u << index;
		}
		if ((phase->until == TRIAL_UNTIL_REFUSED || phase->until == TRIAL_UNTIL_DONE) &&
		    !phase->workloads)
			return trial_wrong(ret_why, "phase %s: nothing runs in it", phase->name);
	}
	return 0;
}

/* Knows a figure by the look of its name: a metric's, or one that starts with a phase. */
static int any_figure(void *context, const char *name, double *ret_value)
{
	const struct trial *trial = context;
	*ret_value = 1;
	const char *dot = strchr(name, '.');
	if (!dot)
		return trial_find_metric(trial, name) ? 0 : -ENOENT;
	char phase[TRIAL_NAME_MAX];
	snprintf(phase, sizeof(phase), "%.*s", (int)(dot - name), name);
	return trial_find_phase(trial, phase) >= 0 ? 0 : -ENOENT;
}

static int any_variant_figure(void *context, const char *name, double *ret_value)
{
	const struct trial *trial = context;
	const char *dot = strchr(name, '.');
	char variant[TRIAL_NAME_MAX];
	snprintf(variant, sizeof(variant), "%.*s", dot ? (int)(dot - name) : 0, name);
	if (!dot || trial_find_variant(trial, variant) < 0)
		return -ENOENT;
	return any_figure(context, dot + 1, ret_value);
}

static int check_metrics(struct trial *trial, char **ret_why)
{
	size_t nr_metrics = trial->nr_metrics;
	for (size_t i = 0; i < nr_metrics; i++) {
		struct trial_metric *metric = &trial->metrics[i];
		struct trial_value value;
		char why[128];
		if (!metric->value)
			return trial_wrong(ret_why, "metric %s: no value", metric->name);
		trial->nr_metrics = i; /* a metric may use those before it */
		int r = trial_eval(metric->value, any_figure, trial, &value, why, sizeof(why));
		trial->nr_metrics = nr_metrics;
		if (r < 0)
			return trial_wrong(ret_why, "metric %s: %s", metric->name, why);
		if (value.is_verdict)
			return trial_wrong(ret_why, "metric %s: a comparison is not a figure", metric->name);
		if (!metric->title)
			metric->title = metric->name;
	}
	return 0;
}

static int check_expects(struct trial *trial, char **ret_why)
{
	for (size_t i = 0; i < trial->nr_expects; i++) {
		const struct trial_expect *expect = &trial->expects[i];
		struct trial_value value;
		char why[128];
		int r = trial_eval(expect->expression, any_variant_figure, trial, &value, why, sizeof(why));
		if (r < 0)
			return trial_wrong(ret_why, "expect %s: %s", expect->name, why);
		if (!value.is_verdict)
			return trial_wrong(ret_why, "expect %s: compares nothing", expect->name);
	}
	return 0;
}

static int check_variant_list(const struct trial *trial, const char *where, const char *list,
			      char **ret_why)
{
	char name[TRIAL_NAME_MAX];
	while (trial_next_name(&list, name))
		if (strcmp(name, "/") != 0 && trial_find_variant(trial, name) < 0)
			return trial_wrong(ret_why, "%s: no variant \"%s\"", where, name);
	return 0;
}

static int check_ratio(const struct trial_table *table, char **ret_why)
{
	char a[TRIAL_NAME_MAX] = "", slash[TRIAL_NAME_MAX] = "", b[TRIAL_NAME_MAX] = "", more[TRIAL_NAME_MAX];
	const char *list = table->ratio;
	if (trial_next_name(&list, a) && trial_next_name(&list, slash) && trial_next_name(&list, b) &&
	    strcmp(slash, "/") == 0 && !trial_next_name(&list, more))
		return 0;
	return trial_wrong(ret_why, "table %s: ratio \"%s\" is not \"VARIANT / VARIANT\"", table->name,
			   table->ratio);
}

/* Without tables everything goes into one. */
static int add_default_table(struct trial *trial)
{
	char variants[TRIAL_MAX_VARIANTS * (TRIAL_NAME_MAX + 1)] = "";
	char rows[TRIAL_MAX_ITEMS * (TRIAL_NAME_MAX + 1)] = "";
	for (size_t i = 0; i < trial->nr_variants; i++) {
		strcat(variants, trial->variants[i].name);
		strcat(variants, " ");
	}
	for (size_t i = 0; i < trial->nr_metrics; i++) {
		strcat(rows, trial->metrics[i].name);
		strcat(rows, " ");
	}
	trial->tables[0] = (struct trial_table){ .name = "results",
						 .title = trial->title,
						 .variants = trial_intern(trial, variants),
						 .rows = trial_intern(trial, rows) };
	trial->nr_tables = 1;
	return trial->tables[0].variants && trial->tables[0].rows ? 0 : -ENOMEM;
}

static int check_tables(struct trial *trial, char **ret_why)
{
	for (size_t i = 0; i < trial->nr_tables; i++) {
		struct trial_table *table = &trial->tables[i];
		if (!table->variants || !table->rows)
			return trial_wrong(ret_why, "table %s: needs variants and rows", table->name);
		int r = check_variant_list(trial, table->name, table->variants, ret_why);
		if (r == 0 && table->ratio)
			r = check_ratio(table, ret_why);
		if (r == 0 && table->ratio)
			r = check_variant_list(trial, table->name, table->ratio, ret_why);
		if (r < 0)
			return r;
		const char *list = table->rows;
		char name[TRIAL_NAME_MAX];
		while (trial_next_name(&list, name))
			if (!trial_find_metric(trial, name))
				return trial_wrong(ret_why, "table %s: no metric \"%s\"", table->name, name);
		if (!table->title)
			table->title = table->name;
	}
	return 0;
}

static bool is_column(const struct trial *trial, const char *name)
{
	char column[TRIAL_NAME_MAX * 2];
	for (size_t i = 0; trial_column_name(trial, i, column, sizeof(column)); i++)
		if (strcmp(column, name) == 0)
			return true;
	return false;
}

static int check_charts(struct trial *trial, char **ret_why)
{
	for (size_t i = 0; i < trial->nr_charts; i++) {
		struct trial_chart *chart = &trial->charts[i];
		if (!chart->value || !is_column(trial, chart->value))
			return trial_wrong(ret_why, "chart %s: \"%s\" is no column of the timeline",
					   chart->name, chart->value ? chart->value : "");
		if (chart->variants) {
			int r = check_variant_list(trial, chart->name, chart->variants, ret_why);
			if (r < 0)
				return r;
		}
		if (!chart->title)
			chart->title = chart->name;
	}
	return 0;
}

/* A variant's changes are tried out on a copy, which must be as sound as the trial itself. */
static int check_variants(struct trial *trial, char **ret_why)
{
	if (trial->nr_variants == 0)
		return trial_wrong(ret_why, "no [variant NAME]");
	for (size_t i = 0; i < trial->nr_variants; i++) {
		_cleanup_trial_ struct trial *plan = NULL;
		_cleanup_free_ char *why = NULL;
		int r = trial_plan_new(trial, &trial->variants[i], &plan, &why);
		if (r == 0)
			r = check_workloads(plan, &why);
		if (r == 0)
			r = check_phases(plan, &why);
		if (r == -EINVAL)
			return trial_wrong(ret_why, "variant %s: %s", trial->variants[i].name, why);
		if (r < 0)
			return r;
	}
	return 0;
}

int trial_check(struct trial *trial, char **ret_why)
{
	if (!trial->name)
		return trial_wrong(ret_why, "[trial]: no name");
	if (!trial->title)
		trial->title = trial->name;
	int r = check_workloads(trial, ret_why);
	if (r == 0 && trial->nr_phases == 0)
		r = add_default_phase(trial);
	if (r == 0)
		r = check_phases(trial, ret_why);
	if (r == 0)
		r = check_variants(trial, ret_why);
	if (r == 0)
		r = check_metrics(trial, ret_why);
	if (r == 0)
		r = check_expects(trial, ret_why);
	if (r == 0 && trial->nr_tables == 0)
		r = add_default_table(trial);
	if (r == 0)
		r = check_tables(trial, ret_why);
	return r == 0 ? check_charts(trial, ret_why) : r;
}
