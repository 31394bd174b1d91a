/* SPDX-License-Identifier: MIT */
/* Named numbers, and arithmetic over them: figures.c, expr.c. */
#ifndef TRIALS_FIGURES_H
#define TRIALS_FIGURES_H

#include <stdbool.h>
#include <stddef.h>
#include <json-c/json.h>

#include "base/cleanup.h"

static inline void trial_json_putp(json_object **object)
{
	if (*object)
		json_object_put(*object);
}
#define _cleanup_json_ _cleanup_(trial_json_putp)

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

#endif
