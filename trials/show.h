/* SPDX-License-Identifier: MIT */
/* Results for people and programs: format.c, table.c, report.c, html.c, chart.c. */
#ifndef TRIALS_SHOW_H
#define TRIALS_SHOW_H

#include <stdio.h>

#include "trials/run.h"

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
/** Makes @dir if need be and sees that files can be made in it. 0 or -errno, said on stderr. */
int trial_report_prepare(const char *dir);
/** Leaves results.json, timeline.csv and report.html in @dir. 0 or -errno, said on stderr. */
int trial_report(const struct trial_results *results, const char *dir);
int trial_write_html(const struct trial_results *results, FILE *out);
void trial_write_chart(const struct trial_results *results, const struct trial_chart *chart, FILE *out);

#endif
