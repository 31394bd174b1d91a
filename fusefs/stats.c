/* SPDX-License-Identifier: MIT */
/*
 * The counters of all layers as one JSON object: `stats --json`, from which the other forms are
 * made.
 *
 * Keys are a contract (README, `chokefs stats`); they may be added to. It reads atomics and the
 * layers' own snapshots, never an inode lock, since the counters matter most while every worker is
 * stalled.
 */
#include "fusefs/private.h"

#include <string.h>

static void add_u64(json_object *object, const char *key, uint64_t value)
{
	json_object_object_add(object, key, json_object_new_uint64(value));
}

static json_object *op_json(const struct fs_op_stats *op)
{
	json_object *object = json_object_new_object();
	add_u64(object, "count", atomic_load(&op->latency.count));
	add_u64(object, "bytes", atomic_load(&op->bytes));
	add_u64(object, "errors", atomic_load(&op->errors));
	add_u64(object, "p50_ns", hist_quantile(&op->latency, 500));
	add_u64(object, "p99_ns", hist_quantile(&op->latency, 990));
	add_u64(object, "max_ns", atomic_load(&op->latency.max));
	return object;
}

static json_object *ops_json(const struct fs *fs)
{
	static const char *const names[FS_OP_COUNT] = {
#define X(name) #name,
		FS_OPS(X)
#undef X
	};
	json_object *object = json_object_new_object();
	for (int i = 0; i < FS_OP_COUNT; i++)
		json_object_object_add(object, names[i], op_json(&fs->ops[i]));
	return object;
}

static json_object *quota_json(struct fs *fs)
{
	json_object *object = json_object_new_object();
	struct quota_stats stats;
	quota_get_stats(fs->quota, &stats);
	add_u64(object, "refused_blocks", stats.refused_blocks);
	add_u64(object, "refused_inodes", stats.refused_inodes);
	add_u64(object, "refused_grace", stats.refused_grace);
	add_u64(object, "ids", stats.ids);
	return object;
}

static json_object *rollback_json(const struct wb_stats *stats)
{
	json_object *object = json_object_new_object();
	add_u64(object, "count", stats->rollback.count);
	add_u64(object, "pages_visited", stats->rollback.pages_visited);
	add_u64(object, "pages_freed", stats->rollback.pages_freed);
	add_u64(object, "by_list", stats->rollback.by_list);
	add_u64(object, "by_tree", stats->rollback.by_tree);
	add_u64(object, "time_ns", stats->rollback.time_ns);
	add_u64(object, "lock_held_ns", stats->rollback.lock_held_ns);
	return object;
}

static json_object *cache_json(const struct wb_stats *stats)
{
	json_object *object = json_object_new_object();
	add_u64(object, "pages", stats->cache.pages);
	add_u64(object, "dirty", stats->cache.dirty);
	add_u64(object, "writeback", stats->cache.writeback);
	add_u64(object, "files", stats->cache.files);
	add_u64(object, "reclaimed", stats->cache.reclaimed);
	add_u64(object, "oldest_dirty_ns", stats->cache.oldest_dirty_ns);
	add_u64(object, "limit_pages", stats->cache.limit_pages);
	add_u64(object, "created", stats->cache.created);
	return object;
}

static json_object *gate_json(const struct wb_stats *stats)
{
	json_object *object = json_object_new_object();
	json_object_object_add(object, "congested", json_object_new_boolean(stats->gate.congested));
	add_u64(object, "outstanding", stats->gate.outstanding);
	add_u64(object, "on", stats->gate.on);
	add_u64(object, "off", stats->gate.off);
	add_u64(object, "times_congested", stats->gate.times_congested);
	add_u64(object, "passes_skipped", stats->gate.passes_skipped);
	add_u64(object, "waits", stats->gate.waits);
	add_u64(object, "wait_ns", stats->gate.wait_ns);
	return object;
}

static json_object *flusher_json(const struct wb_stats *stats)
{
	json_object *object = json_object_new_object();
	add_u64(object, "passes", stats->flusher.passes);
	add_u64(object, "pages", stats->flusher.pages);
	add_u64(object, "wakeups_poll", stats->flusher.wakeups_poll);
	add_u64(object, "wakeups_timer", stats->flusher.wakeups_timer);
	add_u64(object, "wakeups_gate", stats->flusher.wakeups_gate);
	return object;
}

static json_object *throttle_json(const struct wb_stats *stats)
{
	json_object *object = json_object_new_object();
	add_u64(object, "pauses", stats->throttle.pauses);
	add_u64(object, "pause_ns", stats->throttle.pause_ns);
	return object;
}

static json_object *device_json(const struct wb_stats *stats)
{
	json_object *object = json_object_new_object();
	const char *engine = stats->device.engine;
	add_u64(object, "writes", stats->device.writes);
	add_u64(object, "bytes", stats->device.bytes);
	add_u64(object, "fsyncs", stats->device.fsyncs);
	add_u64(object, "busy_ns", stats->device.busy_ns);
	add_u64(object, "idle_ns", stats->device.idle_ns);
	add_u64(object, "inflight", stats->device.inflight);
	add_u64(object, "errors", stats->device.errors);
	json_object_object_add(object, "engine", json_object_new_string(engine ? engine : ""));
	return object;
}

/* Resident memory of the whole daemon; 0 where /proc does not say. */
static uint64_t rss_bytes(void)
{
	_cleanup_fclose_ FILE *file = fopen("/proc/self/statm", "re");
	unsigned long size, resident;
	if (!file || fscanf(file, "%lu %lu", &size, &resident) != 2)
		return 0;
	return (uint64_t)resident * (uint64_t)sysconf(_SC_PAGESIZE);
}

static json_object *memory_json(struct fs *fs, const struct wb_stats *stats)
{
	json_object *object = json_object_new_object();
	uint64_t pages = stats->cache.pages;
	add_u64(object, "rss_bytes", rss_bytes());
	add_u64(object, "bookkeeping_bytes", stats->cache.bookkeeping_bytes);
	json_object_object_add(
		object, "bookkeeping_bytes_per_page",
		json_object_new_double(
			pages ? (double)stats->cache.bookkeeping_bytes / (double)pages : 0));
	add_u64(object, "inodes", fs_inodes_count(fs));
	return object;
}

json_object *fs_stats_json(struct fs *fs)
{
	json_object *object = json_object_new_object();
	struct wb_stats stats;

	wb_cache_get_stats(fs->cache, &stats);
	json_object_object_add(object, "version", json_object_new_int(1));
	json_object_object_add(object, "mountpoint", json_object_new_string(fs->mountpoint));
	json_object_object_add(object, "backing", json_object_new_string(fs->backing));
	add_u64(object, "uptime_ns", clock_now_ns() - fs->start_ns);
	json_object_object_add(object, "settings", fs_settings_json(fs));
	json_object_object_add(object, "ops", ops_json(fs));
	json_object_object_add(object, "quota", quota_json(fs));
	json_object_object_add(object, "rollback", rollback_json(&stats));
	json_object_object_add(object, "cache", cache_json(&stats));
	json_object_object_add(object, "gate", gate_json(&stats));
	json_object_object_add(object, "flusher", flusher_json(&stats));
	json_object_object_add(object, "throttle", throttle_json(&stats));
	json_object_object_add(object, "device", device_json(&stats));
	json_object_object_add(object, "memory", memory_json(fs, &stats));
	return object;
}

void fs_stats_reset(struct fs *fs)
{
	for (int i = 0; i < FS_OP_COUNT; i++) {
		atomic_store(&fs->ops[i].bytes, 0);
		atomic_store(&fs->ops[i].errors, 0);
		hist_reset(&fs->ops[i].latency);
	}
	quota_reset_stats(fs->quota);
	wb_cache_reset_stats(fs->cache);
}
