/* SPDX-License-Identifier: MIT */
/* From the text of a trial file to a sound struct trial: file.c, keys.c, check.c. */
#ifndef TRIALS_FILE_H
#define TRIALS_FILE_H

#include "base/cleanup.h"
#include "trials/model.h"

/** Reads the text of a trial file, with @settings (from --set) in the place of what the file says. 0; -EINVAL with one line
 *  in *@ret_why (heap) that names what is wrong; -ENOMEM. */
int trial_parse(const char *text, const struct trial_pairs *settings, struct trial **ret_trial,
		char **ret_why);
void trial_free(struct trial *trial);
void trial_freep(struct trial **trial);
#define _cleanup_trial_ _cleanup_(trial_freep)

/** Copies @text into the pool. NULL: no memory. */
const char *trial_intern(struct trial *trial, const char *text);

/** Sets what "section.key" or a switch names to @value: a --set, a variant's override. */
int trial_override(struct trial *trial, const struct trial_pair *change, char **ret_why);
/** A copy with @variant's changes made; it borrows strings of @trial, which must outlive it. */
int trial_plan_new(const struct trial *trial, const struct trial_variant *variant,
		   struct trial **ret_plan, char **ret_why);
/** Adds "key = value", or replaces what it was. -E2BIG. */
int trial_pairs_set(struct trial_pairs *pairs, const char *key, const char *value);
const char *trial_pairs_get(const struct trial_pairs *pairs, const char *key);

/** What is wrong between the sections: names that do not exist, expressions that do not parse. 0 or -EINVAL. */
int trial_check(struct trial *trial, char **ret_why);
/** True once per name in the blank-separated list at *@list, copied to @name. */
bool trial_next_name(const char **list, char name[TRIAL_NAME_MAX]);
const struct trial_metric *trial_find_metric(const struct trial *trial, const char *name);
/** Indices, or -1. */
int trial_find_variant(const struct trial *trial, const char *name);
int trial_find_phase(const struct trial *trial, const char *name);
int trial_find_workload(const struct trial *trial, const char *name);
/** Bytes of "4G", "4G+200K". 0, -EINVAL, -ERANGE. */
int trial_parse_sum(const char *text, uint64_t *ret_bytes);

/* ---- the keys of sections (keys.c) ---- */

enum trial_key_type {
	TRIAL_KEY_TEXT,
	TRIAL_KEY_SIZE,
	TRIAL_KEY_SUM, /* kept as text, checked by trial_parse_sum() */
	TRIAL_KEY_COUNT,
	TRIAL_KEY_DURATION, /* bare numbers are seconds */
	TRIAL_KEY_BOOL,
	TRIAL_KEY_NICE, /* -20 to 19 */
	TRIAL_KEY_CHOICE,
	TRIAL_KEY_USER, /* a number or a name */
	TRIAL_KEY_GROUP,
};

struct trial_key {
	const char *name;
	enum trial_key_type type;
	size_t offset;
	const char *choices; /* of TRIAL_KEY_CHOICE, blank-separated: the value becomes the index */
	uint64_t min, max;   /* of a size, count or duration; max 0: no bound */
};

extern const struct trial_key trial_keys_trial[], trial_keys_workload[], trial_keys_phase[],
	trial_keys_limits[], trial_keys_metric[], trial_keys_table[], trial_keys_chart[];

/** Sets the field of @object that @keys says. -ENOENT: no such key; -EINVAL with *@ret_why. */
int trial_key_set(struct trial *trial, const struct trial_key *keys, void *object,
		  const struct trial_pair *pair, char **ret_why);
/** *@ret_why = the formatted line; returns -EINVAL, or -ENOMEM. */
int trial_wrong(char **ret_why, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* ---- built-in files (generated from builtin/) ---- */

struct trial_builtin {
	const char *name, *text;
};
extern const struct trial_builtin trial_builtins[]; /* name NULL after the last */

#endif
