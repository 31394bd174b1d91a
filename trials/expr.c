/* SPDX-License-Identifier: MIT */
/*
 * Expectations: arithmetic over measured figures, and comparisons that hold or do not.
 *
 * "list.refused / list.accepted <= 1/8.5" must be readable in the table that it judges, so the language is
 * that of a pocket calculator plus chains of comparisons, evaluated while it is read. A figure without a value
 * is an error, never a zero: an expectation that cannot be evaluated has failed.
 */
#include "trials/private.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct expr {
	const char *at;
	trial_lookup *lookup;
	void *context;
	bool measured; /* a name was met since this was cleared */
	int depth;
	char *why;
	size_t why_len;
};

#define EXPR_MAX_DEPTH 64

static int expr_sum(struct expr *expr, double *ret);

static void expr_skip_blank(struct expr *expr)
{
	while (isspace((unsigned char)*expr->at))
		expr->at++;
}

static bool expr_take(struct expr *expr, const char *token)
{
	expr_skip_blank(expr);
	size_t len = strlen(token);
	if (strncmp(expr->at, token, len) != 0)
		return false;
	expr->at += len;
	return true;
}

static int expr_wrong(struct expr *expr, const char *what)
{
	if (*expr->at)
		snprintf(expr->why, expr->why_len, "%s at \"%.32s\"", what, expr->at);
	else
		snprintf(expr->why, expr->why_len, "%s at the end", what);
	return -EINVAL;
}

static double unit_of(char c)
{
	switch (c) {
	case 'K':
		return 1024.0;
	case 'M':
		return 1024.0 * 1024;
	case 'G':
		return 1024.0 * 1024 * 1024;
	case 'T':
		return 1024.0 * 1024 * 1024 * 1024;
	case '%':
		return 0.01;
	default:
		return 0;
	}
}

static int expr_number(struct expr *expr, double *ret)
{
	char *end;
	double value = strtod(expr->at, &end);
	double unit = unit_of(*end);
	if (unit > 0) {
		value *= unit;
		end++;
	}
	if (isalnum((unsigned char)*end) || *end == '_' || *end == '.' || !isfinite(value))
		return expr_wrong(expr, "not a number");
	expr->at = end;
	*ret = value;
	return 0;
}

static int expr_call(struct expr *expr, const char *function, double *ret)
{
	double best = NAN;
	unsigned count = 0;
	do {
		double value;
		int r = expr_sum(expr, &value);
		if (r < 0)
			return r;
		if (count++ == 0)
			best = value;
		else if (isnan(value) || isnan(best))
			best = NAN;
		else
			best = function[1] == 'i' ? fmin(best, value) : fmax(best, value);
	} while (expr_take(expr, ","));
	if (!expr_take(expr, ")"))
		return expr_wrong(expr, "expected , or )");
	if (function[0] == 'a') {
		if (count != 1)
			return expr_wrong(expr, "abs() takes one value");
		best = fabs(best);
	}
	*ret = best;
	return 0;
}

static int expr_name(struct expr *expr, double *ret)
{
	char name[TRIAL_NAME_MAX * 4];
	size_t len = strspn(expr->at, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				      "0123456789_.");
	if (len >= sizeof(name))
		return expr_wrong(expr, "name too long");
	memcpy(name, expr->at, len);
	name[len] = '\0';
	if (expr->at[len] == '(') {
		if (strcmp(name, "min") != 0 && strcmp(name, "max") != 0 && strcmp(name, "abs") != 0)
			return expr_wrong(expr, "unknown function");
		expr->at += len + 1;
		return expr_call(expr, name, ret);
	}
	int r = expr->lookup(expr->context, name, ret);
	if (r < 0) {
		snprintf(expr->why, expr->why_len, "no figure \"%.100s\"", name);
		return -ENOENT;
	}
	expr->measured = true;
	expr->at += len;
	return 0;
}

static int expr_factor(struct expr *expr, double *ret)
{
	if (expr->depth >= EXPR_MAX_DEPTH)
		return expr_wrong(expr, "nested too deeply");
	expr_skip_blank(expr);
	int r;
	expr->depth++;
	if (expr_take(expr, "(")) {
		r = expr_sum(expr, ret);
		if (r == 0 && !expr_take(expr, ")"))
			r = expr_wrong(expr, "expected )");
	} else if (expr_take(expr, "-")) {
		r = expr_factor(expr, ret);
		if (r == 0)
			*ret = -*ret;
	} else if (isdigit((unsigned char)*expr->at) || *expr->at == '.') {
		r = expr_number(expr, ret);
	} else if (isalpha((unsigned char)*expr->at)) {
		r = expr_name(expr, ret);
	} else {
		r = expr_wrong(expr, "expected a number or a name");
	}
	expr->depth--;
	return r;
}

static int expr_term(struct expr *expr, double *ret)
{
	double value, by;
	int r = expr_factor(expr, &value);
	while (r == 0) {
		if (expr_take(expr, "*")) {
			r = expr_factor(expr, &by);
			value *= r == 0 ? by : 1;
		} else if (expr_take(expr, "/")) {
			r = expr_factor(expr, &by);
			value = r == 0 && by != 0 ? value / by : NAN;
		} else {
			*ret = value;
			return 0;
		}
	}
	return r;
}

static int expr_sum(struct expr *expr, double *ret)
{
	double value, by;
	int r = expr_term(expr, &value);
	while (r == 0) {
		if (expr_take(expr, "+")) {
			r = expr_term(expr, &by);
			value += r == 0 ? by : 0;
		} else if (expr_take(expr, "-")) {
			r = expr_term(expr, &by);
			value -= r == 0 ? by : 0;
		} else {
			*ret = value;
			return 0;
		}
	}
	return r;
}

static const char *expr_relation(struct expr *expr)
{
	static const char *const relations[] = { "<=", ">=", "==", "!=", "<", ">" };
	for (size_t i = 0; i < sizeof(relations) / sizeof(relations[0]); i++)
		if (expr_take(expr, relations[i]))
			return relations[i];
	return NULL;
}

/* NaN makes every relation false, != included: what was not measured proves nothing. */
static bool holds(double a, const char *relation, double b)
{
	if (isnan(a) || isnan(b))
		return false;
	switch (relation[0]) {
	case '<':
		return relation[1] ? a <= b : a < b;
	case '>':
		return relation[1] ? a >= b : a > b;
	case '=':
		return a == b;
	default:
		return a != b;
	}
}

static int expr_chain(struct expr *expr, struct trial_value *value)
{
	bool shown = false;
	expr->measured = false;
	double left, right;
	int r = expr_sum(expr, &left);
	if (r < 0)
		return r;
	*value = (struct trial_value){ .value = left, .holds = true };
	shown = expr->measured;
	const char *relation;
	while ((relation = expr_relation(expr))) {
		expr->measured = false;
		r = expr_sum(expr, &right);
		if (r < 0)
			return r;
		value->is_verdict = true;
		value->holds = value->holds && holds(left, relation, right);
		if (!shown && expr->measured) {
			value->value = right;
			shown = true;
		}
		left = right;
	}
	return 0;
}

int trial_eval(const char *text, trial_lookup *lookup, void *context, struct trial_value *ret_value,
	       char *ret_why, size_t why_len)
{
	struct expr expr = { .at = text,
			     .lookup = lookup,
			     .context = context,
			     .why = ret_why,
			     .why_len = why_len };
	struct trial_value all, next;
	int r = expr_chain(&expr, &all);
	while (r == 0 && expr_take(&expr, "and ")) {
		r = expr_chain(&expr, &next);
		if (r == 0 && (!all.is_verdict || !next.is_verdict))
			r = expr_wrong(&expr, "\"and\" joins comparisons");
		all.holds = all.holds && next.holds;
	}
	if (r < 0)
		return r;
	expr_skip_blank(&expr);
	if (*expr.at)
		return expr_wrong(&expr, "expected the end");
	*ret_value = all;
	return 0;
}
