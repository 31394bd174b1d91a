/* SPDX-License-Identifier: MIT */
/*
 * Resident pages and their way to the backing file.
 *
 * Knows no uid: charging is done before a page gets here. A cache has files, a file has pages; the flusher
 * carries dirty ones through the gate to the device. Knobs may change at any time. Unless a function says
 * otherwise it may be called from any thread, returns 0 or -errno, and does not keep its pointers.
 */
#ifndef WRITEBACK_WRITEBACK_H
#define WRITEBACK_WRITEBACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#define WB_PAGE_SIZE 4096u
#define WB_PAGE_SHIFT 12
#define WB_MAX_READ (1u << 20)
#define WB_MAX_READ_PAGES (WB_MAX_READ / WB_PAGE_SIZE + 1)

struct wb_cache;
struct wb_file;

/** How pages beyond the old size are found after a refused write: docs/overquota.md. */
enum wb_rollback {
	WB_ROLLBACK_LIST,    /* every resident page of the file is visited */
	WB_ROLLBACK_BOUNDED, /* list or look-ups by range * 4; range ends at max(write size, size) */
	WB_ROLLBACK_ORDERED, /* the index is scanned from the new end */
};

enum wb_congestion {
	WB_CONGESTION_NONE,
	WB_CONGESTION_SKIP,
	WB_CONGESTION_BLOCK,
};

enum wb_completion {
	WB_COMPLETION_STREAM,
	WB_COMPLETION_BATCH,
};

enum wb_engine {
	WB_ENGINE_AUTO, /* io_uring, or pwrite with a notice where no ring can be made */
	WB_ENGINE_URING,
	WB_ENGINE_PWRITE,
};

/** A modelled device; all zero: none. */
struct wb_device_model {
	uint64_t rate;	     /* bytes per second; 0: unlimited */
	uint64_t latency_ns; /* added to every write, overlapping up to depth */
	uint64_t seek_ns;    /* device time of a write that does not follow its predecessor */
	uint32_t depth;	     /* writes in service at once; 0: unlimited */
};

struct wb_config {
	uint64_t cache_bytes;
	uint64_t dirty_bytes;		 /* 0: 20 % of cache_bytes */
	uint64_t dirty_background_bytes; /* 0: 10 % of cache_bytes */
	uint32_t dirty_expire_centisecs;
	uint32_t dirty_writeback_centisecs; /* 0: no periodic write-back */
	enum wb_congestion congestion;
	uint64_t congestion_kb; /* ON; 0: the kernel's formula */
	enum wb_completion completion;
	uint32_t restart_poll_ms;
	uint64_t pass_bytes; /* 0: half a second of measured bandwidth, scaled with ON */
	struct wb_device_model device;
	enum wb_engine engine; /* at creation only */
};

struct wb_stats {
	struct {
		uint64_t count, pages_visited, pages_freed, by_list, by_tree, time_ns, lock_held_ns;
	} rollback;
	struct {
		uint64_t pages, dirty, writeback, files, reclaimed, oldest_dirty_ns;
		uint64_t limit_pages, created;
		uint64_t bookkeeping_bytes; /* of all resident pages, their places in index and lists included */
	} cache;
	struct {
		bool congested;
		uint64_t outstanding, on, off; /* pages */
		uint64_t times_congested, passes_skipped, waits, wait_ns;
	} gate;
	struct {
		uint64_t passes, pages, wakeups_poll, wakeups_timer, wakeups_gate;
	} flusher;
	struct {
		uint64_t pauses, pause_ns;
	} throttle;
	struct {
		uint64_t writes, bytes, fsyncs, busy_ns, idle_ns, inflight, errors;
		const char *engine; /* "io_uring" or "pwrite" */
	} device;
};

/** What one rollback did; also added up in wb_stats. */
struct wb_rollback_result {
	uint64_t pages_visited;
	uint64_t pages_freed;
	bool by_list;
	uint64_t time_ns;      /* the waits included */
	uint64_t lock_held_ns; /* the file's lock held by the walk */
};

/** What the owner of a file is told. Called without any lock of this folder held. */
struct wb_file_ops {
	/* The first page became dirty: keep the owner alive until clean(). Under no lock, by the writer. */
	void (*dirty)(void *owner);
	/* Nothing is dirty or in flight any more, pages have been written since dirty(). The file may be closed
	 * or freed from within. By the thread that completes writes: must not wait for write-back. */
	void (*clean)(void *owner);
};

/* ---- the cache ---- */

int wb_cache_new(const struct wb_config *config, struct wb_cache **ret_cache);

/** Writes back everything, stops all threads, frees. Every file must be freed before. */
void wb_cache_free(struct wb_cache *cache);

/** Changes every knob but the engine, live. -ERANGE when cache_bytes is above wb_cache_max_bytes(). */
int wb_cache_configure(struct wb_cache *cache, const struct wb_config *config);
void wb_cache_get_config(struct wb_cache *cache, struct wb_config *ret_config);

/** The most that cache_bytes can be set to: the machine's memory. */
uint64_t wb_cache_max_bytes(void);

/** Writes back all that is dirty now, gate bypassed, and waits. 0, or the first error met; what failed stays dirty. */
int wb_cache_sync(struct wb_cache *cache);

/** Tells waiters at the gate and in the throttle that the end is near: they go on at once. Before unmounting. */
void wb_cache_shutdown_begin(struct wb_cache *cache);

/** Where a writer pauses while too much is dirty. Called before any lock is taken; wakes the flusher as
 *  restart_poll_ms allows. @bytes: what is about to be written. */
void wb_throttle(struct wb_cache *cache, uint64_t bytes);

void wb_cache_get_stats(struct wb_cache *cache, struct wb_stats *ret_stats);
void wb_cache_reset_stats(struct wb_cache *cache);

/* ---- a file ----
 * The caller serialises writes, truncation, rollback and dropping of one file (the inode lock); reads, sync and
 * write-back may run beside them.
 */

/** A file without descriptors and pages, one reference. @ino: for messages. */
int wb_file_new(struct wb_cache *cache, uint64_t ino, uint64_t size, const struct wb_file_ops *ops,
		void *owner, struct wb_file **ret_file);

/** Drops every page, dirty ones too (they are then never written), waits for those in flight, and gives up the
 *  owner's reference. ops are not called any more: true if dirty() was called and its clean() is owed. */
bool wb_file_free(struct wb_file *file);

/** Counts a user of the file's descriptors. False when it has none yet: wb_file_set_fd() must follow. */
bool wb_file_get(struct wb_file *file);

/** Gives the file its descriptor, opened for reading and, where the backing allows it, writing; takes ownership. If another thread was
 *  first, @fd is closed. Another one with O_DIRECT is opened from it where the backing can. */
void wb_file_set_fd(struct wb_file *file, int fd);

/** A user less; descriptors are closed when there is none and nothing is dirty. */
void wb_file_put(struct wb_file *file);

/** The backing descriptor, for calls beside the cache; -1 when there is none. Valid while the caller counts as a user. */
int wb_file_fd(struct wb_file *file);

uint64_t wb_file_size(struct wb_file *file);
bool wb_file_is_dirty(struct wb_file *file); /* dirty or in flight */
uint64_t wb_file_resident(struct wb_file *file); /* pages */

/** Copies @len bytes at @off into dirty pages; what a partial page lacks is read first. Size grows to off + len.
 *  On failure nothing beyond the old size is kept. Waits for memory, never fails for want of it while cache_bytes >= 1 MiB. */
int wb_file_write(struct wb_file *file, uint64_t off, const void *buf, size_t len);

/** Makes clean pages for a range without data (zeroes, or the backing's bytes): what a file system does before it
 *  allocates a block that is not wholly overwritten. */
int wb_file_create_pages(struct wb_file *file, uint64_t off, uint64_t len);

/** Starts write-back of dirty pages in the range and does not wait; the gate is not asked. */
void wb_file_write_behind(struct wb_file *file, uint64_t off, uint64_t len);

/** Undoes a refused write: the size becomes @size, pages from there on are looked for as @how says and freed,
 *  after all of the file's output in flight is done. @write_size: how far the write had raised its claim.
 *  @block_size: bounded rounds the end of its range up to it. */
int wb_file_rollback(struct wb_file *file, enum wb_rollback how, uint64_t size, uint64_t write_size,
		     uint64_t block_size, struct wb_rollback_result *ret_result);

/** truncate(2), both ways, the backing file included. */
int wb_file_truncate(struct wb_file *file, uint64_t size);

/** Tells the cache that the backing file's size was changed beside it (fallocate, copy_file_range). */
void wb_file_size_changed(struct wb_file *file, uint64_t size);

/** Pinned pages of a read. */
struct wb_read {
	struct wb_file *file;
	unsigned nr_iov;
	unsigned nr_pages;
	size_t len;
	char *bounce;	 /* what found no room in the cache */
	size_t bounced;
	struct iovec iov[WB_MAX_READ_PAGES];
	uint32_t page[WB_MAX_READ_PAGES];
};

/** Pins the pages of a range, read from the backing where they are not resident, and points iov at the bytes; len ends at the
 *  file's size. @len at most WB_MAX_READ. Must be given back by wb_read_release(). */
int wb_file_read(struct wb_file *file, uint64_t off, size_t len, struct wb_read *ret_read);
void wb_read_release(struct wb_read *read);

/** Writes what is dirty in the range now and waits; the gate is not asked, later writes are not waited for. */
int wb_file_flush(struct wb_file *file, uint64_t off, uint64_t len);

/** As wb_file_flush() for a range, then drops the pages: before the backing's bytes are changed beside the cache. */
int wb_file_invalidate(struct wb_file *file, uint64_t off, uint64_t len);

/** wb_file_flush() of all, then fdatasync/fsync of the backing. Does not report earlier errors: wb_file_error() does. */
int wb_file_sync(struct wb_file *file, bool datasync);

/** The errors of write-back since *@seen, reported once: 0 or -errno, and *@seen moves on. */
int wb_file_error(struct wb_file *file, uint32_t *seen);
/** Where a new handle starts: errors nobody has been told of yet are still to come. */
uint32_t wb_file_error_sample(struct wb_file *file);

#endif
