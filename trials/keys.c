/* SPDX-License-Identifier: MIT */
/*
 * The keys of a trial file's sections: one table a section, one way to set a field.
 *
 * Every key, value and bound is checked here, so that a misspelt "wirters = 4" is an answer of one line and never a
 * trial that measured something else.
 */
#include "trials/private.h"

#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdarg.h>
#include <string.h>

#include "base/clock.h"
#include "base/sizes.h"

#define KEY(object, field, type, ...) \
	{ #field, type, offsetof(struct object, field), __VA_ARGS__ }
#define KEY_AS(name, object, field, type, ...) \
	{ name, type, offsetof(struct object, field), __VA_ARGS__ }
#define MAX_NS (24ull * 3600 * NSEC_PER_SEC)

const struct trial_key trial_keys_trial[] = {
	KEY(trial, name, TRIAL_KEY_TEXT, NULL, 0, 0),
	KEY(trial, title, TRIAL_KEY_TEXT, NULL, 0, 0),
	KEY(trial, description, TRIAL_KEY_TEXT, NULL, 0, 0),
	KEY(trial, reference, TRIAL_KEY_TEXT, NULL, 0, 0),
	KEY(trial, nice, TRIAL_KEY_NICE, NULL, 0, 0),
	KEY_AS("sample", trial, sample_ns, TRIAL_KEY_DURATION, NULL, NSEC_PER_MSEC, NSEC_PER_SEC),
	{ 0 },
};

const struct trial_key trial_keys_workload[] = {
	KEY_AS("type", trial_workload, program, TRIAL_KEY_CHOICE, "writer bystander", 0, 0),
	KEY(trial_workload, uid, TRIAL_KEY_USER, NULL, 0, 0),
	KEY(trial_workload, gid, TRIAL_KEY_GROUP, NULL, 0, 0),
	KEY(trial_workload, file, TRIAL_KEY_TEXT, NULL, 0, 0),
	KEY(trial_workload, files, TRIAL_KEY_COUNT, NULL, 1, 100000),
	KEY(trial_workload, writers, TRIAL_KEY_COUNT, NULL, 1, TRIAL_MAX_WORKERS),
	KEY(trial_workload, write_size, TRIAL_KEY_SIZE, NULL, 1, 1ull << 30),
	KEY(trial_workload, read_size, TRIAL_KEY_SIZE, NULL, 1, 1ull << 30),
	KEY(trial_workload, span, TRIAL_KEY_SIZE, NULL, 0, 0),
	KEY(trial_workload, pattern, TRIAL_KEY_CHOICE, "sequential random", 0, 0),
	KEY(trial_workload, prefill, TRIAL_KEY_CHOICE, "none sparse fallocate write", 0, 0),
	KEY(trial_workload, ignore_errors, TRIAL_KEY_BOOL, NULL, 0, 0),
	KEY(trial_workload, fsync_at_end, TRIAL_KEY_BOOL, NULL, 0, 0),
	KEY(trial_workload, drop_behind, TRIAL_KEY_BOOL, NULL, 0, 0),
	KEY_AS("duration", trial_workload, duration_ns, TRIAL_KEY_DURATION, NULL, 1, MAX_NS),
	KEY(trial_workload, calls, TRIAL_KEY_COUNT, NULL, 0, 0),
	KEY(trial_workload, rate, TRIAL_KEY_SIZE, NULL, 0, 0),
	KEY_AS("interval", trial_workload, interval_ns, TRIAL_KEY_DURATION, NULL, 0, MAX_NS),
	KEY(trial_workload, command, TRIAL_KEY_TEXT, NULL, 0, 0),
	{ 0 },
};

const struct trial_key trial_keys_phase[] = {
	KEY(trial_phase, run, TRIAL_KEY_TEXT, NULL, 0, 0),
	KEY_AS("duration", trial_phase, duration_ns, TRIAL_KEY_DURATION, NULL, 1, MAX_NS),
	KEY(trial_phase, until, TRIAL_KEY_CHOICE, "time refused clean done", 0, 0),
	KEY(trial_phase, calls, TRIAL_KEY_COUNT, NULL, 0, 0),
	KEY(trial_phase, quiesce, TRIAL_KEY_BOOL, NULL, 0, 0),
	{ 0 },
};

const struct trial_key trial_keys_limits[] = {
	KEY_AS("soft", trial_limits, bytes_soft, TRIAL_KEY_SUM, NULL, 0, 0),
	KEY_AS("hard", trial_limits, bytes_hard, TRIAL_KEY_SUM, NULL, 0, 0),
	KEY(trial_limits, inodes_soft, TRIAL_KEY_COUNT, NULL, 0, 0),
	KEY(trial_limits, inodes_hard, TRIAL_KEY_COUNT, NULL, 0, 0),
	{ 0 },
};

const struct trial_key trial_keys_metric[] = {
	KEY(trial_metric, title, TRIAL_KEY_TEXT, NULL, 0, 0),
	KEY(trial_metric, value, TRIAL_KEY_TEXT, NULL, 0, 0),
	KEY(trial_metric, reference, TRIAL_KEY_TEXT, NULL, 0, 0),
	KEY(trial_metric, format, TRIAL_KEY_CHOICE, TRIAL_FORMATS, 0, 0),
	{ 0 },
};

const struct trial_key trial_keys_table[] = {
	KEY(trial_table, title, TRIAL_KEY_TEXT, NULL, 0, 0),
	KEY(trial_table, variants, TRIAL_KEY_TEXT, NULL, 0, 0),
	KEY(trial_table, rows, TRIAL_KEY_TEXT, NULL, 0, 0),
	KEY(trial_table, ratio, TRIAL_KEY_TEXT, NULL, 0, 0),
	{ 0 },
};

const struct trial_key trial_keys_chart[] = {
	KEY(trial_chart, title, TRIAL_KEY_TEXT, NULL, 0, 0),
	KEY(trial_chart, value, TRIAL_KEY_TEXT, NULL, 0, 0),
	KEY(trial_chart, variants, TRIAL_KEY_TEXT, NULL, 0, 0),
	KEY(trial_chart, rate, TRIAL_KEY_BOOL, NULL, 0, 0),
	KEY(trial_chart, format, TRIAL_KEY_CHOICE, TRIAL_FORMATS, 0, 0),
	{ 0 },
};

int trial_wrong(char **ret_why, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	int r = vasprintf(ret_why, format, args);
	va_end(args);
	if (r < 0) {
		*ret_why = NULL;
		return -ENOMEM;
	}
	return -EINVAL;
}

static const struct trial_key *key_find(const struct trial_key *keys, const char *name)
{
	for (const struct trial_key *key = keys; key->name; key++)
		if (strcmp(key->name, name) == 0)
			return key;
	return NULL;
}

static int parse_choice(const char *choices, const char *value, int *ret_index)
{
	char name[TRIAL_NAME_MAX];
	for (int i = 0; trial_next_name(&choices, name); i++)
		if (strcmp(name, value) == 0) {
			*ret_index = i;
			return 0;
		}
	return -EINVAL;
}

/* (uid_t)-1 means "unchanged" to the system calls, so no user can have it. */
static int parse_id(enum trial_key_type type, const char *value, uint64_t *ret_id)
{
	if (parse_u64(value, ret_id) == 0)
		return *ret_id < UINT32_MAX ? 0 : -ERANGE;
	if (type == TRIAL_KEY_USER) {
		const struct passwd *user = getpwnam(value);
		if (user)
			*ret_id = user->pw_uid;
		return user ? 0 : -EINVAL;
	}
	const struct group *group = getgrnam(value);
	if (group)
		*ret_id = group->gr_gid;
	return group ? 0 : -EINVAL;
}

static int parse_number(const struct trial_key *key, const char *value, uint64_t *ret_number)
{
	uint64_t number = 0;
	int r;
	switch (key->type) {
	case TRIAL_KEY_SIZE:
		r = parse_size(value, 1, &number);
		break;
	case TRIAL_KEY_COUNT:
		r = parse_u64(value, &number);
		break;
	case TRIAL_KEY_DURATION:
		r = parse_duration(value, NSEC_PER_SEC, &number);
		break;
	default:
		r = parse_id(key->type, value, &number);
		break;
	}
	if (r < 0)
		return r;
	if (number < key->min || (key->max && number > key->max))
		return -ERANGE;
	*ret_number = number;
	return 0;
}

static int key_wrong(const struct trial_key *key, const char *value, int r, char **ret_why)
{
	if (r == -ERANGE)
		return trial_wrong(ret_why, "%s: \"%s\" is out of range", key->name, value);
	switch (key->type) {
	case TRIAL_KEY_CHOICE:
		return trial_wrong(ret_why, "%s: \"%s\" is none of: %s", key->name, value, key->choices);
	case TRIAL_KEY_SIZE:
	case TRIAL_KEY_SUM:
		return trial_wrong(ret_why, "%s: \"%s\" is not a size", key->name, value);
	case TRIAL_KEY_DURATION:
		return trial_wrong(ret_why, "%s: \"%s\" is not a duration", key->name, value);
	case TRIAL_KEY_BOOL:
		return trial_wrong(ret_why, "%s: \"%s\" is neither yes nor no", key->name, value);
	case TRIAL_KEY_USER:
		return trial_wrong(ret_why, "%s: no user \"%s\"", key->name, value);
	case TRIAL_KEY_GROUP:
		return trial_wrong(ret_why, "%s: no group \"%s\"", key->name, value);
	default:
		return trial_wrong(ret_why, "%s: \"%s\" is not a number", key->name, value);
	}
}

static int parse_nice(const char *value, int64_t *ret_nice)
{
	int64_t level;
	int r = parse_s64(value, &level);
	if (r < 0)
		return r;
	if (level < -20 || level > 19)
		return -ERANGE;
	*ret_nice = level;
	return 0;
}

static int set_text(struct trial *trial, const char *value, const char **field)
{
	const char *text = trial_intern(trial, value);
	if (!text)
		return -ENOMEM;
	*field = text;
	return 0;
}

int trial_key_set(struct trial *trial, const struct trial_key *keys, void *object,
		  const struct trial_pair *pair, char **ret_why)
{
	const struct trial_key *key = key_find(keys, pair->key);
	if (!key)
		return -ENOENT;
	void *field = (char *)object + key->offset;
	uint64_t bytes;
	int r;
	switch (key->type) {
	case TRIAL_KEY_SUM:
		r = trial_parse_sum(pair->value, &bytes);
		if (r < 0)
			break;
		return set_text(trial, pair->value, field);
	case TRIAL_KEY_TEXT:
		return set_text(trial, pair->value, field);
	case TRIAL_KEY_BOOL:
		r = parse_bool(pair->value, field);
		break;
	case TRIAL_KEY_NICE:
		r = parse_nice(pair->value, field);
		break;
	case TRIAL_KEY_CHOICE:
		r = parse_choice(key->choices, pair->value, field);
		break;
	default:
		r = parse_number(key, pair->value, field);
		break;
	}
	return r < 0 ? key_wrong(key, pair->value, r, ret_why) : 0;
}
