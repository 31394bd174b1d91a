/* SPDX-License-Identifier: MIT */
/*
 * Pages: which states they may take, and the lists they are on.
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

static const bool page_moves[WB_PAGE_STATES][WB_PAGE_STATES] = {
	[WB_PAGE_FREE] = { [WB_PAGE_CLEAN] = true },
	[WB_PAGE_CLEAN] = { [WB_PAGE_DIRTY] = true, [WB_PAGE_FREE] = true },
	[WB_PAGE_DIRTY] = { [WB_PAGE_WRITEBACK] = true, [WB_PAGE_FREE] = true },
	[WB_PAGE_WRITEBACK] = { [WB_PAGE_CLEAN] = true, [WB_PAGE_DIRTY] = true, [WB_PAGE_REDIRTIED] = true },
	[WB_PAGE_REDIRTIED] = { [WB_PAGE_DIRTY] = true },
};

/* ---- lists of a file ---- */

static void dirty_list_add(struct wb_file *file, uint32_t id)
{
	struct wb_cache *cache = file->cache;
	struct wb_page *page = wb_page(cache, id);

	page->epoch = file->epoch;
	atomic_store_explicit(&page->dirtied_ms, wb_cache_time_ms(cache), memory_order_relaxed);
	page->dirty_prev = file->dirty_tail;
	page->dirty_next = 0;
	if (file->dirty_tail)
		wb_page(cache, file->dirty_tail)->dirty_next = id;
	else
		atomic_store_explicit(&file->dirty_head, id, memory_order_relaxed);
	file->dirty_tail = id;
	if (file->nr_dirty++ == 0) {
		LOCK_SCOPE(&cache->lock);
		list_add_tail(&cache->dirty_files, &file->dirty_link);
	}
	file->owed_dirty++;
}

static void dirty_list_del(struct wb_file *file, uint32_t id)
{
	struct wb_cache *cache = file->cache;
	struct wb_page *page = wb_page(cache, id);

	if (page->dirty_prev)
		wb_page(cache, page->dirty_prev)->dirty_next = page->dirty_next;
	else
		atomic_store_explicit(&file->dirty_head, page->dirty_next, memory_order_relaxed);
	if (page->dirty_next)
		wb_page(cache, page->dirty_next)->dirty_prev = page->dirty_prev;
	else
		file->dirty_tail = page->dirty_prev;
	page->dirty_prev = page->dirty_next = 0;
	if (--file->nr_dirty == 0) {
		LOCK_SCOPE(&cache->lock);
		list_del(&file->dirty_link);
	}
	file->owed_dirty--;
}

void wb_file_count_locked(struct wb_file *file)
{
	struct wb_cache *cache = file->cache;

	lock_assert_held(&file->lock);
	if (file->owed_created != 0)
		atomic_fetch_add_explicit(&cache->created, file->owed_created, memory_order_relaxed);
	if (file->owed_writeback != 0)
		atomic_fetch_add(&cache->nr_writeback, (uint64_t)file->owed_writeback);
	if (file->owed_dirty != 0) {
		uint64_t before = atomic_fetch_add(&cache->nr_dirty, (uint64_t)file->owed_dirty);
		if (before == 0 || before + (uint64_t)file->owed_dirty == 0) {
			LOCK_SCOPE(&cache->waiting_lock);
			wb_device_set_waiting(cache->device, atomic_load(&cache->nr_dirty) > 0);
		}
	}
	file->owed_created = 0;
	file->owed_dirty = file->owed_writeback = 0;
}

static bool state_on_dirty_list(enum wb_page_state state)
{
	return state == WB_PAGE_DIRTY || state == WB_PAGE_REDIRTIED;
}

static bool state_in_flight(enum wb_page_state state)
{
	return state == WB_PAGE_WRITEBACK || state == WB_PAGE_REDIRTIED;
}

void wb_page_move_owed_locked(struct wb_file *file, uint32_t id, enum wb_page_state to)
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
		file->owed_writeback++;
	}
	if (state_in_flight(from) && !state_in_flight(to)) {
		file->nr_inflight--;
		file->owed_writeback--;
	}
}

void wb_page_move_locked(struct wb_file *file, uint32_t id, enum wb_page_state to)
{
	wb_page_move_owed_locked(file, id, to);
	wb_file_count_locked(file);
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
	wb_page_move_owed_locked(file, id, WB_PAGE_CLEAN);
	atomic_store_explicit(&page->file, file, memory_order_release);
	file->owed_created++;
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
