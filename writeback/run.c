/* SPDX-License-Identifier: MIT */
/*
 * Groups adjacent dirty pages of one file into vectored writes, and takes them back when they are done.
 *
 * A submission costs the same whatever its length, so passes ask for runs, not pages. A run is contiguous in the file, at most 1 MiB,
 * and holds no page that is already in flight. The last page of a file whose size is not a multiple of the page goes alone and
 * through the page cache of the backing, since O_DIRECT could only write it whole: a crash then leaves the exact size.
 *
 * Choosing the file is flusher.c's job; submitting is device.c's.
 */
#include "writeback/private.h"

#include <stdlib.h>

#include "base/sizes.h"

struct wb_run {
	struct wb_io io;
	struct wb_file *file;	/* holds a reference */
	struct list file_link;	/* file->ios */
	uint64_t seq;
	unsigned nr_pages;
	bool direct;
	uint32_t ids[];		/* nr_pages, then the iovecs */
};

static void run_done(struct wb_io *io);

static struct wb_run *run_new(struct wb_file *file, unsigned nr_pages)
{
	size_t iov_at = sizeof(struct wb_run) + nr_pages * sizeof(uint32_t);

	iov_at = (iov_at + 15) & ~(size_t)15;
	struct wb_run *run = malloc(iov_at + nr_pages * sizeof(struct iovec));
	if (!run)
		return NULL;
	*run = (struct wb_run){ .file = file, .nr_pages = nr_pages };
	run->io.iov = (struct iovec *)(void *)((char *)run + iov_at);
	run->io.done = run_done;
	wb_file_ref(file);
	return run;
}

/* True if @id can be joined to a run: dirty, not in flight, and what the caller asked for. */
static bool page_fits(struct wb_cache *cache, uint32_t id, const struct wb_collect *what)
{
	struct wb_page *page = wb_page(cache, id);

	if (wb_page_state(page) != WB_PAGE_DIRTY)
		return false;
	if (page->index < what->first || page->index >= what->end)
		return false;
	return !what->by_epoch || (int32_t)(page->epoch - what->epoch) <= 0;
}

/* The page that holds the end of a file whose size is no multiple of the page size; UINT64_MAX: none. */
static uint64_t partial_tail(struct wb_file *file)
{
	uint64_t size = atomic_load(&file->size);

	return size % WB_PAGE_SIZE ? size >> WB_PAGE_SHIFT : UINT64_MAX;
}

/* Fills @run with the pages from @id on, which are adjacent. */
static void run_fill(struct wb_run *run, uint32_t id)
{
	struct wb_file *file = run->file;
	struct wb_cache *cache = file->cache;
	struct wb_io *io = &run->io;
	uint64_t size = atomic_load(&file->size);

	io->off = wb_page(cache, id)->index << WB_PAGE_SHIFT;
	assert(io->off < size);
	io->len = (size_t)min_u64((uint64_t)run->nr_pages << WB_PAGE_SHIFT, size - io->off);
	size_t left = io->len;
	for (unsigned i = 0; i < run->nr_pages; i++) {
		size_t len = left < WB_PAGE_SIZE ? left : WB_PAGE_SIZE;
		run->ids[i] = id;
		if (i > 0 && id == run->ids[i - 1] + 1)
			io->iov[io->nr_iov - 1].iov_len += len;
		else
			io->iov[io->nr_iov++] = (struct iovec){ wb_page_data(cache, id), len };
		left -= len;
		if (i + 1 < run->nr_pages)
			id = wb_index_next(cache, id);
		wb_page_move_owed_locked(file, run->ids[i], WB_PAGE_WRITEBACK);
	}
	wb_file_count_locked(file);
	run->direct = file->fd_direct >= 0 && !file->no_direct && io->len % WB_PAGE_SIZE == 0;
	io->fd = run->direct ? file->fd_direct : file->fd;
	run->seq = ++file->run_seq;
	list_add_tail(&file->ios, &run->file_link);
}

/* Makes one run around @id. How many pages; 0: no memory. */
static unsigned run_make(struct wb_file *file, uint32_t id, const struct wb_collect *what, uint64_t max,
			 struct list *ios)
{
	struct wb_cache *cache = file->cache;
	uint64_t tail = partial_tail(file);
	uint32_t first = id, last = id, next;
	unsigned nr = 1;

	if (max > WB_RUN_PAGES)
		max = WB_RUN_PAGES;
	if (wb_page(cache, id)->index == tail)
		max = 1;
	while (nr < max && (next = wb_index_prev(cache, first)) &&
	       wb_page(cache, next)->index + 1 == wb_page(cache, first)->index &&
	       page_fits(cache, next, what)) {
		first = next;
		nr++;
	}
	while (nr < max && (next = wb_index_next(cache, last)) &&
	       wb_page(cache, next)->index == wb_page(cache, last)->index + 1 &&
	       wb_page(cache, next)->index != tail && page_fits(cache, next, what)) {
		last = next;
		nr++;
	}
	struct wb_run *run = run_new(file, nr);
	if (!run)
		return 0;
	run_fill(run, first);
	wb_gate_add(&cache->gate, nr);
	list_add_tail(ios, &run->io.link);
	return nr;
}

static uint64_t collect_by_index(struct wb_file *file, const struct wb_collect *what, struct list *ios)
{
	uint64_t total = 0, at = what->first;

	while (total < what->max_pages) {
		uint32_t id = wb_index_from_locked(file, at);
		while (id && !page_fits(file->cache, id, what)) {
			if (wb_page(file->cache, id)->index >= what->end)
				return total;
			id = wb_index_next(file->cache, id);
		}
		if (!id)
			break;
		unsigned nr = run_make(file, id, what, what->max_pages - total, ios);
		if (nr == 0)
			break;
		total += nr;
		at = wb_page(file->cache, id)->index + 1;
	}
	return total;
}

uint64_t wb_run_collect_locked(struct wb_file *file, const struct wb_collect *what, struct list *ios)
{
	struct wb_cache *cache = file->cache;
	uint32_t passed = 0; /* the last page left on the list */
	uint64_t total = 0;

	lock_assert_held(&file->lock);
	if (what->first > 0 || what->end != UINT64_MAX)
		return collect_by_index(file, what, ios);
	while (total < what->max_pages) {
		uint32_t id = passed ? wb_page(cache, passed)->dirty_next : file->dirty_head;
		if (!id)
			break;
		struct wb_page *page = wb_page(cache, id);
		if (what->by_epoch && (int32_t)(page->epoch - what->epoch) > 0)
			break;
		if (what->by_age && (int32_t)(page->dirtied_ms - what->before_ms) >= 0)
			break;
		if (wb_page_state(page) != WB_PAGE_DIRTY) {
			passed = id;
			continue;
		}
		unsigned nr = run_make(file, id, what, what->max_pages - total, ios);
		if (nr == 0)
			break;
		total += nr;
	}
	return total;
}

void wb_run_submit(struct wb_cache *cache, struct list *ios)
{
	if (!list_is_empty(ios))
		wb_device_submit(cache->device, ios);
}

void wb_run_wait_locked(struct wb_file *file)
{
	uint64_t seq = file->run_seq;

	lock_assert_held(&file->lock);
	while (!list_is_empty(&file->ios) && list_first(&file->ios, struct wb_run, file_link)->seq <= seq)
		cond_wait(&file->changed, &file->lock);
}

/* What became of the pages. */
static void run_finish_locked(struct wb_run *run)
{
	struct wb_file *file = run->file;
	bool ok = run->io.res == 0;

	lock_assert_held(&file->lock);
	for (unsigned i = 0; i < run->nr_pages; i++) {
		enum wb_page_state state = wb_page_state(wb_page(file->cache, run->ids[i]));
		bool clean = ok && state == WB_PAGE_WRITEBACK;
		wb_page_move_owed_locked(file, run->ids[i], clean ? WB_PAGE_CLEAN : WB_PAGE_DIRTY);
	}
	wb_file_count_locked(file);
	if (ok) {
		uint64_t end = run->io.off + run->io.len;
		if (end > file->backing_size)
			file->backing_size = end;
		file->err_backoff_ms = 0;
		file->err_retry_ms = wb_cache_time_ms(file->cache);
	} else if (run->direct && run->io.res == -EINVAL) {
		/* Not an error yet: the next attempt goes through the page cache of the backing. */
		file->no_direct = true;
		file->redo_seq++;
	} else {
		wb_file_record_error_locked(file, run->io.res);
	}
	list_del(&run->file_link);
	wb_file_check_locked(file);
	cond_wake_all(&file->changed);
}

/* On the device's thread. */
static void run_done(struct wb_io *io)
{
	struct wb_run *run = list_entry(io, struct wb_run, io);
	struct wb_file *file = run->file;
	struct wb_cache *cache = file->cache;

	lock_take(&file->lock);
	run_finish_locked(run);
	bool rest = file->nr_dirty == 0 && list_is_empty(&file->ios);
	lock_release(&file->lock);
	if (wb_gate_sub(&cache->gate, run->nr_pages) &&
	    atomic_load(&cache->gate.mode) == WB_CONGESTION_BLOCK)
		atomic_fetch_add(&cache->flusher.wakeups_gate, 1);
	wb_cache_wake_waiting(cache);
	if (rest)
		wb_file_settle(file);
	wb_file_unref(file);
	free(run);
}
