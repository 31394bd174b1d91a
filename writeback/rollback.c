/* SPDX-License-Identifier: MIT */
/*
 * Undoing a refused write: how the pages beyond the old size are found.
 *
 * NetBSD truncated to the old size after any error of a write. The pager was asked to drop everything from the new end
 * to "offset 0", which meant the end of the address space, and chose between two walks: by list of the resident pages if
 * they are at most 4 times the pages of the range, else one look-up per page of the range. A range without end always chose the list:
 *
 *	list	 visits every resident page of the file, to free a handful or none
 *	bounded	 ends the range at max(write size, size), so that the same rule nearly always chooses look-ups; the mail's
 *		 patch, with one hole closed: a refusal whose end is not block-aligned left clean pages between there and
 *		 the end of its block, so the end is rounded up to the block
 *	ordered	 scans the index from the new end: visits what it frees
 *
 * As in the original the undo first waits for all of the file's output in flight, and nothing is walked when the write
 * had not raised its claim beyond the last page that stays. Data below the old size is not restored.
 * Sources: NetBSD sys/miscfs/genfs/genfs_io.c (genfs_do_putpages) and sys/uvm/uvm_vnode.c, 2012.
 */
#include "writeback/private.h"

#include <unistd.h>

#include "base/sizes.h"

/* NetBSD's UVM_PAGE_TREE_PENALTY: a look-up is guessed to cost as much as four steps along the list. */
#define TREE_PENALTY 4

struct walk {
	struct wb_file *file;
	uint64_t first, end; /* pages; end exclusive */
	uint64_t visited, freed;
};

static void walk_free(struct walk *walk, uint32_t id)
{
	wb_page_drop_locked(walk->file, id);
	walk->freed++;
}

static void walk_list(struct walk *walk)
{
	struct wb_cache *cache = walk->file->cache;
	uint32_t id, next;

	for (id = walk->file->res_head; id; id = next) {
		struct wb_page *page = wb_page(cache, id);
		next = page->res_next;
		walk->visited++;
		if (page->index >= walk->first && page->index < walk->end)
			walk_free(walk, id);
	}
}

static void walk_lookups(struct walk *walk)
{
	for (uint64_t index = walk->first; index < walk->end; index++) {
		uint32_t id = wb_index_find_locked(walk->file, index);
		walk->visited++;
		if (id)
			walk_free(walk, id);
	}
}

static void walk_ordered(struct walk *walk)
{
	uint32_t id, next;

	for (id = wb_index_from_locked(walk->file, walk->first); id; id = next) {
		next = wb_index_next(walk->file->cache, id);
		walk->visited++;
		walk_free(walk, id);
	}
}

static bool filling_from_locked(struct wb_file *file, uint64_t first)
{
	for (uint32_t id = wb_index_from_locked(file, first); id; id = wb_index_next(file->cache, id)) {
		if (wb_page_flag(wb_page(file->cache, id), WB_PAGE_FILLING))
			return true;
	}
	return false;
}

/* Nothing of the file is on its way, and no page from @first on is half read; both at the same time. */
static void wait_for_output_locked(struct wb_file *file, uint64_t first)
{
	for (;;) {
		wb_run_wait_locked(file);
		if (file->nr_inflight > 0)
			continue;
		if (!filling_from_locked(file, first))
			return;
		cond_wait(&file->changed, &file->lock);
	}
}

static bool tail_is_dirty_locked(struct wb_file *file, uint64_t size)
{
	uint32_t id = wb_index_find_locked(file, (size - 1) >> WB_PAGE_SHIFT);

	return id && wb_page_state(wb_page(file->cache, id)) == WB_PAGE_DIRTY;
}

static bool walk_run_locked(struct walk *walk, enum wb_rollback how, uint64_t claim, uint64_t block_size)
{
	bool by_list = false;

	switch (how) {
	case WB_ROLLBACK_LIST:
		walk->end = UINT64_MAX;
		by_list = true;
		break;
	case WB_ROLLBACK_BOUNDED:
		walk->end = div_round_up(round_up_pow2(claim, block_size), WB_PAGE_SIZE);
		by_list = walk->file->nr_resident <= (walk->end - walk->first) * TREE_PENALTY;
		break;
	case WB_ROLLBACK_ORDERED:
		walk->end = UINT64_MAX;
		walk_ordered(walk);
		return false;
	}
	if (by_list)
		walk_list(walk);
	else
		walk_lookups(walk);
	return by_list;
}

static void count(struct wb_cache *cache, const struct wb_rollback_result *result, bool walked)
{
	atomic_fetch_add(&cache->rb_count, 1);
	atomic_fetch_add(&cache->rb_visited, result->pages_visited);
	atomic_fetch_add(&cache->rb_freed, result->pages_freed);
	if (walked)
		atomic_fetch_add(result->by_list ? &cache->rb_by_list : &cache->rb_by_tree, 1);
	atomic_fetch_add(&cache->rb_time_ns, result->time_ns);
	atomic_fetch_add(&cache->rb_lock_ns, result->lock_held_ns);
}

int wb_file_rollback(struct wb_file *file, enum wb_rollback how, uint64_t size, uint64_t write_size,
		     uint64_t block_size, struct wb_rollback_result *ret_result)
{
	struct walk walk = { .file = file, .first = div_round_up(size, WB_PAGE_SIZE) };
	struct wb_rollback_result result = { 0 };
	uint64_t start_ns = clock_now_ns();
	int r = 0;

	lock_take(&file->lock);
	uint64_t claim = max_u64(write_size, atomic_load(&file->size));
	bool walked = claim > walk.first << WB_PAGE_SHIFT;
	wait_for_output_locked(file, size >> WB_PAGE_SHIFT);
	uint64_t locked_ns = clock_now_ns();
	if (atomic_load(&file->size) > size) {
		atomic_store(&file->size, size);
		wb_file_zero_tail_locked(file, size);
	}
	if (walked)
		result.by_list = walk_run_locked(&walk, how, claim, block_size);
	/* What was written behind has made the backing longer; where the new end is a hole, nothing will make it as long. */
	bool cut = file->backing_size > size || (file->backing_size < size && !tail_is_dirty_locked(file, size));
	if (cut)
		file->backing_size = size;
	wb_file_check_locked(file);
	result.lock_held_ns = clock_now_ns() - locked_ns;
	lock_release(&file->lock);

	if (cut && ftruncate(file->fd, (off_t)size) < 0)
		r = -errno;
	wb_cache_wake_waiting(file->cache);
	wb_file_settle(file);
	result.pages_visited = walk.visited;
	result.pages_freed = walk.freed;
	result.time_ns = clock_now_ns() - start_ns;
	count(file->cache, &result, walked);
	*ret_result = result;
	return r;
}
