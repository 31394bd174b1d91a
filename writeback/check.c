/* SPDX-License-Identifier: MIT */
/*
 * The invariants of a file's pages, re-checked after every step in a build with -Dinvariants=true.
 *
 * Costs a walk over all pages each time, which is why nobody else gets it.
 */
#include "writeback/private.h"

#ifdef CHOKEFS_INVARIANTS

static void check_page(struct wb_file *file, uint32_t id)
{
	struct wb_cache *cache = file->cache;
	struct wb_page *page = wb_page(cache, id);
	enum wb_page_state state = wb_page_state(page);

	assert(state != WB_PAGE_FREE && state < WB_PAGE_STATES);
	assert(!wb_page_flag(page, WB_PAGE_DETACHED));
	if (wb_page_flag(page, WB_PAGE_FILLING))
		assert(state == WB_PAGE_CLEAN);
	if (state != WB_PAGE_CLEAN && file->writers == 0)
		assert(page->index << WB_PAGE_SHIFT < atomic_load(&file->size));
	/* Red pages have black children. */
	if (wb_page_flag(page, WB_PAGE_RED)) {
		assert(!page->left || !wb_page_flag(wb_page(cache, page->left), WB_PAGE_RED));
		assert(!page->right || !wb_page_flag(wb_page(cache, page->right), WB_PAGE_RED));
	}
}

static void check_index(struct wb_file *file)
{
	uint64_t nr = 0, dirty = 0, inflight = 0, last = 0;

	for (uint32_t id = wb_index_from_locked(file, 0); id; id = wb_index_next(file->cache, id)) {
		struct wb_page *page = wb_page(file->cache, id);
		enum wb_page_state state = wb_page_state(page);
		assert(nr == 0 || page->index > last);
		last = page->index;
		nr++;
		dirty += state == WB_PAGE_DIRTY || state == WB_PAGE_REDIRTIED;
		inflight += state == WB_PAGE_WRITEBACK || state == WB_PAGE_REDIRTIED;
		check_page(file, id);
	}
	assert(nr == file->nr_resident);
	assert(dirty == file->nr_dirty);
	assert(inflight == file->nr_inflight);
}

static void check_lists(struct wb_file *file)
{
	struct wb_cache *cache = file->cache;
	uint64_t resident = 0, dirty = 0;
	uint32_t last = 0;

	for (uint32_t id = file->res_head; id; last = id, id = wb_page(cache, id)->res_next) {
		assert(wb_page(cache, id)->res_prev == last);
		resident++;
	}
	assert(resident == file->nr_resident && file->res_tail == last);
	last = 0;
	for (uint32_t id = file->dirty_head; id; last = id, id = wb_page(cache, id)->dirty_next) {
		assert(wb_page(cache, id)->dirty_prev == last);
		assert(!last || (int32_t)(wb_page(cache, id)->epoch - wb_page(cache, last)->epoch) >= 0);
		dirty++;
	}
	assert(dirty == file->nr_dirty && file->dirty_tail == last);
}

void wb_file_check_locked(struct wb_file *file)
{
	lock_assert_held(&file->lock);
	assert(file->owed_dirty == 0 && file->owed_writeback == 0 && file->owed_created == 0);
	check_index(file);
	check_lists(file);
}

#else

/* ISO C wants something in every file. */
typedef int wb_check_is_not_built;

#endif
