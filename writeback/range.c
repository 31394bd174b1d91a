/* SPDX-License-Identifier: MIT */
/*
 * Whole ranges of a file: writing them now, dropping them, and changing the file's length.
 *
 * A sync writes exactly what was dirty when it began: pages carry the epoch in which they became dirty, a sync closes the current
 * epoch, and the dirty list is in the order of epochs, so it stops at the first page that is newer. A page that is written to while in flight
 * goes back to the end of the list under the new epoch only once it has been taken off it; until then the sync waits for it and writes it again. It waits
 * only for runs that were submitted before it ended, so a writer cannot keep it busy.
 */
#include "writeback/private.h"

#include <string.h>
#include <unistd.h>

#include "base/sizes.h"

/* How much one file puts on its way before it looks again: bounds the memory of a sync, not its length. */
#define SYNC_BATCH_PAGES 16384

void wb_file_zero_tail_locked(struct wb_file *file, uint64_t size)
{
	size_t from = size % WB_PAGE_SIZE;
	uint32_t id = from ? wb_index_find_locked(file, size >> WB_PAGE_SHIFT) : 0;

	if (id)
		memset(wb_page_data(file->cache, id) + from, 0, WB_PAGE_SIZE - from);
}

void wb_file_drop_locked(struct wb_file *file, uint64_t first, uint64_t end)
{
	struct wb_cache *cache = file->cache;

	lock_assert_held(&file->lock);
	for (;;) {
		bool busy = false;
		uint32_t id = wb_index_from_locked(file, first), next;
		for (; id && wb_page(cache, id)->index < end; id = next) {
			struct wb_page *page = wb_page(cache, id);
			enum wb_page_state state = wb_page_state(page);
			next = wb_index_next(cache, id);
			if (wb_page_flag(page, WB_PAGE_FILLING) ||
			    (state != WB_PAGE_CLEAN && state != WB_PAGE_DIRTY))
				busy = true;
			else
				wb_page_drop_locked(file, id);
		}
		if (!busy)
			return;
		cond_wait(&file->changed, &file->lock);
	}
}

/* True while something that a sync of @what must see on the backing is neither there nor on its way. */
static bool owed_locked(struct wb_file *file, const struct wb_collect *what)
{
	if (!what->by_epoch) {
		uint32_t id = wb_index_from_locked(file, what->first);
		while (id && wb_page(file->cache, id)->index < what->end) {
			if (wb_page_state(wb_page(file->cache, id)) == WB_PAGE_DIRTY)
				return true; /* there was no memory for its run */
			id = wb_index_next(file->cache, id);
		}
		return false;
	}
	return file->dirty_head &&
	       (int32_t)(wb_page(file->cache, file->dirty_head)->epoch - what->epoch) <= 0;
}

static int flush_locked(struct wb_file *file, const struct wb_collect *what)
{
	uint32_t errors = file->err_seq;

	for (;;) {
		struct list ios;
		list_init(&ios);
		uint64_t pages = wb_run_collect_locked(file, what, &ios);
		if (pages > 0) {
			lock_release(&file->lock);
			wb_run_submit(file->cache, &ios);
			lock_take(&file->lock);
			if (pages == what->max_pages)
				continue;
		}
		if (file->err_seq != errors || !owed_locked(file, what))
			break;
		/* In flight and written to again, or the backing refused O_DIRECT: once more when it has landed. */
		if (!list_is_empty(&file->ios))
			cond_wait(&file->changed, &file->lock);
		else if (pages == 0)
			return -ENOMEM;
	}
	wb_run_wait_locked(file);
	return file->err_seq != errors ? file->err : 0;
}

/* The page after the last that [off, off + len) touches; len may mean "to the end". */
static uint64_t page_end(uint64_t off, uint64_t len)
{
	return len > UINT64_MAX - off - WB_PAGE_SIZE ? UINT64_MAX : div_round_up(off + len, WB_PAGE_SIZE);
}

int wb_file_flush(struct wb_file *file, uint64_t off, uint64_t len)
{
	struct wb_collect what = { .max_pages = SYNC_BATCH_PAGES, .end = UINT64_MAX };

	wb_file_ref(file);
	lock_take(&file->lock);
	uint32_t redo;
	int r = 0;
	do {
		redo = file->redo_seq;
		if (off > 0 || len < atomic_load(&file->size)) {
			what.first = off >> WB_PAGE_SHIFT;
			what.end = page_end(off, len);
			/* A page in flight may carry bytes older than the range's last write. */
			wb_run_wait_locked(file);
		} else {
			what.by_epoch = true;
			what.epoch = file->epoch++;
		}
		if (file->nr_dirty > 0 || !list_is_empty(&file->ios))
			r = flush_locked(file, &what);
	} while (r == 0 && file->redo_seq != redo);
	lock_release(&file->lock);
	wb_file_unref(file);
	return r;
}

void wb_file_write_behind(struct wb_file *file, uint64_t off, uint64_t len)
{
	struct wb_collect what = { .max_pages = UINT64_MAX, .first = off >> WB_PAGE_SHIFT,
				   .end = div_round_up(off + len, WB_PAGE_SIZE) };
	struct list ios;

	list_init(&ios);
	lock_take(&file->lock);
	wb_run_collect_locked(file, &what, &ios);
	lock_release(&file->lock);
	wb_run_submit(file->cache, &ios);
}

int wb_file_sync(struct wb_file *file, bool datasync)
{
	int r = wb_file_flush(file, 0, UINT64_MAX);
	int fd = wb_file_fd(file);

	if (fd < 0)
		return r;
	int synced = wb_device_fsync(file->cache->device, fd, datasync);
	if (synced < 0) {
		/* The backing tells one caller; what it lost is everybody's. */
		LOCK_SCOPE(&file->lock);
		wb_file_record_error_locked(file, synced);
	}
	return r < 0 ? r : synced;
}

int wb_file_invalidate(struct wb_file *file, uint64_t off, uint64_t len)
{
	int r = wb_file_flush(file, off, len);

	if (r < 0)
		return r;
	lock_take(&file->lock);
	wb_file_drop_locked(file, off >> WB_PAGE_SHIFT, page_end(off, len));
	wb_file_check_locked(file);
	lock_release(&file->lock);
	wb_cache_wake_waiting(file->cache);
	wb_file_settle(file);
	return 0;
}

static bool tail_in_flight_locked(struct wb_file *file, uint64_t size)
{
	uint32_t id = size % WB_PAGE_SIZE ? wb_index_find_locked(file, size >> WB_PAGE_SHIFT) : 0;
	if (!id)
		return false;
	enum wb_page_state state = wb_page_state(wb_page(file->cache, id));
	return state == WB_PAGE_WRITEBACK || state == WB_PAGE_REDIRTIED ||
	       wb_page_flag(wb_page(file->cache, id), WB_PAGE_FILLING);
}

void wb_file_cut_locked(struct wb_file *file, uint64_t size)
{
	lock_assert_held(&file->lock);
	/* A run that lands later would make the backing longer again. Dropping may give up the lock, so it comes first each time. */
	for (;;) {
		wb_file_drop_locked(file, div_round_up(size, WB_PAGE_SIZE), UINT64_MAX);
		if (!tail_in_flight_locked(file, size))
			break;
		cond_wait(&file->changed, &file->lock);
	}
	atomic_store(&file->size, size);
}

/* The backing has refused to be cut: the file is as long as it is there, and what was dirty beyond is lost. */
static void uncut_locked(struct wb_file *file, uint64_t old_size, uint64_t backing_size)
{
	uint64_t size = atomic_load(&file->size);
	uint32_t tail = wb_index_find_locked(file, size >> WB_PAGE_SHIFT);

	file->backing_size = max_u64(file->backing_size, backing_size);
	atomic_store(&file->size, max_u64(size, min_u64(old_size, backing_size)));
	/* It may have been read in meanwhile, with zeroes beyond what was then the end. */
	if (tail && wb_page_state(wb_page(file->cache, tail)) == WB_PAGE_CLEAN &&
	    !wb_page_flag(wb_page(file->cache, tail), WB_PAGE_FILLING))
		wb_page_drop_locked(file, tail);
}

int wb_file_truncate(struct wb_file *file, uint64_t size)
{
	lock_take(&file->lock);
	uint64_t old = atomic_load(&file->size), old_backing = file->backing_size;
	if (size < old) {
		wb_file_cut_locked(file, size);
		/* At once: a reader that is still beyond the end must not bring back what was there. */
		old_backing = file->backing_size;
		file->backing_size = min_u64(old_backing, size);
	}
	int fd = file->fd;
	lock_release(&file->lock);

	int r = ftruncate(fd, (off_t)size) < 0 ? -errno : 0;

	lock_take(&file->lock);
	if (r == 0) {
		wb_file_zero_tail_locked(file, size);
		atomic_store(&file->size, size);
		file->backing_size = size;
	} else if (size < old) {
		uncut_locked(file, old, old_backing);
	}
	wb_file_check_locked(file);
	lock_release(&file->lock);
	wb_cache_wake_waiting(file->cache);
	wb_file_settle(file);
	return r;
}
