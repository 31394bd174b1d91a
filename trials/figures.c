/* SPDX-License-Identifier: MIT */
/*
 * Named numbers: the counters of a mount and of the workloads, as one flat list.
 *
 * A run reads the counters before and after a phase; what an expectation talks about is their difference, or, for what
 * rises and falls, the value at the end.
 */
#include "trials/private.h"

#include <errno.h>
#include <string.h>

void trial_figures_fini(struct trial_figures *figures)
{
	for (size_t i = 0; i < figures->count; i++)
		free(figures->items[i].name);
	free(figures->items);
	*figures = (struct trial_figures){ 0 };
}

/* The place where @name is or belongs. */
static size_t figures_place(const struct trial_figures *figures, const char *name, bool *ret_found)
{
	size_t low = 0, high = figures->count;
	*ret_found = false;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		int order = strcmp(figures->items[middle].name, name);
		if (order == 0) {
			*ret_found = true;
			return middle;
		}
		if (order < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

int trial_figures_set(struct trial_figures *figures, const char *name, double value)
{
	bool found;
	size_t place = figures_place(figures, name, &found);
	if (found) {
		figures->items[place].value = value;
		return 0;
	}
	if (figures->count == figures->room) {
		size_t room = figures->room ? figures->room * 2 : 256;
		struct trial_figure *items = reallocarray(figures->items, room, sizeof(*items));
		if (!items)
			return -ENOMEM;
		figures->items = items;
		figures->room = room;
	}
	char *copy = strdup(name);
	if (!copy)
		return -ENOMEM;
	memmove(&figures->items[place + 1], &figures->items[place],
		(figures->count - place) * sizeof(figures->items[0]));
	figures->items[place] = (struct trial_figure){ .name = copy, .value = value };
	figures->count++;
	return 0;
}

int trial_figures_get(const struct trial_figures *figures, const char *name, double *ret_value)
{
	bool found;
	size_t place = figures_place(figures, name, &found);
	if (!found)
		return -ENOENT;
	*ret_value = figures->items[place].value;
	return 0;
}

int trial_figures_flatten(struct trial_figures *figures, const char *prefix, json_object *object)
{
	json_object_object_foreach(object, key, value)
	{
		char name[TRIAL_NAME_MAX * 4];
		int r = 0;
		snprintf(name, sizeof(name), "%s%s%s", prefix, *prefix ? "." : "", key);
		switch (json_object_get_type(value)) {
		case json_type_object:
			r = trial_figures_flatten(figures, name, value);
			break;
		case json_type_int:
		case json_type_double:
			r = trial_figures_set(figures, name, json_object_get_double(value));
			break;
		case json_type_boolean:
			r = trial_figures_set(figures, name, json_object_get_boolean(value));
			break;
		default:
			break;
		}
		if (r < 0)
			return r;
	}
	return 0;
}

bool trial_figure_is_gauge(const char *name)
{
	static const char *const gauges[] = {
		"cache.pages",	     "cache.dirty",	      "cache.writeback",  "cache.files",
		"cache.limit_pages", "cache.oldest_dirty_ns", "gate.congested",	  "gate.outstanding",
		"gate.on",	     "gate.off",	      "device.inflight",  "quota.ids",
		"version",	     "uptime_ns",
	};
	for (size_t i = 0; i < sizeof(gauges) / sizeof(gauges[0]); i++)
		if (strcmp(name, gauges[i]) == 0)
			return true;
	if (strncmp(name, "memory.", 7) == 0)
		return true;
	/* Quantiles and maxima have no difference. */
	const char *last = strrchr(name, '.');
	last = last ? last + 1 : name;
	return strncmp(last, "p50", 3) == 0 || strncmp(last, "p99", 3) == 0 ||
	       strncmp(last, "max_", 4) == 0;
}

int trial_figures_delta(struct trial_figures *figures, const char *prefix,
			const struct trial_figures *before, const struct trial_figures *after)
{
	for (size_t i = 0; i < after->count; i++) {
		const struct trial_figure *figure = &after->items[i];
		char name[TRIAL_NAME_MAX * 5];
		double old = 0;
		if (!trial_figure_is_gauge(figure->name))
			trial_figures_get(before, figure->name, &old);
		snprintf(name, sizeof(name), "%s.%s", prefix, figure->name);
		int r = trial_figures_set(figures, name, figure->value - old);
		if (r < 0)
			return r;
	}
	return 0;
}
