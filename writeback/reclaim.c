/* SPDX-License-Identifier: MIT */
/*
 * Second chance: which clean pages make room when the cache is full.
 *
 * The arena is the clock's face. The hand passes over every page in use; one that was used since the hand last
 * came by loses its mark and stays, one that was not is freed. Dirty, in-flight, pinned and half-read pages are passed over: making
 * pages clean is the flusher's business. A file whose lock is taken is passed over as well, so that reclaim never waits
 * behind a rollback that walks a list.
 *
 * files_lock keeps files from being freed while the hand looks at a page's owner without its lock.
 */
#include "writeback/private.h"

static bool page_is_candidate(struct wb_page *page)
{
	if (wb_page_state(page) != WB_PAGE_CLEAN || wb_page_flag(page, WB_PAGE_FILLING))
		return false;
	return true;
}

/* Frees the page if it still is what it looked like without the lock. */
static bool reclaim_page(struct wb_cache *cache, uint32_t id, struct wb_file *file)
{
	struct wb_page *page = wb_page(cache, id);
	bool freed = false;

	if (!lock_try(&file->lock))
		return false;
	if (atomic_load(&page->file) == file && page_is_candidate(page) && page->pins == 0) {
		if (wb_page_flag(page, WB_PAGE_REFERENCED)) {
			wb_page_set_flag(page, WB_PAGE_REFERENCED, false);
		} else {
			wb_page_drop_locked(file, id);
			freed = true;
		}
	}
	lock_release(&file->lock);
	return freed;
}

unsigned wb_reclaim(struct wb_cache *cache, unsigned want)
{
	struct wb_arena *arena = &cache->arena;
	unsigned freed = 0;

	LOCK_SCOPE(&cache->reclaim_lock);
	LOCK_SCOPE(&cache->files_lock);
	/* Somebody else may have made room while we waited for the hand. */
	if (atomic_load(&arena->nr_used) + want <= atomic_load(&arena->nr_limit))
		return want;
	lock_take(&arena->lock);
	uint32_t nr = arena->nr_touched;
	lock_release(&arena->lock);
	/* Twice round: the first may only have taken marks away. */
	for (uint64_t steps = 2ull * nr; steps > 0 && freed < want; steps--) {
		arena->hand = arena->hand < nr ? arena->hand + 1 : 1;
		struct wb_page *page = wb_page(cache, arena->hand);
		struct wb_file *file = atomic_load(&page->file);
		if (file && page_is_candidate(page) && reclaim_page(cache, arena->hand, file))
			freed++;
	}
	atomic_fetch_add(&cache->reclaimed, freed);
	return freed;
}
