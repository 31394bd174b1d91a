/* SPDX-License-Identifier: MIT */
/*
 * The cache as a whole: its life, its knobs, its numbers.
 *
 * Knobs are copied into atomics when they change, so that no path that moves pages takes the configuration's lock.
 */
#include "writeback/private.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/sizes.h"

uint64_t wb_cache_max_bytes(void)
{
	return (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
}

uint32_t wb_cache_time_ms(struct wb_cache *cache)
{
	/* The coarse clock may be behind the start by a tick. Starts well above zero, so that "older than" never reaches back
	 * before the beginning. */
	int64_t ms = (int64_t)(clock_coarse_ns() - cache->start_ns) / (int64_t)NSEC_PER_MSEC;

	return (uint32_t)ms + (1u << 30);
}

static void apply_limits(struct wb_cache *cache, const struct wb_config *config)
{
	uint64_t limit = config->cache_bytes / WB_PAGE_SIZE;
	uint64_t dirty = config->dirty_bytes ? config->dirty_bytes / WB_PAGE_SIZE : limit / 5;
	uint64_t background = config->dirty_background_bytes ? config->dirty_background_bytes / WB_PAGE_SIZE
							     : limit / 10;

	/* Some pages must stay reclaimable, or readers and writers could fill the cache with what only the device can free. */
	dirty = max_u64(min_u64(dirty, limit - limit / 8), 1);
	/* As the kernel: a background threshold at or above the limit means half the limit. */
	if (background >= dirty)
		background = dirty / 2;
	atomic_store(&cache->dirty_limit, dirty);
	atomic_store(&cache->dirty_background, background);
	wb_arena_set_limit(&cache->arena, config->cache_bytes);
}

static void apply(struct wb_cache *cache, const struct wb_config *config)
{
	apply_limits(cache, config);
	atomic_store(&cache->expire_cs, config->dirty_expire_centisecs);
	atomic_store(&cache->period_cs, config->dirty_writeback_centisecs);
	atomic_store(&cache->restart_poll_ms, config->restart_poll_ms);
	atomic_store(&cache->pass_bytes, config->pass_bytes);
	/* The device first: who is let through the gate must find the new one. */
	wb_device_set_model(cache->device, &config->device, config->completion);
	wb_gate_configure(&cache->gate, config->congestion, config->congestion_kb);
}

/* Frees what is over a limit that was lowered, as far as it is clean, and returns the memory of free frames. */
static void shrink(struct wb_cache *cache)
{
	struct wb_arena *arena = &cache->arena;

	while (atomic_load(&arena->nr_used) > atomic_load(&arena->nr_limit) && wb_reclaim(cache, 256) > 0)
		;
	wb_arena_trim(arena);
}

int wb_cache_configure(struct wb_cache *cache, const struct wb_config *config)
{
	LOCK_SCOPE(&cache->config_lock);
	uint64_t limit = config->cache_bytes / WB_PAGE_SIZE;
	if (config->cache_bytes > wb_cache_max_bytes() || limit < 16)
		return -ERANGE;
	bool smaller = config->cache_bytes < cache->config.cache_bytes;
	cache->config = *config;
	apply(cache, config);
	if (smaller)
		shrink(cache);
	/* Whatever was waited for may look different now. */
	wb_flusher_kick(cache);
	wb_cache_wake_waiting(cache);
	return 0;
}

void wb_cache_get_config(struct wb_cache *cache, struct wb_config *ret_config)
{
	LOCK_SCOPE(&cache->config_lock);
	*ret_config = cache->config;
}

static void cache_init(struct wb_cache *cache)
{
	cache->start_ns = clock_now_ns();
	lock_init(&cache->config_lock);
	lock_init(&cache->files_lock);
	lock_init(&cache->reclaim_lock);
	lock_init(&cache->waiting_lock);
	lock_init(&cache->lock);
	cond_init(&cache->throttled);
	cond_init(&cache->flusher.wake);
	list_init(&cache->files);
	list_init(&cache->dirty_files);
	list_init(&cache->line);
	wb_gate_init(&cache->gate);
}

static void cache_fini(struct wb_cache *cache)
{
	wb_gate_fini(&cache->gate);
	cond_fini(&cache->flusher.wake);
	cond_fini(&cache->throttled);
	lock_fini(&cache->lock);
	lock_fini(&cache->waiting_lock);
	lock_fini(&cache->reclaim_lock);
	lock_fini(&cache->files_lock);
	lock_fini(&cache->config_lock);
	free(cache);
}

int wb_cache_new(const struct wb_config *config, struct wb_cache **ret_cache)
{
	if (config->cache_bytes > wb_cache_max_bytes() || config->cache_bytes / WB_PAGE_SIZE < 16)
		return -ERANGE;
	struct wb_cache *cache = calloc(1, sizeof(*cache));
	if (!cache)
		return -ENOMEM;
	int r = wb_arena_init(&cache->arena, config->cache_bytes);
	if (r < 0) {
		free(cache);
		return r;
	}
	cache_init(cache);
	r = wb_device_new(config->engine, &cache->device);
	if (r == 0) {
		cache->config = *config;
		apply(cache, config);
		r = wb_flusher_start(cache);
		if (r < 0)
			wb_device_free(cache->device);
	}
	if (r < 0) {
		wb_arena_fini(&cache->arena);
		cache_fini(cache);
		return r;
	}
	*ret_cache = cache;
	return 0;
}

void wb_cache_shutdown_begin(struct wb_cache *cache)
{
	wb_gate_shutdown(&cache->gate);
	LOCK_SCOPE(&cache->lock);
	cache->shutdown = true;
	cond_wake_all(&cache->throttled);
}

void wb_cache_free(struct wb_cache *cache)
{
	wb_cache_shutdown_begin(cache);
	wb_flusher_stop(cache);
	assert(list_is_empty(&cache->files));
	wb_device_free(cache->device);
	wb_arena_fini(&cache->arena);
	cache_fini(cache);
}

/* All files there are now, referenced; the caller frees the array. */
static struct wb_file **all_files(struct wb_cache *cache, uint64_t *ret_nr)
{
	LOCK_SCOPE(&cache->files_lock);
	struct wb_file **files = malloc((cache->nr_files + 1) * sizeof(*files));
	struct wb_file *file;
	uint64_t nr = 0;

	if (!files)
		return NULL;
	list_for_each(file, &cache->files, files_link)
	{
		wb_file_ref(file);
		files[nr++] = file;
	}
	*ret_nr = nr;
	return files;
}

int wb_cache_sync(struct wb_cache *cache)
{
	uint64_t nr = 0;
	struct wb_file **files = all_files(cache, &nr);
	int result = 0;

	if (!files)
		return -ENOMEM;
	/* All on their way before the first is waited for, or many small files would come one by one, a batch each. */
	for (uint64_t i = 0; i < nr; i++)
		wb_file_write_behind(files[i], 0, wb_file_size(files[i]));
	for (uint64_t i = 0; i < nr; i++) {
		int r = wb_file_is_dirty(files[i]) ? wb_file_flush(files[i], 0, UINT64_MAX) : 0;
		if (r < 0 && result == 0)
			result = r;
		wb_file_unref(files[i]);
	}
	free(files);
	return result;
}

/* ---- numbers ---- */

static uint64_t oldest_dirty_ns(struct wb_cache *cache)
{
	uint32_t now_ms = wb_cache_time_ms(cache), oldest = 0;
	struct wb_file *file;

	LOCK_SCOPE(&cache->lock);
	list_for_each(file, &cache->dirty_files, dirty_link) {
		/* Without its lock: a head that changes meanwhile is a page as good as the one before. */
		uint32_t head = atomic_load_explicit(&file->dirty_head, memory_order_relaxed);
		uint32_t since_ms = head ? atomic_load_explicit(&wb_page(cache, head)->dirtied_ms, memory_order_relaxed)
					 : now_ms;
		uint32_t age = now_ms - since_ms;
		if (age < 1u << 31 && age > oldest)
			oldest = age;
	}
	return oldest * NSEC_PER_MSEC;
}

void wb_cache_get_stats(struct wb_cache *cache, struct wb_stats *ret)
{
	struct wb_device_stats device;

	*ret = (struct wb_stats){ 0 };
	ret->rollback.count = atomic_load(&cache->rb_count);
	ret->rollback.pages_visited = atomic_load(&cache->rb_visited);
	ret->rollback.pages_freed = atomic_load(&cache->rb_freed);
	ret->rollback.by_list = atomic_load(&cache->rb_by_list);
	ret->rollback.by_tree = atomic_load(&cache->rb_by_tree);
	ret->rollback.time_ns = atomic_load(&cache->rb_time_ns);
	ret->rollback.lock_held_ns = atomic_load(&cache->rb_lock_ns);
	ret->cache.pages = atomic_load(&cache->arena.nr_used);
	ret->cache.dirty = atomic_load(&cache->nr_dirty);
	ret->cache.writeback = atomic_load(&cache->nr_writeback);
	ret->cache.reclaimed = atomic_load(&cache->reclaimed);
	ret->cache.created = atomic_load(&cache->created);
	ret->cache.limit_pages = atomic_load(&cache->arena.nr_limit);
	/* The look-aside as if it were full. */
	ret->cache.bookkeeping_bytes = ret->cache.pages * (sizeof(struct wb_page) + 2 * sizeof(uint32_t));
	ret->cache.oldest_dirty_ns = oldest_dirty_ns(cache);
	lock_take(&cache->files_lock);
	ret->cache.files = cache->nr_files;
	lock_release(&cache->files_lock);
	ret->gate.congested = atomic_load(&cache->gate.congested);
	ret->gate.outstanding = atomic_load(&cache->gate.outstanding);
	ret->gate.on = atomic_load(&cache->gate.on);
	ret->gate.off = atomic_load(&cache->gate.off);
	ret->gate.times_congested = atomic_load(&cache->gate.times_congested);
	ret->gate.passes_skipped = atomic_load(&cache->gate.passes_skipped);
	ret->gate.waits = atomic_load(&cache->gate.waits);
	ret->gate.wait_ns = atomic_load(&cache->gate.wait_ns);
	ret->flusher.passes = atomic_load(&cache->flusher.passes);
	ret->flusher.pages = atomic_load(&cache->flusher.pages);
	ret->flusher.wakeups_poll = atomic_load(&cache->flusher.wakeups_poll);
	ret->flusher.wakeups_timer = atomic_load(&cache->flusher.wakeups_timer);
	ret->flusher.wakeups_gate = atomic_load(&cache->flusher.wakeups_gate);
	ret->throttle.pauses = atomic_load(&cache->pauses);
	ret->throttle.pause_ns = atomic_load(&cache->pause_ns);
	wb_device_get_stats(cache->device, &device);
	ret->device.writes = device.writes;
	ret->device.bytes = device.bytes;
	ret->device.fsyncs = device.fsyncs;
	ret->device.busy_ns = device.busy_ns;
	ret->device.idle_ns = device.idle_ns;
	ret->device.inflight = device.inflight;
	ret->device.errors = device.errors;
	ret->device.engine = device.engine;
}

void wb_cache_reset_stats(struct wb_cache *cache)
{
	_Atomic uint64_t *const counters[] = {
		&cache->rb_count, &cache->rb_visited, &cache->rb_freed, &cache->rb_by_list,
		&cache->rb_by_tree, &cache->rb_time_ns, &cache->rb_lock_ns, &cache->reclaimed,
		&cache->created, &cache->pauses, &cache->pause_ns, &cache->gate.times_congested,
		&cache->gate.passes_skipped, &cache->gate.waits, &cache->gate.wait_ns,
		&cache->flusher.passes, &cache->flusher.pages, &cache->flusher.wakeups_poll,
		&cache->flusher.wakeups_timer, &cache->flusher.wakeups_gate,
	};

	for (size_t i = 0; i < sizeof(counters) / sizeof(counters[0]); i++)
		atomic_store(counters[i], 0);
	wb_device_reset_stats(cache->device);
}
