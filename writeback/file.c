/* SPDX-License-Identifier: MIT */
/*
 * A file of the cache: its life, its descriptors, its errors.
 *
 * A file outlives its openers: clean pages stay resident when the last one closes it, and dirty pages keep its descriptors
 * open until they are written. Whoever works on a file without being its owner (a pass, a sync, a write in
 * flight) holds a reference.
 *
 * The owner is told twice per round: dirty() before the first page becomes dirty, clean() when the file has come
 * to rest. clean() is never called while a write is copying, or the owner could let go of a file that becomes dirty
 * a moment later.
 */
#include "writeback/private.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/sizes.h"

#define BACKOFF_FIRST_MS 100
#define BACKOFF_MAX_MS 5000

int wb_file_new(struct wb_cache *cache, uint64_t ino, uint64_t size, const struct wb_file_ops *ops,
		void *owner, struct wb_file **ret_file)
{
	struct wb_file *file = calloc(1, sizeof(*file));

	if (!file)
		return -ENOMEM;
	lock_init(&file->lock);
	cond_init(&file->changed);
	file->cache = cache;
	file->ino = ino;
	file->ops = ops;
	file->owner = owner;
	file->refs = 1;
	file->size = file->backing_size = size;
	file->fd = file->fd_direct = -1;
	file->gap_index = UINT64_MAX;
	list_init(&file->dirty_link);
	list_init(&file->ios);

	LOCK_SCOPE(&cache->files_lock);
	list_add_tail(&cache->files, &file->files_link);
	cache->nr_files++;
	*ret_file = file;
	return 0;
}

void wb_file_ref(struct wb_file *file)
{
	atomic_fetch_add(&file->refs, 1);
}

void wb_file_unref(struct wb_file *file)
{
	if (atomic_fetch_sub(&file->refs, 1) != 1)
		return;
	assert(file->nr_resident == 0 && file->fd < 0);
	cond_fini(&file->changed);
	lock_fini(&file->lock);
	free(file);
}

static void close_fds_locked(struct wb_file *file)
{
	lock_assert_held(&file->lock);
	if (file->fd >= 0)
		close(file->fd);
	if (file->fd_direct >= 0)
		close(file->fd_direct);
	file->fd = file->fd_direct = -1;
}

bool wb_file_free(struct wb_file *file)
{
	struct wb_cache *cache = file->cache;

	lock_take(&file->lock);
	file->dead = true;
	/* What is not in flight goes at once, the rest when it has landed; a page being filled has a reader that holds the owner. */
	for (;;) {
		uint32_t next;
		for (uint32_t id = file->res_head; id; id = next) {
			next = wb_page(cache, id)->res_next;
			enum wb_page_state state = wb_page_state(wb_page(cache, id));
			if (state == WB_PAGE_CLEAN || state == WB_PAGE_DIRTY)
				wb_page_drop_locked(file, id);
		}
		if (file->nr_resident == 0 && list_is_empty(&file->ios))
			break;
		cond_wait(&file->changed, &file->lock);
	}
	bool owed = file->told_dirty;
	file->told_dirty = false;
	close_fds_locked(file);
	lock_release(&file->lock);

	lock_take(&cache->files_lock);
	list_del(&file->files_link);
	cache->nr_files--;
	lock_release(&cache->files_lock);
	wb_cache_wake_waiting(cache);
	wb_file_unref(file);
	return owed;
}

/* ---- descriptors ---- */

bool wb_file_get(struct wb_file *file)
{
	LOCK_SCOPE(&file->lock);
	file->users++;
	return file->fd >= 0;
}

void wb_file_set_fd(struct wb_file *file, int fd)
{
	char path[64];

	LOCK_SCOPE(&file->lock);
	if (file->fd >= 0) {
		close(fd);
		return;
	}
	file->fd = fd;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	int flags = fcntl(fd, F_GETFL);
	/* A file opened for reading only never has dirty pages of its own. */
	if (flags >= 0 && (flags & O_ACCMODE) == O_RDWR)
		file->fd_direct = open(path, O_RDWR | O_DIRECT | O_CLOEXEC);
}

void wb_file_put(struct wb_file *file)
{
	LOCK_SCOPE(&file->lock);
	assert(file->users > 0);
	if (--file->users == 0 && !file->told_dirty)
		close_fds_locked(file);
}

int wb_file_fd(struct wb_file *file)
{
	LOCK_SCOPE(&file->lock);
	return file->fd;
}

uint64_t wb_file_size(struct wb_file *file)
{
	return atomic_load(&file->size);
}

uint64_t wb_file_resident(struct wb_file *file)
{
	LOCK_SCOPE(&file->lock);
	return file->nr_resident;
}

bool wb_file_is_dirty(struct wb_file *file)
{
	LOCK_SCOPE(&file->lock);
	return file->nr_dirty > 0 || file->nr_inflight > 0;
}

void wb_file_size_changed(struct wb_file *file, uint64_t size)
{
	LOCK_SCOPE(&file->lock);
	atomic_store(&file->size, size);
	file->backing_size = size;
}

void wb_file_settle(struct wb_file *file)
{
	lock_take(&file->lock);
	bool rest = file->told_dirty && !file->dead && file->writers == 0 && file->nr_dirty == 0 &&
		    list_is_empty(&file->ios);
	if (!rest) {
		lock_release(&file->lock);
		return;
	}
	/* The descriptor stays until the owner has been told: it may want to set times. */
	file->users++;
	file->told_dirty = false;
	lock_release(&file->lock);
	wb_file_ref(file);
	file->ops->clean(file->owner);
	lock_take(&file->lock);
	if (--file->users == 0 && !file->told_dirty && !file->dead)
		close_fds_locked(file);
	lock_release(&file->lock);
	wb_file_unref(file);
}

/* ---- errors, after lib/errseq.c of Linux: each opener is told once, and one nobody was told of waits for the next ---- */

void wb_file_record_error_locked(struct wb_file *file, int err)
{
	lock_assert_held(&file->lock);
	file->err = err;
	file->err_seq++;
	file->err_seen = false;
	uint32_t backoff = file->err_backoff_ms * 2;
	if (backoff == 0)
		backoff = BACKOFF_FIRST_MS;
	file->err_backoff_ms = backoff < BACKOFF_MAX_MS ? backoff : BACKOFF_MAX_MS;
	file->err_retry_ms = wb_cache_time_ms(file->cache) + file->err_backoff_ms;
}

uint32_t wb_file_error_sample(struct wb_file *file)
{
	LOCK_SCOPE(&file->lock);
	if (file->err_seq > 0 && !file->err_seen)
		return file->err_seq - 1;
	return file->err_seq;
}

int wb_file_error(struct wb_file *file, uint32_t *seen)
{
	LOCK_SCOPE(&file->lock);
	if (*seen == file->err_seq)
		return 0;
	*seen = file->err_seq;
	file->err_seen = true;
	return file->err;
}

/* ---- filling ---- */

static ssize_t read_some(int fd, struct iovec *iov, unsigned nr_iov, uint64_t off)
{
	ssize_t n;

	do
		n = preadv(fd, iov, (int)nr_iov, (off_t)off);
	while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : n;
}

/* Joins frames that follow each other in memory. */
static unsigned frames_iov(struct wb_cache *cache, const uint32_t *ids, unsigned nr, struct iovec *iov)
{
	unsigned nr_iov = 0;

	for (unsigned i = 0; i < nr; i++) {
		if (i > 0 && ids[i] == ids[i - 1] + 1) {
			iov[nr_iov - 1].iov_len += WB_PAGE_SIZE;
			continue;
		}
		iov[nr_iov++] = (struct iovec){ wb_page_data(cache, ids[i]), WB_PAGE_SIZE };
	}
	return nr_iov;
}

int wb_file_fill(struct wb_file *file, uint64_t first, unsigned nr, const uint32_t *ids)
{
	struct iovec iov[WB_RUN_PAGES];
	uint64_t off = first << WB_PAGE_SHIFT;

	assert(nr <= WB_RUN_PAGES);
	lock_take(&file->lock);
	uint64_t end = file->backing_size;
	int fd = file->fd;
	lock_release(&file->lock);

	size_t len = (size_t)nr * WB_PAGE_SIZE, done = 0;
	size_t have = off >= end ? 0 : (size_t)min_u64(end - off, len);
	if (have > 0 && fd < 0)
		return -EBADF;
	unsigned nr_iov = frames_iov(file->cache, ids, nr, iov), at = 0;
	while (done < have) {
		ssize_t n = read_some(fd, iov + at, nr_iov - at, off + done);
		if (n < 0)
			return (int)n;
		if (n == 0)
			break; /* shorter than it was: the rest reads as zeroes */
		done += (size_t)n;
		for (; n > 0 && (size_t)n >= iov[at].iov_len; at++)
			n -= (ssize_t)iov[at].iov_len;
		if (n > 0) {
			iov[at].iov_base = (char *)iov[at].iov_base + n;
			iov[at].iov_len -= (size_t)n;
		}
	}
	for (; at < nr_iov; at++)
		memset(iov[at].iov_base, 0, iov[at].iov_len);
	/* Bytes of the backing beyond our size (a truncation that is under way) are not ours to show. */
	if (done > have) {
		unsigned page = (unsigned)(have / WB_PAGE_SIZE);
		size_t from = have % WB_PAGE_SIZE;
		for (; page < nr; page++, from = 0)
			memset(wb_page_data(file->cache, ids[page]) + from, 0, WB_PAGE_SIZE - from);
	}
	return 0;
}
