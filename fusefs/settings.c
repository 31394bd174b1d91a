/* SPDX-License-Identifier: MIT */
/*
 * The switches: one table of what they are called, what they accept and how they print.
 *
 * Mount options, `tune`, `stats` and the help texts all read this table, so that none of them can
 * know a switch the others do not. A change is made in three steps: the values in force are copied
 * into a draft, every new value is parsed into the draft, and only then is the draft put in force.
 * One bad value among several therefore changes nothing.
 *
 * What a printer writes the parser of the same row reads back to the same value.
 */
#include "fusefs/private.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/sizes.h"

#define WORKERS_MAX 1024
#define CLOCK_OFFSET_MAX (100ll * 366 * 86400)
#define CACHE_BYTES_MIN (1ull << 20)
#define VALUE_LEN 128

/* The switches without the atomics: what is parsed into and printed from. */
struct draft {
	int rollback, undo, enforce;
	uint32_t block_size;
	unsigned workers;
	int64_t clock_offset;
	struct wb_config wb;
};

struct field {
	const char *key;
	bool at_mount;    /* cannot be changed live */
	const char *help; /* fs_settings_help() */
	/* 0, or -errno and a static text that says what would have been right. */
	int (*parse)(const char *text, struct draft *draft, const char **ret_why);
	void (*print)(const struct draft *draft, char *buf, size_t len);
};

static int bad(const char **ret_why, const char *why)
{
	*ret_why = why;
	return -EINVAL;
}

/* ---- kinds of values ---- */

static int parse_name(const char *const *names, const char *text, int *ret_value,
		      const char *expected, const char **ret_why)
{
	for (int i = 0; names[i]; i++) {
		if (strcmp(names[i], text) == 0) {
			*ret_value = i;
			return 0;
		}
	}
	return bad(ret_why, expected);
}

static int parse_bytes(const char *text, uint64_t *ret_bytes, const char **ret_why)
{
	int r = parse_size(text, 1, ret_bytes);
	if (r == -ERANGE)
		return bad(ret_why, "too large");
	return r < 0 ? bad(ret_why, "not a size (digits, and K, M, G or T if need be)") : 0;
}

/* A duration in whole units of @unit_ns that fits into 32 bits. */
static int parse_units(const char *text, uint64_t unit_ns, uint32_t *ret_value,
		       const char **ret_why)
{
	uint64_t ns;
	int r = parse_duration(text, unit_ns, &ns);
	if (r == -ERANGE || (r == 0 && ns / unit_ns > UINT32_MAX))
		return bad(ret_why, "too large");
	if (r < 0)
		return bad(ret_why, "not a duration (digits, and ms, s, m, h or d if need be)");
	*ret_value = (uint32_t)(ns / unit_ns);
	return 0;
}

/* A switch that is one of a few names. */
#define NAME_FIELD(name, member, expected, ...)                                                    \
	static const char *const name##_names[] = { __VA_ARGS__, NULL };                           \
	static int parse_##name(const char *text, struct draft *draft, const char **ret_why)       \
	{                                                                                          \
		int value;                                                                         \
		int r = parse_name(name##_names, text, &value, expected, ret_why);                 \
		if (r < 0)                                                                         \
			return r;                                                                  \
		draft->member = (__typeof__(draft->member))value;                                  \
		return 0;                                                                          \
	}                                                                                          \
	static void print_##name(const struct draft *draft, char *buf, size_t len)                 \
	{                                                                                          \
		snprintf(buf, len, "%s", name##_names[draft->member]);                             \
	}

/* A switch that counts bytes. */
#define BYTES_FIELD(name)                                                                          \
	static int parse_##name(const char *text, struct draft *draft, const char **ret_why)       \
	{                                                                                          \
		return parse_bytes(text, &draft->wb.name, ret_why);                                \
	}                                                                                          \
	static void print_##name(const struct draft *draft, char *buf, size_t len)                 \
	{                                                                                          \
		format_size(draft->wb.name, buf, len);                                             \
	}

/* A switch that is a duration with its unit in its name. */
#define UNITS_FIELD(name, unit_ns)                                                                 \
	static int parse_##name(const char *text, struct draft *draft, const char **ret_why)       \
	{                                                                                          \
		return parse_units(text, unit_ns, &draft->wb.name, ret_why);                       \
	}                                                                                          \
	static void print_##name(const struct draft *draft, char *buf, size_t len)                 \
	{                                                                                          \
		snprintf(buf, len, "%" PRIu32, draft->wb.name);                                    \
	}

NAME_FIELD(rollback, rollback, "not one of list, bounded, ordered, reserve", "list", "bounded",
	   "ordered", "reserve")
NAME_FIELD(enforce, enforce, "not one of off, on, root", "off", "on", "root")
NAME_FIELD(congestion, wb.congestion, "not one of none, skip, block", "none", "skip", "block")
NAME_FIELD(completion, wb.completion, "not one of stream, batch", "stream", "batch")
NAME_FIELD(engine, wb.engine, "not one of auto, io_uring, pwrite", "auto", "io_uring", "pwrite")
BYTES_FIELD(dirty_bytes)
BYTES_FIELD(dirty_background_bytes)
BYTES_FIELD(pass_bytes)
UNITS_FIELD(dirty_expire_centisecs, 10 * NSEC_PER_MSEC)
UNITS_FIELD(dirty_writeback_centisecs, 10 * NSEC_PER_MSEC)
UNITS_FIELD(restart_poll_ms, NSEC_PER_MSEC)

/* ---- values with a rule of their own ---- */

static int parse_undo(const char *text, struct draft *draft, const char **ret_why)
{
	static const char *const names[] = { "default", "all", "keep", NULL };
	return parse_name(names, text, &draft->undo, "not one of all, keep, default", ret_why);
}

/* What holds: the default follows rollback. */
static void print_undo(const struct draft *draft, char *buf, size_t len)
{
	int undo = draft->undo;
	if (undo == FS_UNDO_DEFAULT)
		undo = draft->rollback == FS_ROLLBACK_RESERVE ? FS_UNDO_KEEP : FS_UNDO_ALL;
	snprintf(buf, len, "%s", undo == FS_UNDO_KEEP ? "keep" : "all");
}

static int parse_block_size(const char *text, struct draft *draft, const char **ret_why)
{
	uint64_t bytes;
	int r = parse_bytes(text, &bytes, ret_why);
	if (r < 0)
		return r;
	if (bytes < WB_PAGE_SIZE || bytes > 16 * WB_PAGE_SIZE || (bytes & (bytes - 1)))
		return bad(ret_why, "not one of 4K, 8K, 16K, 32K, 64K");
	draft->block_size = (uint32_t)bytes;
	return 0;
}

static void print_block_size(const struct draft *draft, char *buf, size_t len)
{
	format_size(draft->block_size, buf, len);
}

static int parse_cache_bytes(const char *text, struct draft *draft, const char **ret_why)
{
	uint64_t bytes;
	int r = parse_bytes(text, &bytes, ret_why);
	if (r < 0)
		return r;
	if (bytes < CACHE_BYTES_MIN)
		return bad(ret_why, "less than 1M");
	if (bytes > wb_cache_max_bytes())
		return bad(ret_why, "more than this machine's memory");
	draft->wb.cache_bytes = bytes;
	return 0;
}

static void print_cache_bytes(const struct draft *draft, char *buf, size_t len)
{
	format_size(draft->wb.cache_bytes, buf, len);
}

static int parse_congestion_kb(const char *text, struct draft *draft, const char **ret_why)
{
	uint64_t bytes;
	int r = parse_size(text, 1024, &bytes);
	if (r == -ERANGE)
		return bad(ret_why, "too large");
	if (r < 0)
		return bad(ret_why, "not a size (KiB, or digits with K, M, G or T)");
	draft->wb.congestion_kb = bytes / 1024;
	return 0;
}

static void print_congestion_kb(const struct draft *draft, char *buf, size_t len)
{
	snprintf(buf, len, "%" PRIu64, draft->wb.congestion_kb);
}

static int parse_workers(const char *text, struct draft *draft, const char **ret_why)
{
	uint64_t count;
	if (parse_u64(text, &count) < 0 || count < 1 || count > WORKERS_MAX)
		return bad(ret_why, "not a number from 1 to 1024");
	draft->workers = (unsigned)count;
	return 0;
}

static void print_workers(const struct draft *draft, char *buf, size_t len)
{
	snprintf(buf, len, "%u", draft->workers);
}

static int parse_clock_offset(const char *text, struct draft *draft, const char **ret_why)
{
	const char *digits = text + (*text == '-' || *text == '+');
	uint64_t ns;
	int r = parse_duration(digits, NSEC_PER_SEC, &ns);
	if (r == -EINVAL || (r == 0 && ns % NSEC_PER_SEC))
		return bad(ret_why, "not whole seconds or a duration as +7d or -90m");
	if (r < 0 || ns / NSEC_PER_SEC > CLOCK_OFFSET_MAX)
		return bad(ret_why, "more than a hundred years");
	int64_t seconds = (int64_t)(ns / NSEC_PER_SEC);
	draft->clock_offset = *text == '-' ? -seconds : seconds;
	return 0;
}

static void print_clock_offset(const struct draft *draft, char *buf, size_t len)
{
	snprintf(buf, len, "%" PRId64, draft->clock_offset);
}

/* ---- the device model: rate=64M:latency=2ms:seek=8ms:depth=32 ---- */

static int parse_device_part(const char *name, const char *value, struct wb_device_model *model)
{
	uint64_t depth;

	if (strcmp(name, "rate") == 0)
		return parse_size(value, 1, &model->rate);
	if (strcmp(name, "latency") == 0)
		return parse_duration(value, NSEC_PER_MSEC, &model->latency_ns);
	if (strcmp(name, "seek") == 0)
		return parse_duration(value, NSEC_PER_MSEC, &model->seek_ns);
	if (strcmp(name, "depth") != 0 || parse_u64(value, &depth) < 0)
		return -EINVAL;
	if (depth > UINT32_MAX)
		return -ERANGE;
	model->depth = (uint32_t)depth;
	return 0;
}

static int parse_device(const char *text, struct draft *draft, const char **ret_why)
{
	static const char *const expected =
		"not none, nor a list as rate=64M:latency=2ms:seek=8ms:depth=32";
	struct wb_device_model model = { 0 };
	_cleanup_free_ char *copy = strdup(text);
	char *rest = strcmp(text, "none") == 0 ? NULL : copy;

	if (!copy)
		return -ENOMEM;
	while (rest) {
		char *name = strsep(&rest, ":");
		char *value = name;
		strsep(&value, "=");
		if (!value)
			return bad(ret_why, expected);
		int r = parse_device_part(name, value, &model);
		if (r < 0)
			return bad(ret_why, r == -ERANGE ? "too large" : expected);
	}
	draft->wb.device = model;
	return 0;
}

static size_t add_part(char *buf, size_t len, size_t at, const char *name, const char *value)
{
	int n = snprintf(buf + at, len - at, "%s%s=%s", at ? ":" : "", name, value);
	return n < 0 ? at : min_u64(at + (size_t)n, len - 1);
}

static void print_device(const struct draft *draft, char *buf, size_t len)
{
	const struct wb_device_model *model = &draft->wb.device;
	char value[32];
	size_t at = 0;

	if (model->rate)
		at = add_part(buf, len, at, "rate", format_size(model->rate, value, sizeof(value)));
	if (model->latency_ns) {
		snprintf(value, sizeof(value), "%" PRIu64 "ms",
			 (uint64_t)(model->latency_ns / NSEC_PER_MSEC));
		at = add_part(buf, len, at, "latency", value);
	}
	if (model->seek_ns) {
		snprintf(value, sizeof(value), "%" PRIu64 "ms",
			 (uint64_t)(model->seek_ns / NSEC_PER_MSEC));
		at = add_part(buf, len, at, "seek", value);
	}
	if (model->depth) {
		snprintf(value, sizeof(value), "%" PRIu32, model->depth);
		at = add_part(buf, len, at, "depth", value);
	}
	if (at == 0)
		snprintf(buf, len, "none");
}

/* ---- the table ---- */

#define LIVE(name, values, initial, meaning)                                                       \
	{                                                                                          \
#name, false, #name "\t" values "\t" initial "\t" meaning, parse_##name,           \
			print_##name                                                               \
	}
#define FIXED(name, values, initial, meaning)                                                      \
	{                                                                                          \
#name, true, #name "\t" values "\t" initial "\t" meaning " (at mount only)",       \
			parse_##name, print_##name                                                 \
	}

static const struct field fields[] = {
	LIVE(rollback, "list|bounded|ordered|reserve", "reserve",
	     "how a refused write is undone; reserve asks the quota first and undoes nothing"),
	LIVE(undo, "all|keep|default", "default",
	     "all: a refused write leaves nothing; keep: what fitted stays; default: keep for "
	     "reserve, else all"),
	FIXED(block_size, "4K...64K", "4K", "unit of charging and allocation"),
	LIVE(cache_bytes, "SIZE", "a quarter of RAM", "limit of resident pages, clean and dirty"),
	LIVE(dirty_bytes, "SIZE", "0", "writers are throttled here; 0: 20 % of cache_bytes"),
	LIVE(dirty_background_bytes, "SIZE", "0", "write-back starts here; 0: 10 % of cache_bytes"),
	LIVE(dirty_expire_centisecs, "TIME", "3000", "age at which dirty pages are due"),
	LIVE(dirty_writeback_centisecs, "TIME", "500",
	     "how often the flusher looks for due pages; 0: never"),
	LIVE(congestion, "none|skip|block", "block", "what a congested gate does to a pass"),
	LIVE(congestion_kb, "KIB", "0",
	     "outstanding write-back at which the gate closes; 0: the kernel's formula"),
	LIVE(completion, "stream|batch", "stream", "when a written page counts as clean"),
	LIVE(restart_poll_ms, "TIME", "200", "how often throttled writers wake a sleeping flusher"),
	LIVE(pass_bytes, "SIZE", "0",
	     "longest write-back pass; 0: half a second of measured bandwidth"),
	LIVE(device, "none|rate=SIZE:latency=TIME:seek=TIME:depth=N", "none",
	     "model of a device between the cache and the backing"),
	FIXED(workers, "1...1024", "10", "FUSE worker threads"),
	LIVE(enforce, "off|on|root", "on", "whether limits refuse; root: root is limited too"),
	LIVE(clock_offset, "[+-]TIME", "0", "added to the clock that grace periods use"),
	FIXED(engine, "auto|io_uring|pwrite", "auto", "how pages are written to the backing"),
};
#define NR_FIELDS (sizeof(fields) / sizeof(fields[0]))

static const struct field *find_field(const char *key)
{
	for (size_t i = 0; i < NR_FIELDS; i++) {
		if (strcmp(fields[i].key, key) == 0)
			return &fields[i];
	}
	return NULL;
}

bool fs_settings_is_key(const char *key)
{
	return find_field(key) != NULL;
}

const char *fs_settings_help(unsigned index)
{
	return index < NR_FIELDS ? fields[index].help : NULL;
}

/* ---- from and to the values in force ---- */

static void draft_load_locked(struct fs *fs, struct draft *ret_draft)
{
	struct fs_settings *settings = &fs->settings;
	lock_assert_held(&fs->settings_lock);
	*ret_draft = (struct draft){
		.rollback = atomic_load(&settings->rollback),
		.undo = atomic_load(&settings->undo),
		.enforce = atomic_load(&settings->enforce),
		.block_size = settings->block_size,
		.workers = settings->workers,
		.clock_offset = atomic_load(&settings->clock_offset),
		.wb = settings->wb,
	};
}

/* Puts @draft in force. The cache goes first: it alone can refuse. */
static int draft_apply_locked(struct fs *fs, const struct draft *draft)
{
	struct fs_settings *settings = &fs->settings;

	lock_assert_held(&fs->settings_lock);
	if (fs->cache) {
		int r = wb_cache_configure(fs->cache, &draft->wb);
		if (r < 0)
			return r;
	}
	settings->wb = draft->wb;
	if (!fs->cache) { /* not even written with what it is: operations read it without a lock */
		settings->block_size = draft->block_size;
		settings->workers = draft->workers;
	}
	atomic_store(&settings->rollback, draft->rollback);
	atomic_store(&settings->undo, draft->undo);
	atomic_store(&settings->enforce, draft->enforce);
	atomic_store(&settings->clock_offset, draft->clock_offset);
	if (fs->quota) {
		quota_set_enforce(fs->quota, (enum quota_enforce)draft->enforce);
		quota_set_clock_offset(fs->quota, draft->clock_offset);
	}
	return 0;
}

void fs_settings_init(struct fs *fs)
{
	LOCK_SCOPE(&fs->settings_lock);
	struct draft draft = {
		.rollback = FS_ROLLBACK_RESERVE,
		.undo = FS_UNDO_DEFAULT,
		.enforce = QUOTA_ENFORCE_ON,
		.block_size = WB_PAGE_SIZE,
		.workers = 10,
		.wb =
			{
				.cache_bytes = max_u64(
					round_down_pow2(wb_cache_max_bytes() / 4, WB_PAGE_SIZE),
					CACHE_BYTES_MIN),
				.dirty_expire_centisecs = 3000,
				.dirty_writeback_centisecs = 500,
				.congestion = WB_CONGESTION_BLOCK,
				.completion = WB_COMPLETION_STREAM,
				.restart_poll_ms = 200,
			},
	};
	draft_apply_locked(fs, &draft);
}

static int explain(char **ret_why, int error, const struct fs_switch *change, const char *why)
{
	if (asprintf(ret_why, "%s=%s: %s", change->key, change->value, why) < 0)
		*ret_why = NULL;
	return error;
}

static int parse_change(const struct fs_switch *change, bool at_mount, struct draft *draft,
			char **ret_why)
{
	const struct field *field = find_field(change->key);
	const char *why = NULL;

	if (!field) {
		if (asprintf(ret_why, "%s: no such switch", change->key) < 0)
			*ret_why = NULL;
		return -EINVAL;
	}
	if (field->at_mount && !at_mount)
		return explain(ret_why, -EINVAL, change, "can be set at mount only");
	int r = field->parse(change->value, draft, &why);
	return r < 0 ? explain(ret_why, r, change, why ? why : strerror(-r)) : 0;
}

int fs_settings_change(struct fs *fs, const struct fs_switch *changes, size_t nr_changes,
		       bool at_mount, char **ret_why)
{
	struct draft draft;

	LOCK_SCOPE(&fs->settings_lock);
	draft_load_locked(fs, &draft);
	for (size_t i = 0; i < nr_changes; i++) {
		int r = parse_change(&changes[i], at_mount, &draft, ret_why);
		if (r < 0)
			return r;
	}
	int r = draft_apply_locked(fs, &draft);
	if (r < 0 && asprintf(ret_why, "tune: the cache refuses: %s", strerror(-r)) < 0)
		*ret_why = NULL;
	return r;
}

int fs_settings_set(struct fs *fs, const char *key, const char *value, bool at_mount,
		    char **ret_why)
{
	struct fs_switch change = { .key = key, .value = value };
	return fs_settings_change(fs, &change, 1, at_mount, ret_why);
}

json_object *fs_settings_json(struct fs *fs)
{
	json_object *settings = json_object_new_object();
	struct draft draft;
	char value[VALUE_LEN];

	LOCK_SCOPE(&fs->settings_lock);
	draft_load_locked(fs, &draft);
	for (size_t i = 0; i < NR_FIELDS; i++) {
		fields[i].print(&draft, value, sizeof(value));
		json_object_object_add(settings, fields[i].key, json_object_new_string(value));
	}
	return settings;
}
