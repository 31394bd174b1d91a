/* SPDX-License-Identifier: MIT */
/*
 * Where writers pause while too much is dirty.
 *
 * After Linux' balance_dirty_pages(): dirty and in-flight pages are counted together. Below the limit a writer runs free, and
 * asks for background work when that is due and nobody does it. At the limit it pauses, at most 200 ms at a time,
 * and polls. A flusher that went to sleep because nothing could be written is woken by such polls at most every restart_poll_ms;
 * in `skip` that and the timer are all that restarts it, which is why the device idles.
 *
 * No lock of a file is held here: the caller asks before it takes any.
 */
#include "writeback/private.h"

#include "base/sizes.h"

#define MAX_PAUSE_NS (200 * NSEC_PER_MSEC)

void wb_cache_wake_waiting(struct wb_cache *cache)
{
	if (atomic_load(&cache->nr_waiting) == 0)
		return;
	LOCK_SCOPE(&cache->lock);
	cond_wake_all(&cache->throttled);
}

static uint64_t dirty_and_writeback(struct wb_cache *cache)
{
	return atomic_load(&cache->nr_dirty) + atomic_load(&cache->nr_writeback);
}

/* Sleeps until something completes, the next poll is due, or the longest pause is over. @pages: of the write that waits. */
static void pause_once(struct wb_cache *cache, uint64_t pages)
{
	uint64_t start_ns = clock_now_ns();
	uint64_t poll_ns = atomic_load(&cache->flusher.last_poll_ns) +
			   atomic_load(&cache->restart_poll_ms) * NSEC_PER_MSEC;
	uint64_t until_ns = start_ns + MAX_PAUSE_NS;

	if (poll_ns > start_ns && poll_ns < until_ns)
		until_ns = poll_ns;
	lock_take(&cache->lock);
	atomic_fetch_add(&cache->nr_waiting, 1);
	if (!cache->shutdown && dirty_and_writeback(cache) + pages > atomic_load(&cache->dirty_limit))
		cond_wait_until(&cache->throttled, &cache->lock, until_ns);
	atomic_fetch_sub(&cache->nr_waiting, 1);
	lock_release(&cache->lock);
	atomic_fetch_add(&cache->pauses, 1);
	atomic_fetch_add(&cache->pause_ns, clock_now_ns() - start_ns);
}

static bool shutting_down(struct wb_cache *cache)
{
	LOCK_SCOPE(&cache->lock);
	return cache->shutdown;
}

void wb_throttle(struct wb_cache *cache, uint64_t bytes)
{
	uint64_t pages = div_round_up(bytes, WB_PAGE_SIZE);

	for (;;) {
		uint64_t dirty = dirty_and_writeback(cache) + pages;
		uint64_t limit = atomic_load(&cache->dirty_limit);
		uint64_t background = atomic_load(&cache->dirty_background);
		if (dirty <= background)
			return;
		if (atomic_load(&cache->nr_dirty) + pages > background)
			wb_flusher_poll(cache);
		/* A write larger than the limit must pass at some time: when nothing else is dirty. */
		if (dirty <= limit || dirty == pages || shutting_down(cache))
			return;
		pause_once(cache, pages);
	}
}
