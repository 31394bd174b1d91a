/* SPDX-License-Identifier: MIT */
/* The report as one page that opens without a network: the same tables, verdicts, and the charts as inline SVG. */
#include "trials/private.h"

#include <math.h>

static const char page_head[] =
	"<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
	"<meta name=\"viewport\" content=\"width=device-width\">\n<style>\n"
	"body{font:15px/1.5 system-ui,sans-serif;max-width:64rem;margin:2rem auto;padding:0 1rem;color:#222}\n"
	"table{border-collapse:collapse;margin:.5rem 0 2rem}th,td{padding:.25rem .75rem;text-align:right;"
	"border-bottom:1px solid #ddd}\nth:first-child,td:first-child,.text{text-align:left}\n"
	".pass{color:#176b2c;font-weight:600}.fail{color:#b00020;font-weight:600}code{font-size:.9em}\n"
	"svg{display:block;width:100%;height:auto;margin:0 0 1.5rem}\n</style>\n";

static void escape(const char *text, FILE *out)
{
	for (; *text; text++)
		switch (*text) {
		case '<':
			fputs("&lt;", out);
			break;
		case '>':
			fputs("&gt;", out);
			break;
		case '&':
			fputs("&amp;", out);
			break;
		case '"':
			fputs("&quot;", out);
			break;
		default:
			fputc(*text, out);
		}
}

static void element(const char *open, const char *text, const char *close, FILE *out)
{
	fputs(open, out);
	escape(text, out);
	fputs(close, out);
}

static void write_row(const struct trial_results *results, const struct trial_table *table,
		      const struct trial_metric *metric, FILE *out)
{
	const char *list = table->variants;
	char name[TRIAL_NAME_MAX], text[64];
	element("<tr><td>", metric->title, "</td>", out);
	while (trial_next_name(&list, name)) {
		double value = trial_results_value(results, name, metric->name);
		element("<td>", trial_format_value((enum trial_format)metric->format, value, text, sizeof(text)),
			"</td>", out);
	}
	if (table->ratio) {
		double ratio = trial_results_ratio(results, table, metric->name);
		element("<td>", trial_format_value(TRIAL_FORMAT_NUMBER, ratio, text, sizeof(text)), "</td>", out);
	}
	element("<td class=\"text\">", metric->reference ? metric->reference : "", "</td></tr>\n", out);
}

static void write_table(const struct trial_results *results, const struct trial_table *table, FILE *out)
{
	const char *list = table->variants;
	char name[TRIAL_NAME_MAX];
	element("<h2>", table->title, "</h2>\n<table><tr><th></th>", out);
	while (trial_next_name(&list, name))
		element("<th>", name, "</th>", out);
	if (table->ratio)
		element("<th>", table->ratio, "</th>", out);
	fputs("<th class=\"text\">reference</th></tr>\n", out);
	list = table->rows;
	while (trial_next_name(&list, name))
		write_row(results, table, trial_find_metric(results->trial, name), out);
	fputs("</table>\n", out);
}

static void write_verdicts(const struct trial_results *results, FILE *out)
{
	fputs("<h2>Expectations</h2>\n<table>\n", out);
	for (size_t i = 0; i < results->trial->nr_expects; i++) {
		const struct trial_expect *expect = &results->trial->expects[i];
		const struct trial_verdict *verdict = &results->verdicts[i];
		char text[64];
		fprintf(out, "<tr><td class=\"%s\">%s</td>", verdict->value.holds ? "pass" : "fail",
			verdict->value.holds ? "PASS" : "FAIL");
		element("<td class=\"text\">", expect->name, "</td>", out);
		element("<td class=\"text\"><code>", expect->expression, "</code></td>", out);
		element("<td>",
			*verdict->why ? verdict->why
				      : trial_format_value(TRIAL_FORMAT_NUMBER, verdict->value.value, text,
							   sizeof(text)),
			"</td></tr>\n", out);
	}
	fputs("</table>\n", out);
}

int trial_write_html(const struct trial_results *results, FILE *out)
{
	const struct trial *trial = results->trial;
	fputs(page_head, out);
	element("<title>", trial->name, "</title></head><body>\n", out);
	element("<h1>", trial->title, "</h1>\n", out);
	if (trial->description)
		element("<p>", trial->description, "</p>\n", out);
	if (trial->reference)
		element("<p>Reference: ", trial->reference, "</p>\n", out);
	fprintf(out, "<p class=\"%s\">%s, %.0f s, chokefs %s</p>\n", results->passed ? "pass" : "fail",
		results->passed ? "passed" : "FAILED", (double)results->duration_ns / 1e9, CHOKEFS_VERSION);
	for (size_t i = 0; i < trial->nr_tables; i++)
		write_table(results, &trial->tables[i], out);
	write_verdicts(results, out);
	for (size_t i = 0; i < trial->nr_charts; i++) {
		element("<h2>", trial->charts[i].title, "</h2>\n", out);
		trial_write_chart(results, &trial->charts[i], out);
	}
	fputs("</body></html>\n", out);
	return 0;
}
