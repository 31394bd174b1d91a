/* SPDX-License-Identifier: MIT */
/*
 * Bytes into pages: the way in.
 *
 * One copy, under the file's lock, page by page. Frames come from a small batch taken beforehand, because taking one may wait
 * for reclaim, and reclaim and completions need the lock. Whenever the lock is given up the size already covers what was copied, so a
 * flusher that comes by never meets a dirty page beyond the end.
 *
 * A page in flight is written to all the same and becomes REDIRTIED: the backing keeps no checksums that a changing
 * page could break, and it will be written again.
 */
#include "writeback/private.h"

#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/sizes.h"

#define BATCH 64

/* One write(2) under way. */
struct copy {
	struct wb_file *file;
	uint64_t off;	     /* of the next byte */
	const char *buf;
	size_t len;	     /* left */
	uint32_t batch[BATCH];
	unsigned nr_batch;   /* frames in it */
	unsigned next_batch; /* the next to use */
};

static void grow_locked(struct wb_file *file, uint64_t end)
{
	lock_assert_held(&file->lock);
	if (end > atomic_load(&file->size))
		atomic_store(&file->size, end);
}

static uint32_t batch_take(struct copy *copy)
{
	return copy->batch[copy->next_batch++];
}

/* Gets frames for what is left; the lock is given up meanwhile. 1, or -EIO when there will be none. */
static int batch_refill_locked(struct copy *copy)
{
	uint64_t pages = div_round_up(copy->len + copy->off % WB_PAGE_SIZE, WB_PAGE_SIZE);
	unsigned want = pages < BATCH ? (unsigned)pages : BATCH;

	wb_file_count_locked(copy->file);
	lock_release(&copy->file->lock);
	copy->nr_batch = wb_page_alloc(copy->file->cache, want, true, copy->batch);
	copy->next_batch = 0;
	lock_take(&copy->file->lock);
	return copy->nr_batch > 0 ? 1 : -EIO;
}

static void batch_give(struct copy *copy)
{
	if (copy->next_batch < copy->nr_batch)
		wb_arena_give(&copy->file->cache->arena, copy->batch + copy->next_batch,
			      copy->nr_batch - copy->next_batch);
}

/* Attaches a frame with the backing's bytes in it; the lock is given up meanwhile. */
static int attach_filled_locked(struct wb_file *file, uint32_t id, uint64_t index)
{
	wb_page_attach_locked(file, id, index);
	wb_page_set_flag(wb_page(file->cache, id), WB_PAGE_FILLING, true);
	wb_file_count_locked(file);
	lock_release(&file->lock);
	int r = wb_file_fill(file, index, 1, &id);
	lock_take(&file->lock);
	wb_page_set_flag(wb_page(file->cache, id), WB_PAGE_FILLING, false);
	if (r < 0)
		wb_page_drop_locked(file, id);
	cond_wake_all(&file->changed);
	return r;
}

/* True if a page of which [from, to) will be overwritten has other bytes on the backing that must be read first. */
static bool must_fill_locked(struct wb_file *file, uint64_t index, size_t from, size_t to)
{
	uint64_t start = index << WB_PAGE_SHIFT;

	if (start >= file->backing_size)
		return false;
	return from > 0 || start + to < min_u64(file->backing_size, start + WB_PAGE_SIZE);
}

static void dirty_locked(struct wb_file *file, uint32_t id)
{
	struct wb_page *page = wb_page(file->cache, id);

	if (wb_page_state(page) == WB_PAGE_CLEAN)
		wb_page_move_owed_locked(file, id, WB_PAGE_DIRTY);
	else if (wb_page_state(page) == WB_PAGE_WRITEBACK)
		wb_page_move_owed_locked(file, id, WB_PAGE_REDIRTIED);
}

/* Copies into one page. 0, 1: nothing done, try again (the lock was given up), or -errno. */
static int copy_page_locked(struct copy *copy)
{
	struct wb_file *file = copy->file;
	struct wb_cache *cache = file->cache;
	uint64_t index = copy->off >> WB_PAGE_SHIFT;
	size_t from = copy->off % WB_PAGE_SIZE;
	size_t len = copy->len < WB_PAGE_SIZE - from ? copy->len : WB_PAGE_SIZE - from;
	uint32_t id = wb_index_find_locked(file, index);

	if (id && wb_page_flag(wb_page(cache, id), WB_PAGE_FILLING)) {
		wb_file_count_locked(file);
		cond_wait(&file->changed, &file->lock);
		return 1;
	}
	if (!id) {
		if (copy->next_batch == copy->nr_batch)
			return batch_refill_locked(copy);
		id = batch_take(copy);
		if (must_fill_locked(file, index, from, from + len)) {
			int r = attach_filled_locked(file, id, index);
			return r < 0 ? r : 1;
		}
		memset(wb_page_data(cache, id), 0, from);
		memset(wb_page_data(cache, id) + from + len, 0, WB_PAGE_SIZE - from - len);
		wb_page_attach_locked(file, id, index);
	} else if (!wb_page_flag(wb_page(cache, id), WB_PAGE_REFERENCED)) {
		wb_page_set_flag(wb_page(cache, id), WB_PAGE_REFERENCED, true);
	}
	memcpy(wb_page_data(cache, id) + from, copy->buf, len);
	grow_locked(file, copy->off + len);
	dirty_locked(file, id);
	copy->off += len;
	copy->buf += len;
	copy->len -= len;
	return 0;
}

/* Counts the writer in, and tells the owner if this is the first. */
static void write_begin_locked(struct wb_file *file)
{
	lock_assert_held(&file->lock);
	file->writers++;
	if (file->told_dirty)
		return;
	file->told_dirty = true;
	lock_release(&file->lock);
	file->ops->dirty(file->owner);
	lock_take(&file->lock);
}

/* Takes back what a failed write has added to the file. True if some of it is on the backing already, which must be cut then. */
static bool undo_growth_locked(struct wb_file *file, uint64_t old_size)
{
	lock_assert_held(&file->lock);
	if (atomic_load(&file->size) <= old_size)
		return false;
	wb_file_cut_locked(file, old_size);
	wb_file_zero_tail_locked(file, old_size);
	if (file->backing_size <= old_size)
		return false;
	file->backing_size = old_size;
	return true;
}

int wb_file_write(struct wb_file *file, uint64_t off, const void *buf, size_t len)
{
	struct copy copy = { .file = file, .off = off, .buf = buf, .len = len };
	int r = 0;

	lock_take(&file->lock);
	uint64_t old_size = atomic_load(&file->size);
	write_begin_locked(file);
	while (copy.len > 0 && r >= 0)
		r = copy_page_locked(&copy);
	wb_file_count_locked(file);
	bool cut = r < 0 && undo_growth_locked(file, old_size);
	file->writers--;
	wb_file_check_locked(file);
	bool rest = file->nr_dirty == 0 && list_is_empty(&file->ios);
	int fd = file->fd;
	lock_release(&file->lock);
	batch_give(&copy);
	if (cut && ftruncate(fd, (off_t)old_size) < 0)
		log_warning("inode %llu: what a failed write left beyond the end stays on the backing: %s",
			    (unsigned long long)file->ino, strerror(errno));
	if (rest)
		wb_file_settle(file);
	return r < 0 ? r : 0;
}

int wb_file_create_pages(struct wb_file *file, uint64_t off, uint64_t len)
{
	uint64_t index = off >> WB_PAGE_SHIFT;
	uint64_t end = div_round_up(off + len, WB_PAGE_SIZE);
	int r = 0;

	for (; index < end && r >= 0; index++) {
		uint32_t id;
		lock_take(&file->lock);
		bool there = wb_index_find_locked(file, index) != 0;
		lock_release(&file->lock);
		if (there)
			continue;
		if (wb_page_alloc(file->cache, 1, true, &id) == 0)
			return -EIO;
		lock_take(&file->lock);
		if (wb_index_find_locked(file, index)) {
			wb_arena_give(&file->cache->arena, &id, 1); /* a reader was first */
		} else if ((index << WB_PAGE_SHIFT) < file->backing_size) {
			r = attach_filled_locked(file, id, index);
		} else {
			memset(wb_page_data(file->cache, id), 0, WB_PAGE_SIZE);
			wb_page_attach_locked(file, id, index);
		}
		wb_file_count_locked(file);
		lock_release(&file->lock);
	}
	return r;
}
