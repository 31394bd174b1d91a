/* SPDX-License-Identifier: MIT */
/*
 * Where writers pause while too much is dirty.
 *
 * After Linux' balance_dirty_pages(): dirty and in-flight pages are counted together. Below the limit a writer runs free, and
 * asks for background work when that is due and nobody does it. At the limit it pauses, at most 200 ms at a time,
 * and polls. Those that pause stand in line, so that small writes do not take the room that a large one waits for. A flusher that went to sleep because nothing could be written is woken by such polls at most every restart_poll_ms;
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

/* Room for a write of @pages. It is asked for no more than the flusher makes, which stops at the background threshold: a write longer
 * than that passes with what is dirty below the threshold, or it would wait until those pages expire. */
static bool has_room(struct wb_cache *cache, uint64_t pages)
{
	uint64_t limit = atomic_load(&cache->dirty_limit);
	uint64_t background = atomic_load(&cache->dirty_background);
	uint64_t made = limit > background ? limit - background : 0;

	return dirty_and_writeback(cache) + min_u64(pages, made) <= limit;
}

static void poll_if_due(struct wb_cache *cache, uint64_t pages)
{
	if (atomic_load(&cache->nr_dirty) + pages > atomic_load(&cache->dirty_background))
		wb_flusher_poll(cache);
}

/* When a pause that begins now ends at the latest: when the next poll is due, or it has lasted as long as one may. */
static uint64_t pause_end(struct wb_cache *cache, uint64_t now_ns)
{
	uint64_t poll_ns = atomic_load(&cache->flusher.last_poll_ns) +
			   atomic_load(&cache->restart_poll_ms) * NSEC_PER_MSEC;
	uint64_t longest_ns = now_ns + MAX_PAUSE_NS;

	return poll_ns > now_ns && poll_ns < longest_ns ? poll_ns : longest_ns;
}

/* True if the writer at @place may go on: it is the first in line and there is room. Leaves the line then. */
static bool leave_locked(struct wb_cache *cache, struct list *place, uint64_t pages)
{
	lock_assert_held(&cache->lock);
	if (!cache->shutdown && (cache->line.next != place || !has_room(cache, pages)))
		return false;
	list_del(place);
	atomic_fetch_sub(&cache->nr_in_line, 1);
	cond_wake_all(&cache->throttled); /* there may be room for the next as well */
	return true;
}

/* Sleeps until something completes or the pause is over. True: the writer has left the line. */
static bool pause_once(struct wb_cache *cache, struct list *place, uint64_t pages)
{
	uint64_t start_ns = clock_now_ns();

	lock_take(&cache->lock);
	atomic_fetch_add(&cache->nr_waiting, 1);
	bool left = leave_locked(cache, place, pages);
	if (!left) {
		cond_wait_until(&cache->throttled, &cache->lock, pause_end(cache, start_ns));
		left = leave_locked(cache, place, pages);
	}
	atomic_fetch_sub(&cache->nr_waiting, 1);
	lock_release(&cache->lock);
	atomic_fetch_add(&cache->pauses, 1);
	atomic_fetch_add(&cache->pause_ns, clock_now_ns() - start_ns);
	return left;
}

void wb_throttle(struct wb_cache *cache, uint64_t bytes)
{
	uint64_t pages = div_round_up(bytes, WB_PAGE_SIZE);
	struct list place;

	if (dirty_and_writeback(cache) + pages <= atomic_load(&cache->dirty_background))
		return;
	poll_if_due(cache, pages);
	if (atomic_load(&cache->nr_in_line) == 0 && has_room(cache, pages))
		return;
	lock_take(&cache->lock);
	list_add_tail(&cache->line, &place);
	atomic_fetch_add(&cache->nr_in_line, 1);
	bool left = leave_locked(cache, &place, pages);
	lock_release(&cache->lock);
	while (!left) {
		left = pause_once(cache, &place, pages);
		if (!left)
			poll_if_due(cache, pages);
	}
}
