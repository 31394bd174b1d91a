/* SPDX-License-Identifier: MIT */
/*
 * The tables of a trial on a terminal: a column per variant, the ratio, the reference beside it; below, what was
 * expected and whether it held.
 */
#include "trials/private.h"

#include <math.h>
#include <string.h>

#define CELL_MAX 96
#define MAX_COLUMNS (TRIAL_MAX_VARIANTS + 3)

/* A table as text, before its widths are known. */
struct grid {
	char cells[TRIAL_MAX_ITEMS + 1][MAX_COLUMNS][CELL_MAX];
	size_t rows, columns;
};

static void grid_set(struct grid *grid, size_t row, size_t column, const char *text)
{
	snprintf(grid->cells[row][column], CELL_MAX, "%s", text);
	if (column >= grid->columns)
		grid->columns = column + 1;
}

static bool table_has_reference(const struct trial_results *results, const struct trial_table *table)
{
	const char *list = table->rows;
	char name[TRIAL_NAME_MAX];
	while (trial_next_name(&list, name))
		if (trial_find_metric(results->trial, name)->reference)
			return true;
	return false;
}

static void grid_header(struct grid *grid, const struct trial_table *table, bool reference)
{
	const char *list = table->variants;
	char name[TRIAL_NAME_MAX];
	size_t column = 0;
	grid_set(grid, 0, column++, "");
	while (trial_next_name(&list, name))
		grid_set(grid, 0, column++, name);
	if (table->ratio)
		grid_set(grid, 0, column++, table->ratio);
	if (reference)
		grid_set(grid, 0, column++, "reference");
	grid->rows = 1;
}

static void grid_row(struct grid *grid, const struct trial_results *results,
		     const struct trial_table *table, const struct trial_metric *metric, bool reference)
{
	const char *list = table->variants;
	char name[TRIAL_NAME_MAX], text[CELL_MAX];
	size_t column = 0, row = grid->rows++;
	grid_set(grid, row, column++, metric->title);
	while (trial_next_name(&list, name)) {
		double value = trial_results_value(results, name, metric->name);
		grid_set(grid, row, column++,
			 trial_format_value((enum trial_format)metric->format, value, text, sizeof(text)));
	}
	if (table->ratio) {
		double ratio = trial_results_ratio(results, table, metric->name);
		grid_set(grid, row, column++,
			 trial_format_value(TRIAL_FORMAT_NUMBER, ratio, text, sizeof(text)));
	}
	if (reference)
		grid_set(grid, row, column, metric->reference ? metric->reference : "");
}

static void grid_print(const struct grid *grid, bool reference, FILE *out)
{
	int width[MAX_COLUMNS] = { 0 };
	for (size_t r = 0; r < grid->rows; r++)
		for (size_t c = 0; c < grid->columns; c++) {
			int len = (int)strlen(grid->cells[r][c]);
			if (len > width[c])
				width[c] = len;
		}
	for (size_t r = 0; r < grid->rows; r++) {
		fprintf(out, "  %-*s", width[0], grid->cells[r][0]);
		for (size_t c = 1; c < grid->columns; c++) {
			if (reference && c == grid->columns - 1)
				fprintf(out, "%s%s", *grid->cells[r][c] ? "   " : "", grid->cells[r][c]);
			else
				fprintf(out, "  %*s", width[c], grid->cells[r][c]);
		}
		fputc('\n', out);
	}
}

static void print_table(const struct trial_results *results, const struct trial_table *table,
			struct grid *grid, FILE *out)
{
	bool reference = table_has_reference(results, table);
	const char *list = table->rows;
	char name[TRIAL_NAME_MAX];
	memset(grid, 0, sizeof(*grid));
	grid_header(grid, table, reference);
	while (trial_next_name(&list, name) && grid->rows <= TRIAL_MAX_ITEMS)
		grid_row(grid, results, table, trial_find_metric(results->trial, name), reference);
	fprintf(out, "%s\n", table->title);
	grid_print(grid, reference, out);
	fputc('\n', out);
}

void trial_print_tables(const struct trial_results *results, FILE *out)
{
	const struct trial *trial = results->trial;
	_cleanup_free_ struct grid *grid = malloc(sizeof(*grid));
	if (!grid)
		return;
	fprintf(out, "trial %s: %s\n", trial->name, trial->title);
	if (trial->reference)
		fprintf(out, "reference: %s\n", trial->reference);
	fputc('\n', out);
	for (size_t i = 0; i < trial->nr_tables; i++)
		print_table(results, &trial->tables[i], grid, out);
}

void trial_print_verdicts(const struct trial_results *results, FILE *out)
{
	const struct trial *trial = results->trial;
	size_t failed = 0;
	for (size_t i = 0; i < trial->nr_expects; i++) {
		const struct trial_expect *expect = &trial->expects[i];
		const struct trial_verdict *verdict = &results->verdicts[i];
		char text[CELL_MAX];
		failed += !verdict->value.holds;
		fprintf(out, "%s  %-26s %s   [%s]\n", verdict->value.holds ? "PASS" : "FAIL", expect->name,
			expect->expression,
			*verdict->why ? verdict->why
				      : trial_format_value(TRIAL_FORMAT_NUMBER, verdict->value.value, text,
							   sizeof(text)));
	}
	fprintf(out, "%s%s: %zu of %zu expectations hold, %.0f s\n", trial->nr_expects ? "\n" : "",
		results->passed ? "passed" : "FAILED", trial->nr_expects - failed, trial->nr_expects,
		(double)results->duration_ns / 1e9);
}
