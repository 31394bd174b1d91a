/* SPDX-License-Identifier: MIT */
/*
 * Bytes out of pages: pinned, not copied.
 *
 * A read pins the pages of its range and points an iovec at them; the reply is then made from the pages themselves. What
 * is not resident is read from the backing into new pages, in runs. A read never waits for memory: when the cache is full of pages that
 * cannot be freed, the rest is read into a buffer of its own, or readers that hold pins could wait for each other.
 */
#include "writeback/private.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/sizes.h"

/* Pins a page and appends its bytes [from, to) to the answer. */
static void read_add_locked(struct wb_read *read, uint32_t id, size_t from, size_t to)
{
	struct wb_page *page = wb_page(read->file->cache, id);
	char *data = wb_page_data(read->file->cache, id);
	struct iovec *last = read->nr_iov ? &read->iov[read->nr_iov - 1] : NULL;

	page->pins++;
	if (!wb_page_flag(page, WB_PAGE_REFERENCED))
		wb_page_set_flag(page, WB_PAGE_REFERENCED, true);
	read->page[read->nr_pages++] = id;
	if (last && (char *)last->iov_base + last->iov_len == data + from)
		last->iov_len += to - from;
	else
		read->iov[read->nr_iov++] = (struct iovec){ data + from, to - from };
}

/* How many pages from @index on, at most @max, are not resident. */
static unsigned missing_locked(struct wb_file *file, uint64_t index, unsigned max)
{
	uint32_t id = wb_index_from_locked(file, index);
	uint64_t until = id ? wb_page(file->cache, id)->index : UINT64_MAX;

	return (unsigned)min_u64(until - index, max);
}

/* Reads up to @nr absent pages from @index on. How many are resident now; 0: no memory; or -errno. */
static int read_in_locked(struct wb_file *file, uint64_t index, unsigned nr)
{
	uint32_t ids[WB_RUN_PAGES];

	lock_release(&file->lock);
	unsigned got = wb_page_alloc(file->cache, nr < WB_RUN_PAGES ? nr : WB_RUN_PAGES, false, ids);
	lock_take(&file->lock);
	if (got == 0)
		return 0;
	/* Others may have been faster meanwhile. */
	nr = missing_locked(file, index, got);
	for (unsigned i = 0; i < nr; i++) {
		wb_page_attach_locked(file, ids[i], index + i);
		wb_page_set_flag(wb_page(file->cache, ids[i]), WB_PAGE_FILLING, true);
	}
	wb_file_count_locked(file);
	lock_release(&file->lock);
	if (nr < got)
		wb_arena_give(&file->cache->arena, ids + nr, got - nr);
	int r = nr > 0 ? wb_file_fill(file, index, nr, ids) : 0;
	lock_take(&file->lock);
	for (unsigned i = 0; i < nr; i++) {
		wb_page_set_flag(wb_page(file->cache, ids[i]), WB_PAGE_FILLING, false);
		if (r < 0)
			wb_page_drop_locked(file, ids[i]);
	}
	cond_wake_all(&file->changed);
	return r < 0 ? r : 1;
}

/* The bytes [off, off + len) of one absent page by way of a buffer; hung onto the answer as an iovec that read_release frees. */
static int read_around(struct wb_read *read, uint64_t off, size_t len)
{
	struct wb_file *file = read->file;

	if (!read->bounce) {
		read->bounce = malloc(WB_MAX_READ + 2 * WB_PAGE_SIZE);
		if (!read->bounce)
			return -ENOMEM;
	}
	lock_take(&file->lock);
	uint64_t end = file->backing_size;
	int fd = file->fd;
	lock_release(&file->lock);
	char *to = read->bounce + read->bounced;
	size_t have = off >= end ? 0 : (size_t)min_u64(end - off, len), done = 0;
	while (done < have) {
		ssize_t n = pread(fd, to + done, have - done, (off_t)(off + done));
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			break;
		done += (size_t)n;
	}
	memset(to + done, 0, len - done);
	read->bounced += len;
	read->iov[read->nr_iov++] = (struct iovec){ to, len };
	return 0;
}

static int read_page(struct wb_read *read, uint64_t off, size_t len, unsigned pages_left)
{
	struct wb_file *file = read->file;
	uint64_t index = off >> WB_PAGE_SHIFT;
	size_t from = off % WB_PAGE_SIZE;

	lock_take(&file->lock);
	for (;;) {
		uint32_t id = wb_index_find_locked(file, index);
		if (id && wb_page_flag(wb_page(file->cache, id), WB_PAGE_FILLING)) {
			cond_wait(&file->changed, &file->lock);
			continue;
		}
		if (id) {
			read_add_locked(read, id, from, from + len);
			lock_release(&file->lock);
			return 0;
		}
		int r = read_in_locked(file, index, missing_locked(file, index, pages_left));
		if (r > 0)
			continue;
		lock_release(&file->lock);
		return r < 0 ? r : read_around(read, off, len);
	}
}

int wb_file_read(struct wb_file *file, uint64_t off, size_t len, struct wb_read *ret_read)
{
	uint64_t size = atomic_load(&file->size);

	ret_read->file = NULL;
	ret_read->nr_iov = ret_read->nr_pages = 0;
	ret_read->len = 0;
	ret_read->bounce = NULL;
	ret_read->bounced = 0;
	if (len > WB_MAX_READ)
		len = WB_MAX_READ;
	if (off >= size)
		return 0;
	len = (size_t)min_u64(len, size - off);
	/* Whoever got the reply may close and remove the file before we have let go of its pages. */
	wb_file_ref(file);
	ret_read->file = file;
	while (ret_read->len < len) {
		uint64_t at = off + ret_read->len;
		size_t left = len - ret_read->len;
		size_t in_page = WB_PAGE_SIZE - at % WB_PAGE_SIZE;
		size_t part = left < in_page ? left : in_page;
		unsigned pages = (unsigned)div_round_up(at % WB_PAGE_SIZE + left, WB_PAGE_SIZE);
		int r = read_page(ret_read, at, part, pages);
		if (r < 0) {
			wb_read_release(ret_read);
			return r;
		}
		ret_read->len += part;
	}
	return 0;
}

void wb_read_release(struct wb_read *read)
{
	if (read->nr_pages > 0) {
		LOCK_SCOPE(&read->file->lock);
		for (unsigned i = 0; i < read->nr_pages; i++)
			wb_page_unpin_locked(read->file, read->page[i]);
	}
	free(read->bounce);
	read->bounce = NULL;
	read->nr_pages = read->nr_iov = 0;
	if (read->file)
		wb_file_unref(take_ptr(read->file));
}
