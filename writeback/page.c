/* SPDX-License-Identifier: MIT */
/*
 * Pages: where they come from and which states they may take.
 *
 * The arena is two reserved ranges of addresses, one of descriptors and one of bytes, of which cache_bytes says how much may
 * be in use. Frames are handed out in ascending order, so that a sequential write is contiguous in memory and goes to the
 * device as one iovec.
 *
 *	      attach          write          collect
 *	FREE --------> CLEAN --------> DIRTY --------> WRITEBACK ----+---- done -------> CLEAN
 *	  ^              |               |                 |         +---- failed -----> DIRTY
 *	  +---- drop ----+-----<---------+               write
 *	                                                   v
 *	                                               REDIRTIED --------- done/failed -> DIRTY
 *
 * A page is on its file's dirty list iff DIRTY or REDIRTIED, and counts as in flight iff WRITEBACK or REDIRTIED.
 */
#include "writeback/private.h"

#include <sys/mman.h>

static const bool page_moves[WB_PAGE_STATES][WB_PAGE_STATES] = {
	[WB_PAGE_FREE] = { [WB_PAGE_CLEAN] = true },
	[WB_PAGE_CLEAN] = { [WB_PAGE_DIRTY] = true, [WB_PAGE_FREE] = true },
	[WB_PAGE_DIRTY] = { [WB_PAGE_WRITEBACK] = true, [WB_PAGE_FREE] = true },
	[WB_PAGE_WRITEBACK] = { [WB_PAGE_CLEAN] = true, [WB_PAGE_DIRTY] = true, [WB_PAGE_REDIRTIED] = true },
	[WB_PAGE_REDIRTIED] = { [WB_PAGE_DIRTY] = true },
};

/* ---- arena ---- */

static void *reserve(size_t bytes)
{
	void *range = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
			   -1, 0);
	return range == MAP_FAILED ? NULL : range;
}

static size_t arena_page_bytes(const struct wb_arena *arena)
{
	return ((size_t)arena->nr_max + 1) * sizeof(struct wb_page);
}

static size_t arena_data_bytes(const struct wb_arena *arena)
{
	return ((size_t)arena->nr_max + 1) * WB_PAGE_SIZE;
}

int wb_arena_init(struct wb_arena *arena, uint64_t limit_bytes)
{
	uint64_t nr_max = wb_cache_max_bytes() / WB_PAGE_SIZE;

	if (nr_max >= UINT32_MAX)
		nr_max = UINT32_MAX - 1;
	*arena = (struct wb_arena){ .nr_max = (uint32_t)nr_max };
	arena->page = reserve(arena_page_bytes(arena));
	if (!arena->page)
		return -ENOMEM;
	arena->data = reserve(arena_data_bytes(arena));
	if (!arena->data) {
		munmap(arena->page, arena_page_bytes(arena));
		return -ENOMEM;
	}
	lock_init(&arena->lock);
	atomic_store(&arena->nr_limit, (uint32_t)(limit_bytes / WB_PAGE_SIZE));
	return 0;
}

void wb_arena_fini(struct wb_arena *arena)
{
	munmap(arena->page, arena_page_bytes(arena));
	munmap(arena->data, arena_data_bytes(arena));
	lock_fini(&arena->lock);
}

unsigned wb_arena_take(struct wb_arena *arena, unsigned want, uint32_t *ids)
{
	LOCK_SCOPE(&arena->lock);
	uint32_t used = atomic_load_explicit(&arena->nr_used, memory_order_relaxed);
	uint32_t limit = atomic_load_explicit(&arena->nr_limit, memory_order_relaxed);
	unsigned nr = 0;

	while (nr < want && used + nr < limit) {
		uint32_t id = arena->free_head;
		if (id) {
			arena->free_head = arena->page[id].dirty_next;
			arena->page[id].dirty_next = 0;
			arena->nr_free--;
		} else if (arena->nr_touched < arena->nr_max) {
			id = ++arena->nr_touched;
		} else {
			break;
		}
		ids[nr++] = id;
	}
	atomic_store_explicit(&arena->nr_used, used + nr, memory_order_relaxed);
	return nr;
}

void wb_arena_give(struct wb_arena *arena, const uint32_t *ids, unsigned nr)
{
	LOCK_SCOPE(&arena->lock);
	/* Backwards, so that they come out again in the order in which they were taken. */
	for (unsigned i = nr; i-- > 0;) {
		struct wb_page *page = &arena->page[ids[i]];
		assert(wb_page_state(page) == WB_PAGE_FREE);
		page->dirty_next = arena->free_head;
		arena->free_head = ids[i];
	}
	arena->nr_free += nr;
	atomic_fetch_sub_explicit(&arena->nr_used, nr, memory_order_relaxed);
}

unsigned wb_page_alloc(struct wb_cache *cache, unsigned want, bool wait, uint32_t *ids)
{
	for (;;) {
		unsigned nr = wb_arena_take(&cache->arena, want, ids);
		if (nr > 0)
			return nr;
		if (wb_reclaim(cache, want > 64 ? want : 64) > 0)
			continue;
		if (!wait)
			return 0;
		/* All that is resident is dirty, in flight or pinned: as a writer over the limit, poll and wait. */
		wb_flusher_poll(cache);
		LOCK_SCOPE(&cache->lock);
		atomic_fetch_add(&cache->nr_waiting, 1);
		cond_wait_until(&cache->throttled, &cache->lock, clock_now_ns() + 10 * NSEC_PER_MSEC);
		atomic_fetch_sub(&cache->nr_waiting, 1);
	}
}

/* ---- lists of a file ---- */

static void dirty_list_add(struct wb_file *file, uint32_t id)
{
	struct wb_cache *cache = file->cache;
	struct wb_page *page = wb_page(cache, id);

	page->epoch = file->epoch;
	page->dirtied_ms = wb_cache_time_ms(cache);
	page->dirty_prev = file->dirty_tail;
	page->dirty_next = 0;
	if (file->dirty_tail)
		wb_page(cache, file->dirty_tail)->dirty_next = id;
	else
		file->dirty_head = id;
	file->dirty_tail = id;
	if (file->nr_dirty++ == 0) {
		LOCK_SCOPE(&cache->lock);
		list_add_tail(&cache->dirty_files, &file->dirty_link);
	}
	if (atomic_fetch_add(&cache->nr_dirty, 1) == 0) {
		LOCK_SCOPE(&cache->waiting_lock);
		wb_device_set_waiting(cache->device, atomic_load(&cache->nr_dirty) > 0);
	}
}

static void dirty_list_del(struct wb_file *file, uint32_t id)
{
	struct wb_cache *cache = file->cache;
	struct wb_page *page = wb_page(cache, id);

	if (page->dirty_prev)
		wb_page(cache, page->dirty_prev)->dirty_next = page->dirty_next;
	else
		file->dirty_head = page->dirty_next;
	if (page->dirty_next)
		wb_page(cache, page->dirty_next)->dirty_prev = page->dirty_prev;
	else
		file->dirty_tail = page->dirty_prev;
	page->dirty_prev = page->dirty_next = 0;
	if (--file->nr_dirty == 0) {
		LOCK_SCOPE(&cache->lock);
		list_del(&file->dirty_link);
	}
	if (atomic_fetch_sub(&cache->nr_dirty, 1) == 1) {
		LOCK_SCOPE(&cache->waiting_lock);
		wb_device_set_waiting(cache->device, atomic_load(&cache->nr_dirty) > 0);
	}
}

static bool state_on_dirty_list(enum wb_page_state state)
{
	return state == WB_PAGE_DIRTY || state == WB_PAGE_REDIRTIED;
}

static bool state_in_flight(enum wb_page_state state)
{
	return state == WB_PAGE_WRITEBACK || state == WB_PAGE_REDIRTIED;
}

void wb_page_move_locked(struct wb_file *file, uint32_t id, enum wb_page_state to)
{
	struct wb_page *page = wb_page(file->cache, id);
	enum wb_page_state from = wb_page_state(page);

	lock_assert_held(&file->lock);
	assert(page_moves[from][to]);
	atomic_store_explicit(&page->state, (uint8_t)to, memory_order_relaxed);
	if (state_on_dirty_list(to) && !state_on_dirty_list(from))
		dirty_list_add(file, id);
	if (state_on_dirty_list(from) && !state_on_dirty_list(to))
		dirty_list_del(file, id);
	if (state_in_flight(to) && !state_in_flight(from)) {
		file->nr_inflight++;
		atomic_fetch_add(&file->cache->nr_writeback, 1);
	}
	if (state_in_flight(from) && !state_in_flight(to)) {
		file->nr_inflight--;
		atomic_fetch_sub(&file->cache->nr_writeback, 1);
	}
}

void wb_page_attach_locked(struct wb_file *file, uint32_t id, uint64_t index)
{
	struct wb_cache *cache = file->cache;
	struct wb_page *page = wb_page(cache, id);

	lock_assert_held(&file->lock);
	page->index = index;
	page->pins = 0;
	page->dirty_prev = page->dirty_next = 0;
	atomic_store_explicit(&page->flags, 0, memory_order_relaxed);
	page->res_prev = file->res_tail;
	page->res_next = 0;
	if (file->res_tail)
		wb_page(cache, file->res_tail)->res_next = id;
	else
		file->res_head = id;
	file->res_tail = id;
	file->nr_resident++;
	wb_index_insert_locked(file, id);
	wb_page_move_locked(file, id, WB_PAGE_CLEAN);
	atomic_store(&page->file, file);
	atomic_fetch_add_explicit(&cache->created, 1, memory_order_relaxed);
}

void wb_page_drop_locked(struct wb_file *file, uint32_t id)
{
	struct wb_cache *cache = file->cache;
	struct wb_page *page = wb_page(cache, id);

	lock_assert_held(&file->lock);
	assert(!wb_page_flag(page, WB_PAGE_DETACHED));
	wb_index_remove_locked(file, id);
	if (page->res_prev)
		wb_page(cache, page->res_prev)->res_next = page->res_next;
	else
		file->res_head = page->res_next;
	if (page->res_next)
		wb_page(cache, page->res_next)->res_prev = page->res_prev;
	else
		file->res_tail = page->res_prev;
	file->nr_resident--;
	wb_page_move_locked(file, id, WB_PAGE_FREE);
	atomic_store(&page->file, NULL);
	if (page->pins > 0)
		wb_page_set_flag(page, WB_PAGE_DETACHED, true);
	else
		wb_arena_give(&cache->arena, &id, 1);
}

void wb_page_unpin_locked(struct wb_file *file, uint32_t id)
{
	struct wb_page *page = wb_page(file->cache, id);

	lock_assert_held(&file->lock);
	assert(page->pins > 0);
	if (--page->pins == 0 && wb_page_flag(page, WB_PAGE_DETACHED)) {
		wb_page_set_flag(page, WB_PAGE_DETACHED, false);
		wb_arena_give(&file->cache->arena, &id, 1);
	}
}
