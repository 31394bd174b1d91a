/* SPDX-License-Identifier: MIT */
/*
 * Reads a trial file.
 *
 * inih does the lines; it also cuts what is too long for it, forgets sections without keys, and takes " ;" for the
 * start of a comment. All three would make a trial measure something else than its file says, so lines pass through
 * here first. Values may contain ${NAME}, a name from [parameters]; --set replaces parameters as they are
 * defined and everything else at the end, so that it wins over the file in both cases.
 */
#include "trials/private.h"

#include <ctype.h>
#include <errno.h>
#include <ini.h>
#include <string.h>

#include "base/clock.h"
#include "base/sizes.h"

#define MAX_LINE 196  /* inih's own limit, with room for its line ends */
#define MAX_TITLE 48

struct parser {
	struct trial *trial;
	const struct trial_pairs *settings;
	bool used[TRIAL_MAX_ITEMS]; /* settings that were parameters */
	const char *at;
	unsigned line;
	char section[MAX_TITLE];    /* of the last header line */
	char *why;
	int r;
};

void trial_free(struct trial *trial)
{
	for (size_t i = 0; trial && i < trial->nr_pool; i++)
		free(trial->pool[i]);
	if (trial)
		free(trial->pool);
	free(trial);
}

void trial_freep(struct trial **trial)
{
	trial_free(*trial);
}

const char *trial_intern(struct trial *trial, const char *text)
{
	char **pool = reallocarray(trial->pool, trial->nr_pool + 1, sizeof(*pool));
	if (!pool)
		return NULL;
	trial->pool = pool;
	char *copy = strdup(text);
	if (copy)
		pool[trial->nr_pool++] = copy;
	return copy;
}

const char *trial_pairs_get(const struct trial_pairs *pairs, const char *key)
{
	for (size_t i = 0; i < pairs->count; i++)
		if (strcmp(pairs->items[i].key, key) == 0)
			return pairs->items[i].value;
	return NULL;
}

int trial_pairs_set(struct trial_pairs *pairs, const char *key, const char *value)
{
	for (size_t i = 0; i < pairs->count; i++)
		if (strcmp(pairs->items[i].key, key) == 0) {
			pairs->items[i].value = value;
			return 0;
		}
	if (pairs->count == TRIAL_MAX_ITEMS)
		return -E2BIG;
	pairs->items[pairs->count++] = (struct trial_pair){ .key = key, .value = value };
	return 0;
}

int trial_parse_sum(const char *text, uint64_t *ret_bytes)
{
	uint64_t sum = 0;
	char part[TRIAL_NAME_MAX];
	for (;;) {
		size_t len = strcspn(text, "+");
		if (len >= sizeof(part))
			return -EINVAL;
		memcpy(part, text, len);
		part[len] = '\0';
		uint64_t bytes;
		int r = parse_size(part, 1, &bytes);
		if (r < 0)
			return r;
		if (__builtin_add_overflow(sum, bytes, &sum))
			return -ERANGE;
		if (text[len] == '\0')
			break;
		text += len + 1;
	}
	*ret_bytes = sum;
	return 0;
}

/* ${NAME} -> the parameter's value. */
static int expand(struct trial *trial, const char *value, char buf[TRIAL_MAX_TEXT], char **ret_why)
{
	size_t len = 0;
	while (*value) {
		const char *insert = value;
		size_t insert_len = 1;
		const char *end = value[0] == '$' && value[1] == '{' ? strchr(value, '}') : NULL;
		if (end) {
			char name[TRIAL_NAME_MAX] = "";
			size_t name_len = (size_t)(end - value) - 2;
			if (name_len < sizeof(name))
				memcpy(name, value + 2, name_len);
			insert = trial_pairs_get(&trial->parameters, name);
			if (!insert)
				return trial_wrong(ret_why, "no parameter \"%.*s\"", (int)name_len, value + 2);
			insert_len = strlen(insert);
		}
		if (len + insert_len >= TRIAL_MAX_TEXT)
			return trial_wrong(ret_why, "value too long");
		memcpy(buf + len, insert, insert_len);
		len += insert_len;
		value = end ? end + 1 : value + 1;
	}
	buf[len] = '\0';
	return 0;
}

static bool is_name(const char *text)
{
	if (!isalpha((unsigned char)*text) || strlen(text) >= TRIAL_NAME_MAX)
		return false;
	for (; *text; text++)
		if (!isalnum((unsigned char)*text) && *text != '_')
			return false;
	return true;
}

static int set_pair(struct trial *trial, struct trial_pairs *pairs, const struct trial_pair *pair,
		    char **ret_why)
{
	if (trial_pairs_get(pairs, pair->key))
		return trial_wrong(ret_why, "%s: given twice", pair->key);
	const char *key = trial_intern(trial, pair->key), *value = trial_intern(trial, pair->value);
	if (!key || !value)
		return -ENOMEM;
	if (trial_pairs_set(pairs, key, value) < 0)
		return trial_wrong(ret_why, "%s: too many keys", pair->key);
	return 0;
}

static int set_parameter(struct parser *parser, const struct trial_pair *pair)
{
	struct trial_pair chosen = *pair;
	if (!is_name(pair->key))
		return trial_wrong(&parser->why, "\"%s\" is not a name", pair->key);
	for (size_t i = 0; i < parser->settings->count; i++)
		if (strcmp(parser->settings->items[i].key, pair->key) == 0) {
			chosen.value = parser->settings->items[i].value;
			parser->used[i] = true;
		}
	return set_pair(parser->trial, &parser->trial->parameters, &chosen, &parser->why);
}

/* The same change of the same phase as @key, or a new one at the end; NULL when there is no room. */
static struct trial_change *change_at(struct trial *trial, size_t phase, const char *key)
{
	for (size_t i = 0; i < trial->nr_changes; i++)
		if (trial->changes[i].phase == phase && strcmp(trial->changes[i].name, key) == 0)
			return &trial->changes[i];
	return trial->nr_changes < TRIAL_MAX_ITEMS ? &trial->changes[trial->nr_changes++] : NULL;
}

/* "quota.ID" and "tune.KEY" are changes made before the phase; the rest are its fields. */
static int set_phase(struct trial *trial, size_t phase, const struct trial_pair *pair, char **ret_why)
{
	bool is_tune = strncmp(pair->key, "tune.", 5) == 0;
	if (!is_tune && strncmp(pair->key, "quota.", 6) != 0)
		return trial_key_set(trial, trial_keys_phase, &trial->phases[phase], pair, ret_why);
	uint64_t bytes;
	if (!is_tune && trial_parse_sum(pair->value, &bytes) < 0)
		return trial_wrong(ret_why, "%s: \"%s\" is not a size", pair->key, pair->value);
	const char *name = trial_intern(trial, pair->key), *value = trial_intern(trial, pair->value);
	if (!name || !value)
		return -ENOMEM;
	struct trial_change *change = change_at(trial, phase, name);
	if (!change)
		return trial_wrong(ret_why, "%s: too many changes", pair->key);
	*change = (struct trial_change){
		.phase = phase, .is_tune = is_tune, .name = name, .key = strchr(name, '.') + 1, .value = value
	};
	return 0;
}

static int set_expect(struct trial *trial, const struct trial_pair *pair, char **ret_why)
{
	if (!is_name(pair->key))
		return trial_wrong(ret_why, "\"%s\" is not a name", pair->key);
	for (size_t i = 0; i < trial->nr_expects; i++)
		if (strcmp(trial->expects[i].name, pair->key) == 0)
			return trial_wrong(ret_why, "%s: given twice", pair->key);
	if (trial->nr_expects == TRIAL_MAX_ITEMS)
		return trial_wrong(ret_why, "too many expectations");
	struct trial_expect *expect = &trial->expects[trial->nr_expects];
	expect->expression = trial_intern(trial, pair->value);
	if (!expect->expression)
		return -ENOMEM;
	snprintf(expect->name, sizeof(expect->name), "%s", pair->key);
	trial->nr_expects++;
	return 0;
}

/* Sections with a name of their own: an array in the trial each, every element starting with that name. */
static const struct kind {
	const char *name;
	const struct trial_key *keys;
	size_t offset, count_offset, size, max;
} kinds[] = {
#define KIND(name, keys, field, max)                                                               \
	{ name, keys, offsetof(struct trial, field), offsetof(struct trial, nr_##field),           \
	  sizeof(((struct trial *)0)->field[0]), max }
	KIND("workload", trial_keys_workload, workloads, TRIAL_MAX_WORKLOADS),
	KIND("phase", trial_keys_phase, phases, TRIAL_MAX_PHASES),
	KIND("quota", trial_keys_limits, limits, TRIAL_MAX_ITEMS),
	KIND("metric", trial_keys_metric, metrics, TRIAL_MAX_ITEMS),
	KIND("table", trial_keys_table, tables, TRIAL_MAX_ITEMS),
	KIND("chart", trial_keys_chart, charts, TRIAL_MAX_ITEMS),
	KIND("variant", NULL, variants, TRIAL_MAX_VARIANTS),
};

static const struct kind *kind_find(const char *name, size_t len)
{
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (strlen(kinds[i].name) == len && strncmp(kinds[i].name, name, len) == 0)
			return &kinds[i];
	return NULL;
}

static size_t *kind_count(const struct kind *kind, struct trial *trial)
{
	return (size_t *)(void *)((char *)trial + kind->count_offset);
}

static void *kind_at(const struct kind *kind, struct trial *trial, size_t index)
{
	return (char *)trial + kind->offset + index * kind->size;
}

static int kind_index(const struct kind *kind, struct trial *trial, const char *name)
{
	for (size_t i = 0; i < *kind_count(kind, trial); i++)
		if (strcmp(kind_at(kind, trial, i), name) == 0)
			return (int)i;
	return -1;
}

/* What a key says about a section that the header line has already made. */
static int set_in_kind(struct trial *trial, const struct kind *kind, size_t index,
		       const struct trial_pair *pair, char **ret_why)
{
	if (!kind->keys)
		return set_pair(trial, &trial->variants[index].changes, pair, ret_why);
	if (kind->keys == trial_keys_phase)
		return set_phase(trial, index, pair, ret_why);
	return trial_key_set(trial, kind->keys, kind_at(kind, trial, index), pair, ret_why);
}

static void set_defaults(struct trial *trial, const struct kind *kind, void *object)
{
	if (kind->keys == trial_keys_workload) {
		struct trial_workload *workload = object;
		workload->uid = workload->gid = UINT64_MAX; /* the caller's; the group is the user's */
		workload->file = trial_intern(trial, workload->name);
		workload->files = workload->writers = 1;
		workload->write_size = workload->read_size = 4096;
		workload->interval_ns = 5 * NSEC_PER_MSEC;
	} else if (kind->keys == trial_keys_phase) {
		struct trial_phase *phase = object;
		phase->quiesce = true;
		phase->duration_ns = 60 * NSEC_PER_SEC;
		phase->run = "";
	}
}

static int add_section(struct parser *parser, const struct kind *kind, const char *name)
{
	struct trial *trial = parser->trial;
	const char *id = strncmp(name, "group:", 6) == 0 ? name + 6 : name;
	uint64_t number;
	bool good = kind->keys == trial_keys_limits ? (is_name(id) || parse_u64(id, &number) == 0) &&
							      strlen(name) < TRIAL_NAME_MAX
						    : is_name(name);
	if (!good)
		return trial_wrong(&parser->why, "[%s]: \"%s\" is not a name", parser->section, name);
	if (kind_index(kind, trial, name) >= 0)
		return trial_wrong(&parser->why, "[%s]: given twice", parser->section);
	size_t *count = kind_count(kind, trial);
	if (*count == kind->max)
		return trial_wrong(&parser->why, "[%s]: more than %zu", parser->section, kind->max);
	char *object = kind_at(kind, trial, *count);
	snprintf(object, TRIAL_NAME_MAX, "%s", name);
	set_defaults(trial, kind, object);
	(*count)++;
	return 0;
}

/* A header line: makes the section, with or without keys to come. */
static int open_section(struct parser *parser, const char *header)
{
	static const char *const plain[] = { "trial", "parameters", "mount", "expect" };
	const char *end = strchr(header, ']');
	size_t len = end ? (size_t)(end - header) - 1 : 0;
	if (!end || len >= MAX_TITLE)
		return trial_wrong(&parser->why, "\"%.*s\" is not a section", (int)strcspn(header, "\n"), header);
	memcpy(parser->section, header + 1, len);
	parser->section[len] = '\0';
	for (size_t i = 0; i < sizeof(plain) / sizeof(plain[0]); i++)
		if (strcmp(parser->section, plain[i]) == 0)
			return 0;
	size_t kind_len = strcspn(parser->section, " ");
	const struct kind *kind = kind_find(parser->section, kind_len);
	if (!kind || parser->section[kind_len] == '\0')
		return trial_wrong(&parser->why, "unknown section [%s]", parser->section);
	return add_section(parser, kind, parser->section + kind_len + 1);
}

static int set_key(struct parser *parser, const char *section, const struct trial_pair *pair)
{
	struct trial *trial = parser->trial;
	if (strcmp(section, "trial") == 0)
		return trial_key_set(trial, trial_keys_trial, trial, pair, &parser->why);
	if (strcmp(section, "parameters") == 0)
		return set_parameter(parser, pair);
	if (strcmp(section, "mount") == 0)
		return set_pair(trial, &trial->mount, pair, &parser->why);
	if (strcmp(section, "expect") == 0)
		return set_expect(trial, pair, &parser->why);
	size_t kind_len = strcspn(section, " ");
	const struct kind *kind = kind_find(section, kind_len);
	if (!kind)
		return trial_wrong(&parser->why, "\"%s\" before any section", pair->key);
	int index = kind_index(kind, trial, section + kind_len + 1);
	return index < 0 ? trial_wrong(&parser->why, "unknown section [%s]", section)
			 : set_in_kind(trial, kind, (size_t)index, pair, &parser->why);
}

/* A description may have several lines; inih gives each with the same name. */
static int join_lines(struct parser *parser, const char *section, const char *key,
		      char value[TRIAL_MAX_TEXT])
{
	const char *before = parser->trial->description;
	if (strcmp(section, "trial") != 0 || strcmp(key, "description") != 0 || !before)
		return 0;
	char joined[TRIAL_MAX_TEXT];
	if (snprintf(joined, sizeof(joined), "%s %s", before, value) >= (int)sizeof(joined))
		return trial_wrong(&parser->why, "description: too long");
	memcpy(value, joined, sizeof(joined));
	return 0;
}

static int on_key(void *user, const char *section, const char *key, const char *value)
{
	struct parser *parser = user;
	if (parser->r < 0)
		return 0;
	char expanded[TRIAL_MAX_TEXT];
	parser->r = expand(parser->trial, value, expanded, &parser->why);
	if (parser->r == 0)
		parser->r = join_lines(parser, section, key, expanded);
	if (parser->r == 0)
		parser->r = set_key(parser, section, &(struct trial_pair){ .key = key, .value = expanded });
	if (parser->r == -ENOENT)
		parser->r = trial_wrong(&parser->why, "[%s]: unknown key \"%s\"", section, key);
	return parser->r == 0;
}

/* Gives inih the next line, once it is known that inih will see all of it. */
static char *next_line(char *buf, int size, void *stream)
{
	struct parser *parser = stream;
	if (parser->r < 0 || !*parser->at)
		return NULL;
	size_t len = strcspn(parser->at, "\n");
	parser->line++;
	if (len > MAX_LINE || len + 2 > (size_t)size) {
		parser->r = trial_wrong(&parser->why, "line of more than %d characters", MAX_LINE);
		return NULL;
	}
	memcpy(buf, parser->at, len);
	memcpy(buf + len, "\n", 2);
	parser->at += len + (parser->at[len] == '\n');
	const char *text = buf + strspn(buf, " \t");
	if (*text == '[')
		parser->r = open_section(parser, text);
	else if (*text != ';' && *text != '#' && (strstr(text, " ;") || strstr(text, "\t;")))
		parser->r = trial_wrong(&parser->why, "a comment must have a line of its own");
	return parser->r < 0 ? NULL : buf;
}

static int apply_settings(struct parser *parser)
{
	for (size_t i = 0; i < parser->settings->count; i++) {
		if (parser->used[i])
			continue;
		int r = trial_override(parser->trial, &parser->settings->items[i], &parser->why);
		if (r < 0)
			return r;
	}
	return 0;
}

int trial_override(struct trial *trial, const struct trial_pair *change, char **ret_why)
{
	const char *dot = strchr(change->key, '.');
	if (!dot) {
		const char *key = trial_intern(trial, change->key), *value = trial_intern(trial, change->value);
		if (!key || !value)
			return -ENOMEM;
		int r = trial_pairs_set(&trial->mount, key, value);
		return r < 0 ? trial_wrong(ret_why, "%s: too many keys", key) : 0;
	}
	char name[TRIAL_NAME_MAX];
	snprintf(name, sizeof(name), "%.*s", (int)(dot - change->key), change->key);
	struct trial_pair pair = { .key = dot + 1, .value = change->value };
	int r = -ENOENT, index = trial_find_workload(trial, name);
	if (index >= 0)
		r = trial_key_set(trial, trial_keys_workload, &trial->workloads[index], &pair, ret_why);
	else if ((index = trial_find_phase(trial, name)) >= 0)
		r = set_phase(trial, (size_t)index, &pair, ret_why);
	return r == -ENOENT ? trial_wrong(ret_why, "unknown key \"%s\"", change->key) : r;
}

int trial_plan_new(const struct trial *trial, const struct trial_variant *variant,
		   struct trial **ret_plan, char **ret_why)
{
	struct trial *plan = malloc(sizeof(*plan));
	if (!plan)
		return -ENOMEM;
	*plan = *trial;
	plan->pool = NULL;
	plan->nr_pool = 0;
	for (size_t i = 0; i < variant->changes.count; i++) {
		int r = trial_override(plan, &variant->changes.items[i], ret_why);
		if (r < 0) {
			trial_free(plan);
			return r;
		}
	}
	*ret_plan = plan;
	return 0;
}

int trial_parse(const char *text, const struct trial_pairs *settings, struct trial **ret_trial,
		char **ret_why)
{
	_cleanup_trial_ struct trial *trial = calloc(1, sizeof(*trial));
	if (!trial)
		return -ENOMEM;
	trial->sample_ns = 10 * NSEC_PER_MSEC;
	struct parser parser = { .trial = trial, .settings = settings, .at = text };
	int line = ini_parse_stream(next_line, &parser, on_key, &parser);
	if (parser.r == 0 && line != 0)
		parser.r = trial_wrong(&parser.why, "neither a section nor \"key = value\"");
	else
		line = (int)parser.line;
	_cleanup_free_ char *why = parser.why;
	if (parser.r == -EINVAL)
		return trial_wrong(ret_why, "line %d: %s", line, why);
	if (parser.r == 0)
		parser.r = apply_settings(&parser);
	if (parser.r == 0)
		parser.r = trial_check(trial, &parser.why);
	if (parser.r == 0)
		*ret_trial = take_ptr(trial);
	else
		*ret_why = parser.why;
	return parser.r;
}
