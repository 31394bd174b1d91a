/* SPDX-License-Identifier: MIT */
/*
 * A chart of the timeline as SVG: one line per variant over the seconds since its first phase began.
 *
 * A rate is the difference over a slice of a hundredth of the run, so that the teeth of a stalling device show
 * and the noise of single samples does not.
 */
#include "trials/private.h"

#include <math.h>
#include <string.h>

#define WIDTH 960.0
#define HEIGHT 300.0
#define LEFT 70.0
#define RIGHT 10.0
#define TOP 26.0
#define BOTTOM 28.0
#define SLICES 250

struct frame {
	const struct trial_results *results;
	const struct trial_chart *chart;
	size_t column;
	double end_s, max;
};

static const char *colour(size_t i)
{
	static const char *const colours[] = { "#c0392b", "#2471a3", "#1e8449", "#8e44ad",
					       "#b9770e", "#148f77", "#566573", "#d35400" };
	return colours[i % (sizeof(colours) / sizeof(colours[0]))];
}

static bool is_shown(const struct trial_chart *chart, const char *variant)
{
	const char *list = chart->variants;
	char name[TRIAL_NAME_MAX];
	if (!list)
		return true;
	while (trial_next_name(&list, name))
		if (strcmp(name, variant) == 0)
			return true;
	return false;
}

/* The next point of a variant's line from sample *@at on. False at the end. */
static bool next_point(const struct frame *frame, size_t variant, size_t *at, double point[2])
{
	const struct trial_results *results = frame->results;
	double slice = frame->end_s / SLICES;
	const struct trial_sample *first = NULL;
	for (size_t i = *at; i < results->nr_samples; i++) {
		const struct trial_sample *sample = &results->samples[i];
		if (sample->variant != variant || isnan(sample->values[frame->column]))
			continue;
		double time = (double)sample->time_ns / 1e9;
		if (!first) {
			first = sample;
			if (frame->chart->rate)
				continue;
		}
		double dt = time - (double)first->time_ns / 1e9;
		if (dt < slice && frame->chart->rate)
			continue;
		point[0] = time;
		point[1] = frame->chart->rate
				   ? (sample->values[frame->column] - first->values[frame->column]) / dt
				   : sample->values[frame->column];
		*at = frame->chart->rate ? i : i + 1;
		return true;
	}
	return false;
}

static void measure(struct frame *frame)
{
	for (size_t i = 0; i < frame->results->nr_samples; i++)
		if (is_shown(frame->chart,
			     frame->results->trial->variants[frame->results->samples[i].variant].name))
			frame->end_s = fmax(frame->end_s, (double)frame->results->samples[i].time_ns / 1e9);
	for (size_t v = 0; v < frame->results->trial->nr_variants; v++) {
		size_t at = 0;
		double point[2];
		if (is_shown(frame->chart, frame->results->trial->variants[v].name))
			while (next_point(frame, v, &at, point))
				frame->max = fmax(frame->max, point[1]);
	}
}

static double x_of(const struct frame *frame, double seconds)
{
	return LEFT + seconds / frame->end_s * (WIDTH - LEFT - RIGHT);
}

static double y_of(const struct frame *frame, double value)
{
	return HEIGHT - BOTTOM - value / frame->max * (HEIGHT - TOP - BOTTOM);
}

static void write_axes(const struct frame *frame, FILE *out)
{
	char text[64];
	for (int i = 0; i <= 4; i++) {
		double value = frame->max * i / 4, y = y_of(frame, value);
		fprintf(out, "<line x1=\"%.0f\" x2=\"%.0f\" y1=\"%.1f\" y2=\"%.1f\" stroke=\"#ddd\"/>", LEFT,
			WIDTH - RIGHT, y, y);
		fprintf(out, "<text x=\"%.0f\" y=\"%.1f\" text-anchor=\"end\">%s</text>\n", LEFT - 6, y + 4,
			trial_format_value((enum trial_format)frame->chart->format, value, text, sizeof(text)));
		double seconds = frame->end_s * i / 4;
		fprintf(out, "<text x=\"%.0f\" y=\"%.0f\" text-anchor=\"middle\">%.1f s</text>\n",
			fmin(x_of(frame, seconds), WIDTH - 20), HEIGHT - 8, seconds);
	}
}

static void write_line(const struct frame *frame, size_t variant, size_t shown, FILE *out)
{
	size_t at = 0;
	double point[2];
	fprintf(out, "<polyline fill=\"none\" stroke-width=\"1.4\" stroke=\"%s\" points=\"", colour(shown));
	while (next_point(frame, variant, &at, point))
		fprintf(out, "%.1f,%.1f ", x_of(frame, point[0]), y_of(frame, point[1]));
	fputs("\"/>\n", out);
	fprintf(out, "<text x=\"%.0f\" y=\"16\" fill=\"%s\" font-weight=\"600\">%s</text>\n",
		LEFT + 120.0 * (double)shown, colour(shown), frame->results->trial->variants[variant].name);
}

void trial_write_chart(const struct trial_results *results, const struct trial_chart *chart, FILE *out)
{
	struct frame frame = { .results = results, .chart = chart };
	char name[TRIAL_NAME_MAX * 2];
	while (trial_column_name(results->trial, frame.column, name, sizeof(name)) &&
	       strcmp(name, chart->value) != 0)
		frame.column++;
	measure(&frame);
	if (frame.end_s <= 0 || frame.max <= 0) {
		fputs("<p>Nothing to show: zero throughout.</p>\n", out);
		return;
	}
	fprintf(out, "<svg viewBox=\"0 0 %.0f %.0f\" font-family=\"system-ui,sans-serif\" font-size=\"12\">\n",
		WIDTH, HEIGHT);
	write_axes(&frame, out);
	size_t shown = 0;
	for (size_t v = 0; v < results->trial->nr_variants; v++)
		if (is_shown(chart, results->trial->variants[v].name))
			write_line(&frame, v, shown++, out);
	fputs("</svg>\n", out);
}
